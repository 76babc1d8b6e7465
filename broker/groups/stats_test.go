package groups

import (
	"errors"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// positions stores positions in partitions from first on.
func (s *story) positions(k Key, first, n int32) (err error) {
	s.Helper()
	commits := make([]OffsetCommit, n)
	for i := range commits {
		commits[i] = OffsetCommit{TopicID: rhumb.UUID{1}, Partition: first + int32(i), Offset: 1, At: time.Now().UnixMilli()}
	}
	a := &answer[error]{}
	s.c.Commit(k, MemberRef{Generation: NoGeneration}, commits, a.take)
	return a.now(s)
}

// TestI9PositionsHaveALimit: new positions are refused at the group's and at the
// node's limit, none of a commit is stored then; those that are there still move.
func TestI9PositionsHaveALimit(t *testing.T) {
	limit := func(c *Config) { c.MaxOffsetBytes, c.OffsetMemory = 3000, 4500 }
	tell(t, limit, func(s *story) {
		other := Key{Tenant: testKey.Tenant, Namespace: testKey.Namespace, Group: "other"}
		if err := s.positions(testKey, 0, 10); err != nil {
			s.Fatal(err)
		}
		if err := s.positions(testKey, 9, 2); !errors.Is(err, ErrOffsetsFull) || len(s.disk.Offsets(testKey)) != 10 {
			s.Fatalf("an 11th position: %v", err)
		}
		if err := s.positions(testKey, 0, 10); err != nil {
			s.Fatalf("those that are there: %v", err)
		}
		if err := s.positions(other, 0, 6); !errors.Is(err, ErrOffsetsFull) {
			s.Fatalf("a 16th position of the node: %v", err)
		}
		if err := s.positions(other, 0, 5); err != nil {
			s.Fatal(err)
		}
		f := s.c.Figures()
		if f.Offsets != 15 || f.OffsetMemory != 4500 || f.Commits != 25 || f.CommitsRefused != 8 || f.States[Empty] != 2 {
			s.Fatalf("figures: %+v", f)
		}
	})
}

// TestFiguresFollowAGroup: states, members, rebalances and the time that they took.
func TestFiguresFollowAGroup(t *testing.T) {
	delay := func(c *Config) { c.InitialDelay = 3 * time.Second }
	tell(t, delay, func(s *story) {
		a := &answer[JoinAnswer]{}
		s.c.Join(testKey, JoinRequest{ClientID: "a", Session: 10 * time.Second, Limit: 30 * time.Second, Kind: "consumer",
			Protocols: []Protocol{{"range", subscription("t")}}}, a.take)
		if f := s.c.Figures(); f.States[PreparingRebalance] != 1 || f.Members != 1 || f.Rebalances != 0 || f.Joins != 0 {
			s.Fatalf("joining: %+v", f)
		}
		s.passes(4 * time.Second)
		j := a.now(s)
		if f := s.c.Figures(); f.States[CompletingRebalance] != 1 || f.Rebalances != 1 || f.Joins != 1 || f.JoinTime != 3*time.Second {
			s.Fatalf("joined: %+v", f)
		}
		s.syncs(j, "").now(s)
		if f := s.c.Figures(); f.States[Stable] != 1 || f.Syncs != 1 || f.Memory == 0 {
			s.Fatalf("stable: %+v", f)
		}
		s.c.Leave(testKey, []MemberRef{refOf(j, "")})
		s.passes(time.Second)
		if f := s.c.Figures(); f.States[Empty] != 1 || f.States[Stable] != 0 || f.Members != 0 || f.Memory != 0 {
			s.Fatalf("left: %+v", f)
		}
	})
}
