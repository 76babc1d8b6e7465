package groups

import (
	"errors"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const week = 7 * 24 * time.Hour

// subscription is a consumer's metadata that names topics of one letter.
func subscription(topics ...string) []byte {
	b := []byte{0, 0, 0, 0, 0, byte(len(topics))}
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return b
}

// joinsTopics is a member alone in its group that reads topics.
func (s *story) joinsTopics(member string, topics ...string) JoinAnswer {
	a := &answer[JoinAnswer]{}
	s.c.Join(testKey, JoinRequest{Member: member, ClientID: "a", Session: 10 * time.Second, Limit: 30 * time.Second, Kind: "consumer",
		Protocols: []Protocol{{"range", subscription(topics...)}}}, a.take)
	j := a.now(s)
	s.syncs(j, "").now(s)
	return j
}

// stays lets a member live for a while.
func (s *story) stays(j JoinAnswer, d time.Duration) {
	s.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.passes(9 * time.Second)
		s.beats(j, "", nil)
	}
}

func (s *story) stores(topic byte, name string) {
	s.Helper()
	o := OffsetCommit{TopicID: rhumb.UUID{topic}, Topic: rhumb.Topic{Tenant: "public", Namespace: "default", Name: rhumb.TopicName(name)},
		Offset: 1, At: time.Now().UnixMilli()}
	s.disk.StoreOffsets(testKey, []OffsetCommit{o}, func(error) {})
}

func (s *story) left(want int) {
	s.Helper()
	s.c.Sweep(time.Now())
	if got := s.disk.Offsets(testKey); len(got) != want {
		s.Fatalf("%d positions are left, want %d", len(got), want)
	}
}

// TestPositionsExpireWhenTheGroupIsEmpty: the time counts from when the group
// became empty, and from the commit if that is later (KIP-211).
func TestPositionsExpireWhenTheGroupIsEmpty(t *testing.T) {
	tell(t, nil, func(s *story) {
		j := s.joinsTopics("", "t")
		s.stores(1, "t")
		s.stays(j, time.Hour)
		s.c.Leave(testKey, []MemberRef{refOf(j, "")})
		s.passes(week - time.Hour/2)
		s.left(1) // the commit is older than a week, the emptiness is not
		s.stores(2, "u")
		s.passes(time.Hour)
		s.left(1) // what an admin tool stored meanwhile
		s.passes(week)
		s.left(0)
		if len(s.disk.Group(testKey)) == 0 {
			s.Fatal("forgotten in the same step: the deletion may still be refused")
		}
		s.left(0)
		if keys := s.disk.Groups(); len(keys) != 0 {
			s.Fatalf("an empty group without positions is still there: %v", keys)
		}
		if _, err := s.c.Describe(testKey); rhumb.KindOf(err) != rhumb.KindNotFound {
			s.Fatal(err)
		}
	})
}

// TestPositionsOfUnreadTopicsExpire: while members read other topics (KIP-211).
func TestPositionsOfUnreadTopicsExpire(t *testing.T) {
	tell(t, func(c *Config) { c.OffsetsRetention = time.Minute }, func(s *story) {
		s.stores(1, "t")
		s.stores(2, "u")
		j := s.joinsTopics("", "t")
		s.stays(j, 2*time.Minute)
		s.left(1)
		if _, ok := s.disk.Offsets(testKey)[OffsetKey{TopicID: rhumb.UUID{1}}]; !ok {
			s.Fatal("the topic that it reads is gone")
		}
	})
}

// TestUnreadableMembersKeepEverything: of members whose bytes mean something else
// it is not known what they read.
func TestUnreadableMembersKeepEverything(t *testing.T) {
	tell(t, func(c *Config) { c.OffsetsRetention = time.Minute }, func(s *story) {
		s.stores(1, "t")
		a, b := s.pair("a", "b")
		for range 20 {
			s.passes(9 * time.Second)
			s.beats(a, "", nil)
			s.beats(b, "", nil)
		}
		s.left(1)
		errs, err := []error(nil), error(nil)
		s.c.DeleteOffsets(testKey, []OffsetCommit{s.commit(0)}, func(e []error, e2 error) { errs, err = e, e2 })
		if !errors.Is(err, ErrNotEmpty) {
			s.Fatal(errs, err)
		}
	})
}

func TestPositionsOfSimpleConsumersExpireByTheirAge(t *testing.T) {
	tell(t, nil, func(s *story) {
		s.commits(MemberRef{Generation: NoGeneration}, nil)
		s.passes(week - time.Minute)
		s.left(1)
		s.passes(2 * time.Minute)
		s.left(0)
	})
	tell(t, func(c *Config) { c.OffsetsRetention = -1 }, func(s *story) {
		s.commits(MemberRef{Generation: NoGeneration}, nil)
		s.passes(100 * week)
		s.left(1)
	})
}

// TestExpiryDoesNotTakeWhatIsOnItsWay: a commit that is handed over before an
// expiry, and applied only then, stays.
func TestExpiryDoesNotTakeWhatIsOnItsWay(t *testing.T) {
	tell(t, nil, func(s *story) {
		s.commits(MemberRef{Generation: NoGeneration}, nil)
		s.passes(week + time.Minute)
		s.disk.set(true, nil)
		done := &answer[error]{}
		s.c.Commit(testKey, MemberRef{Generation: NoGeneration}, []OffsetCommit{s.commit(0)}, done.take)
		s.c.Sweep(time.Now())
		s.disk.set(false, nil)
		if len(s.disk.Offsets(testKey)) != 1 || done.now(s) != nil {
			s.Fatal("a position that was committed just now expired")
		}
	})
}

func TestDeletingOffsets(t *testing.T) {
	tell(t, nil, func(s *story) {
		ask := func(topics ...byte) (errs []error, err error) {
			var all []OffsetCommit
			for _, n := range topics {
				name := rhumb.TopicName(map[byte]string{1: "t", 2: "u"}[n])
				all = append(all, OffsetCommit{TopicID: rhumb.UUID{n}, Topic: rhumb.Topic{Tenant: "public", Namespace: "default", Name: name}})
			}
			s.c.DeleteOffsets(testKey, all, func(e []error, e2 error) { errs, err = e, e2 })
			return errs, err
		}
		if _, err := ask(1); rhumb.KindOf(err) != rhumb.KindNotFound {
			s.Fatal(err)
		}
		s.stores(1, "t")
		s.stores(2, "u")
		j := s.joinsTopics("", "t")
		if errs, err := ask(1, 2); err != nil || !errors.Is(errs[0], ErrSubscribed) || errs[1] != nil || len(s.disk.Offsets(testKey)) != 1 {
			s.Fatal(errs, err)
		}
		s.c.Leave(testKey, []MemberRef{refOf(j, "")})
		if errs, err := ask(1, 1); err != nil || errs[0] != nil || len(s.disk.Offsets(testKey)) != 0 {
			s.Fatal(errs, err)
		}
	})
}

// TestP15DeletedGroupStaysDeleted, over a restart and with all it had.
func TestP15DeletedGroupStaysDeleted(t *testing.T) {
	tell(t, nil, func(s *story) {
		j := s.joinsTopics("", "t")
		s.stores(1, "t")
		del := func() error {
			a := &answer[error]{}
			s.c.DeleteGroup(testKey, a.take)
			return a.now(s)
		}
		if err := del(); !errors.Is(err, ErrNotEmpty) {
			s.Fatal(err)
		}
		s.c.Leave(testKey, []MemberRef{refOf(j, "")})
		if err := del(); err != nil {
			s.Fatal(err)
		}
		s.crashes()
		if keys := s.disk.Groups(); len(keys) != 0 || len(s.c.List("public", "default")) != 0 {
			s.Fatalf("%v", keys)
		}
		if err := del(); rhumb.KindOf(err) != rhumb.KindNotFound {
			s.Fatal(err)
		}
		s.beats(j, "", ErrUnknownMember)
	})
}
