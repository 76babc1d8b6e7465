package groups

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// story is a group that a test tells of, step by step.
type story struct {
	*testing.T
	c    *Coordinator
	disk *disk
	ids  int
}

// tell runs a test on a clock of its own.
func tell(t *testing.T, change func(*Config), test func(s *story)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		s := &story{T: t, disk: newDisk()}
		s.start(change)
		defer func() { s.c.Close() }()
		test(s)
	})
}

func (s *story) start(change func(*Config)) {
	s.Helper()
	cfg := Config{Store: s.disk, InitialDelay: -1, MinSession: time.Second, MaxMembers: 5}
	cfg.newID = func(prefix string) string { s.ids++; return fmt.Sprint(prefix, "-", s.ids) }
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.c, err = New(cfg); err != nil {
		s.Fatal(err)
	}
}

// answer is what a request gets; it is nil until then.
type answer[A any] struct{ got atomic.Pointer[A] }

func (a *answer[A]) take(v A) { a.got.Store(&v) }

// now gives the answer, which must be there.
func (a *answer[A]) now(t testing.TB) A {
	t.Helper()
	synctest.Wait()
	got := a.got.Load()
	if got == nil {
		t.Fatal("no answer yet")
	}
	return *got
}

// missing checks that there is no answer.
func (a *answer[A]) missing(t testing.TB) {
	t.Helper()
	synctest.Wait()
	if got := a.got.Load(); got != nil {
		t.Fatalf("answered %+v, want it to wait", *got)
	}
}

// joins begins a JoinGroup. who is a client id, or /instance.
func (s *story) joins(who, id string, protocols ...string) *answer[JoinAnswer] {
	req := JoinRequest{Member: id, ClientID: who, Session: 10 * time.Second, Limit: 30 * time.Second, Kind: "consumer"}
	if instance, ok := strings.CutPrefix(who, "/"); ok {
		req.Instance = instance
	}
	if len(protocols) == 0 {
		protocols = []string{"range"}
	}
	for _, p := range protocols {
		req.Protocols = append(req.Protocols, Protocol{p, []byte(who)})
	}
	a := &answer[JoinAnswer]{}
	s.c.Join(testKey, req, a.take)
	synctest.Wait()
	return a
}

// syncs begins a SyncGroup of a member; a leader brings each member its own id.
func (s *story) syncs(j JoinAnswer, instance string) *answer[SyncAnswer] {
	req := SyncRequest{Member: refOf(j, instance)}
	for _, m := range j.Members {
		req.Assignments = append(req.Assignments, Assignment{m.ID, []byte("of " + m.ID)})
	}
	a := &answer[SyncAnswer]{}
	s.c.Sync(testKey, req, a.take)
	synctest.Wait()
	return a
}

func refOf(j JoinAnswer, instance string) MemberRef {
	return MemberRef{ID: j.Member, Instance: instance, Generation: j.Generation}
}

func (s *story) beats(j JoinAnswer, instance string, want error) {
	s.Helper()
	if err := s.c.Heartbeat(testKey, refOf(j, instance)); !errors.Is(err, want) {
		s.Fatalf("heartbeat of %s: %v, want %v", j.Member, err, want)
	}
}

func (s *story) commits(ref MemberRef, want error) {
	s.Helper()
	a := &answer[error]{}
	s.c.Commit(testKey, ref, []OffsetCommit{s.commit(0)}, a.take)
	if err := a.now(s); !errors.Is(err, want) {
		s.Fatalf("commit of %+v: %v, want %v", ref, err, want)
	}
}

func (s *story) commit(partition int32) OffsetCommit {
	return OffsetCommit{TopicID: rhumb.UUID{1}, Topic: rhumb.Topic{Tenant: "public", Namespace: "default", Name: "t"},
		Partition: partition, Offset: 5, At: time.Now().UnixMilli()}
}

func (s *story) passes(d time.Duration) { <-time.After(d); synctest.Wait() }

// state checks where the group stands.
func (s *story) state(want State, members int) {
	s.Helper()
	synctest.Wait()
	d, err := s.c.Describe(testKey)
	if err != nil || d.State != want || len(d.Members) != members {
		s.Fatalf("%v with %d members (%v), want %v with %d", d.State, len(d.Members), err, want, members)
	}
}

// pair makes a stable group of two.
func (s *story) pair(a, b string) (JoinAnswer, JoinAnswer) {
	s.Helper()
	first := s.joins(a, "").now(s)
	wait := s.joins(b, "")
	wait.missing(s)
	again := s.joins(a, first.Member)
	j1, j2 := again.now(s), wait.now(s)
	s1, s2 := s.syncs(j1, instanceOf(a)), s.syncs(j2, instanceOf(b))
	if got := string(s2.now(s).Assignment); got != "of "+j2.Member || string(s1.now(s).Assignment) != "of "+j1.Member {
		s.Fatalf("assigned %q", got)
	}
	s.state(Stable, 2)
	return j1, j2
}

func instanceOf(who string) string {
	instance, _ := strings.CutPrefix(who, "/")
	if instance == who {
		return ""
	}
	return instance
}

// TestGenerationsCountRebalances: a generation is one completed rebalance, not
// one join.
func TestGenerationsCountRebalances(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, b := s.pair("a", "b")
		if a.Generation != 2 || b.Generation != 2 || a.Leader != a.Member || len(b.Members) != 0 || len(a.Members) != 2 {
			s.Fatalf("%+v and %+v", a, b)
		}
		s.beats(a, "", nil)
		c := s.joins("c", "")
		s.beats(a, "", ErrRebalancing)
		s.commits(refOf(a, ""), nil) // legal while members gather
		again := s.joins("a", a.Member)
		again.missing(s)
		b2 := s.joins("b", b.Member).now(s)
		if j := c.now(s); j.Generation != 3 || b2.Generation != 3 || again.now(s).Generation != 3 {
			s.Fatalf("%+v", j)
		}
		s.commits(refOf(a, ""), ErrGeneration)
		s.commits(refOf(b2, ""), ErrRebalancing) // not while the leader assigns
		s.beats(b2, "", nil)
		if j := s.joins("b", b2.Member).now(s); j.Generation != 3 {
			s.Fatalf("who lost the answer is told again, of %+v", j)
		}
	})
}

func TestMemberIDsAreGivenOut(t *testing.T) {
	tell(t, nil, func(s *story) {
		req := JoinRequest{ClientID: "a", Session: 10 * time.Second, Limit: time.Second, Kind: "x", NeedsID: true, Protocols: []Protocol{{"p", nil}}}
		ask := func() JoinAnswer {
			a := &answer[JoinAnswer]{}
			s.c.Join(testKey, req, a.take)
			return a.now(s)
		}
		first := ask()
		if !errors.Is(first.Err, ErrMemberID) || first.Member != "a-1" {
			s.Fatalf("%+v", first)
		}
		req.Member = first.Member
		if j := ask(); j.Err != nil || j.Member != first.Member || j.Generation != 1 {
			s.Fatalf("%+v", j)
		}
		req.Member = ""
		for range s.c.cfg.MaxMembers {
			ask()
		}
		if j := ask(); !errors.Is(j.Err, ErrFull) {
			s.Fatalf("more ids than members: %+v", j)
		}
		s.passes(11 * time.Second)
		if used := s.c.Memory(); used != 0 {
			s.Fatalf("%d bytes held for ids that nobody used", used)
		}
		req.Member = "made-up"
		if j := ask(); !errors.Is(j.Err, ErrUnknownMember) {
			s.Fatalf("%+v", j)
		}
	})
}

func TestInitialDelayGathersMembers(t *testing.T) {
	tell(t, func(c *Config) { c.InitialDelay = 3 * time.Second }, func(s *story) {
		a := s.joins("a", "")
		s.passes(2 * time.Second)
		b := s.joins("b", "")
		s.passes(2 * time.Second)
		a.missing(s)
		s.passes(3 * time.Second)
		if a.now(s).Generation != 1 || len(a.now(s).Members) != 2 || b.now(s).Generation != 1 {
			s.Fatalf("%+v", a.now(s))
		}
	})
}

func TestP06LastAwaitedMemberLeaves(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, b := s.pair("a", "b")
		c := s.joins("c", "")
		again := s.joins("a", a.Member)
		c.missing(s)
		began := time.Now()
		if errs, err := s.c.Leave(testKey, []MemberRef{refOf(b, "")}); err != nil || errs[0] != nil {
			s.Fatal(errs, err)
		}
		if j := again.now(s); j.Generation != 3 || len(j.Members) != 2 || c.now(s).Generation != 3 || time.Since(began) != 0 {
			s.Fatalf("%+v after %v", j, time.Since(began))
		}
	})
}

// TestP06LastAwaitedMemberTimesOut is the same with a member that falls silent.
func TestP06LastAwaitedMemberTimesOut(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, _ := s.pair("a", "b")
		c := s.joins("c", "")
		again := s.joins("a", a.Member)
		s.passes(9 * time.Second)
		c.missing(s)
		s.passes(2 * time.Second) // the session of b is over, not the rebalance
		if c.now(s).Generation != 3 || len(again.now(s).Members) != 2 {
			s.Fatalf("%+v", c.now(s))
		}
	})
}

func TestP20ProtocolIsCommonToAll(t *testing.T) {
	tell(t, func(c *Config) { c.InitialDelay = time.Second }, func(s *story) {
		a := s.joins("a", "", "range", "cooperative")
		b := s.joins("b", "", "range")
		if j := s.joins("c", "", "cooperative").now(s); !errors.Is(j.Err, ErrProtocol) {
			s.Fatalf("%+v", j)
		}
		s.passes(3 * time.Second)
		if j := a.now(s); j.Protocol != "range" || b.now(s).Protocol != "range" {
			s.Fatalf("%+v", j)
		}
	})
	tell(t, func(c *Config) { c.InitialDelay = time.Second }, func(s *story) {
		all := []*answer[JoinAnswer]{s.joins("a", "", "x", "y"), s.joins("b", "", "y", "x"), s.joins("c", "", "z", "y", "x")}
		s.passes(3 * time.Second)
		if j := all[0].now(s); j.Protocol != "y" {
			s.Fatalf("two of three like y best of what all have, picked %q", j.Protocol)
		}
		other := JoinRequest{Session: 10 * time.Second, Kind: "connect", Protocols: []Protocol{{"y", nil}}}
		j := &answer[JoinAnswer]{}
		if s.c.Join(testKey, other, j.take); !errors.Is(j.now(s).Err, ErrProtocol) {
			s.Fatalf("another protocol type: %+v", j.now(s))
		}
	})
}

func TestP21SilentMemberIsRemoved(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, b := s.pair("a", "b")
		c := s.joins("c", "")
		again, b2 := s.joins("a", a.Member), s.joins("b", b.Member)
		leader, silent := again.now(s), c.now(s)
		s.syncs(b2.now(s), "").missing(s)
		s.syncs(leader, "")
		s.state(Stable, 3)
		for range 6 { // all beat; c never asks for its assignment
			s.passes(5 * time.Second)
			for _, j := range []JoinAnswer{leader, b2.now(s), silent} {
				s.c.Heartbeat(testKey, refOf(j, ""))
			}
		}
		s.state(PreparingRebalance, 2)
		again, b2 = s.joins("a", a.Member), s.joins("b", b.Member)
		s.syncs(b2.now(s), "")
		s.syncs(again.now(s), "")
		s.state(Stable, 2)
		d := s.joins("d", "") // and once more, now with a leader that falls silent
		b3 := s.joins("b", b.Member)
		s.joins("a", a.Member)
		wait := s.syncs(b3.now(s), "")
		for range 6 { // they beat; only a is expected to do more
			s.passes(5 * time.Second)
			for _, j := range []JoinAnswer{leader, d.now(s)} {
				s.c.Heartbeat(testKey, MemberRef{ID: j.Member, Generation: b3.now(s).Generation})
			}
		}
		if err := wait.now(s).Err; !errors.Is(err, ErrRebalancing) {
			s.Fatalf("who waits for a silent leader: %v", err)
		}
		if j := s.joins("a", a.Member).now(s); !errors.Is(j.Err, ErrUnknownMember) {
			s.Fatalf("the silent leader is still there: %+v", j)
		}
	})
}

func TestP28StaticMemberRejoinsDuringARebalance(t *testing.T) {
	for _, when := range []State{PreparingRebalance, CompletingRebalance, Stable} {
		tell(t, nil, func(s *story) {
			a, b := s.pair("a", "/one")
			var pending *answer[SyncAnswer]
			var joining *answer[JoinAnswer]
			switch when {
			case PreparingRebalance:
				s.joins("c", "")
				joining = s.joins("/one", b.Member)
			case CompletingRebalance:
				s.joins("c", "")
				joining = s.joins("/one", b.Member)
				s.joins("a", a.Member)
				pending = s.syncs(joining.now(s), "one")
			}
			s.state(when, map[State]int{PreparingRebalance: 3, CompletingRebalance: 3, Stable: 2}[when])
			again := s.joins("/one", "")
			if when == PreparingRebalance && !errors.Is(joining.now(s).Err, ErrFencedInstance) {
				s.Fatalf("the old process: %+v", joining.now(s))
			}
			if pending != nil && !errors.Is(pending.now(s).Err, ErrRebalancing) && !errors.Is(pending.now(s).Err, ErrFencedInstance) {
				s.Fatalf("the old process: %+v", pending.now(s))
			}
			s.state(map[bool]State{true: Stable, false: PreparingRebalance}[when == Stable], map[State]int{PreparingRebalance: 3, CompletingRebalance: 3, Stable: 2}[when])
			s.beats(b, "one", ErrFencedInstance)
			s.commits(refOf(b, "one"), ErrFencedInstance)
			if when == Stable {
				j := again.now(s)
				if j.Err != nil || j.Member == b.Member || j.Generation != b.Generation {
					s.Fatalf("%+v", j)
				}
				if got := string(s.syncs(j, "one").now(s).Assignment); got != "of "+b.Member {
					s.Fatalf("the new process is assigned %q", got)
				}
			}
			if j := s.joins("/two", a.Member).now(s); !errors.Is(j.Err, ErrUnknownMember) {
				s.Fatalf("a member id with another's instance id: %+v", j)
			}
		})
	}
}

// TestKIP814StaticLeaderSkipsAssignment: the new process of a static leader does
// not assign, and learns that it leads only if it can be told to keep still.
func TestKIP814StaticLeaderSkipsAssignment(t *testing.T) {
	for _, skips := range []bool{false, true} {
		tell(t, nil, func(s *story) {
			a, _ := s.pair("/one", "b")
			again := &answer[JoinAnswer]{}
			s.c.Join(testKey, JoinRequest{Instance: "one", Session: 10 * time.Second, Limit: time.Second, Kind: "consumer",
				Protocols: []Protocol{{"range", []byte("/one")}}, SkipsAssignment: skips}, again.take)
			j := again.now(s)
			if j.Skip != skips || (j.Leader == j.Member) != skips || (len(j.Members) == 2) != skips || !skips && j.Leader != a.Member {
				s.Fatalf("%+v", j)
			}
			s.state(Stable, 2)
		})
	}
}

func TestP30StaticMembersLeaveByInstanceID(t *testing.T) {
	tell(t, nil, func(s *story) {
		_, b := s.pair("a", "/one")
		again := s.joins("/one", "").now(s)
		refs := []MemberRef{{ID: b.Member, Instance: "one"}, {Instance: "none"}, {ID: "nobody"}, {Instance: "one"}}
		errs, err := s.c.Leave(testKey, refs)
		want := []error{ErrFencedInstance, ErrUnknownMember, ErrUnknownMember, nil}
		for i := range want {
			if err != nil || !errors.Is(errs[i], want[i]) {
				s.Fatalf("%+v: %v, want %v", refs[i], errs[i], want[i])
			}
		}
		s.beats(again, "one", ErrUnknownMember)
		back := s.joins("/one", "")
		s.state(PreparingRebalance, 2)
		s.passes(31 * time.Second) // a never comes
		if j := back.now(s); j.Err != nil || j.Leader != j.Member || len(j.Members) != 1 {
			s.Fatalf("%+v", j)
		}
		s.passes(11 * time.Second)
		s.state(Empty, 0)
		if s.c.Memory() != 0 {
			s.Fatalf("%d bytes held", s.c.Memory())
		}
	})
}

func TestP23ConsumersAreNeverAssignedNoBytes(t *testing.T) {
	tell(t, nil, func(s *story) {
		j := s.joins("a", "").now(s)
		j.Members = nil // it assigns nothing
		if got := s.syncs(j, "").now(s).Assignment; string(got) != "\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" {
			s.Fatalf("assigned %x", got)
		}
	})
}

// TestLimits: what a group and the node may hold.
func TestLimits(t *testing.T) {
	tell(t, func(c *Config) { c.MaxGroupBytes, c.Memory = 1000, 1500 }, func(s *story) {
		s.joins("a", "").now(s)
		if j := s.joins(strings.Repeat("b", 600), "").now(s); !errors.Is(j.Err, ErrFull) {
			s.Fatalf("%+v", j)
		}
		other := testKey
		for i := range 2 {
			other.Group = fmt.Sprint("other", i)
			a := &answer[JoinAnswer]{}
			s.c.Join(other, JoinRequest{Session: time.Second, Kind: "x", Protocols: []Protocol{{"p", nil}}}, a.take)
			if j := a.now(s); (i == 1) != (rhumb.KindOf(j.Err) == rhumb.KindUnavailable && j.Err != nil) {
				s.Fatalf("%+v", j)
			}
		}
	})
	tell(t, nil, func(s *story) {
		for _, session := range []time.Duration{time.Millisecond, 2 * time.Hour} {
			a := &answer[JoinAnswer]{}
			s.c.Join(testKey, JoinRequest{Session: session, Kind: "x", Protocols: []Protocol{{"p", nil}}}, a.take)
			if !errors.Is(a.now(s).Err, ErrSessionTimeout) {
				s.Fatalf("%v: %+v", session, a.now(s))
			}
		}
		all := []*answer[JoinAnswer]{}
		for i := range 7 {
			all = append(all, s.joins(fmt.Sprint("m", i), ""))
		}
		if !errors.Is(all[6].now(s).Err, ErrFull) {
			s.Fatalf("%+v", all[6].now(s))
		}
	})
}
