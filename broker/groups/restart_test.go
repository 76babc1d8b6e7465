package groups

import (
	"errors"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// crashes loses what was not stored, and starts again on the rest.
func (s *story) crashes() {
	s.Helper()
	old := s.c
	s.disk = s.disk.crash(0).(*disk)
	old.Close()
	s.start(nil)
}

// TestMembersSurviveARestart: nobody notices, and one write was enough for that.
func TestMembersSurviveARestart(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, b := s.pair("a", "/one")
		before := s.disk.writes
		s.bothStay(a, b, time.Hour)
		if s.disk.writes != before || before != 1 {
			s.Fatalf("%d writes for the rebalance, %d more for heartbeats", before, s.disk.writes-before)
		}
		s.crashes()
		s.c.Sweep(time.Now()) // what a server does first
		s.passes(9 * time.Second)
		s.beats(a, "", nil) // sessions began anew
		s.beats(b, "one", nil)
		s.state(Stable, 2)
		s.commits(refOf(a, ""), nil)
		if got := string(s.syncs(b, "one").now(s).Assignment); got != "of "+b.Member {
			s.Fatalf("assigned %q", got)
		}
		s.crashes()
		s.c.Sweep(time.Now())
		s.passes(11 * time.Second) // nobody comes back
		s.state(Empty, 0)
	})
}

func (s *story) bothStay(a, b JoinAnswer, d time.Duration) {
	s.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.passes(9 * time.Second)
		s.beats(a, "", nil)
		s.beats(b, "one", nil)
	}
}

// TestRestartInTheMiddleOfARebalance: members go on at once with what they had,
// and who was on its way starts the next one.
func TestRestartInTheMiddleOfARebalance(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, b := s.pair("a", "b")
		s.joins("c", "").missing(s)
		s.joins("a", a.Member)
		s.crashes()
		began := time.Now()
		s.beats(b, "", nil)
		c := s.joins("c", "")
		c.missing(s)
		s.beats(b, "", ErrRebalancing)
		a2, b2 := s.joins("a", a.Member), s.joins("b", b.Member)
		if c.now(s).Generation != 3 || a2.now(s).Leader != a.Member || b2.now(s).Generation != 3 || time.Since(began) != 0 {
			s.Fatalf("%+v", c.now(s))
		}
		// The assignment is on its way to the disk when the power goes.
		s.disk.set(true, nil)
		s.syncs(c.now(s), "").missing(s)
		s.syncs(a2.now(s), "").missing(s)
		s.crashes()
		s.disk.set(false, nil)
		s.beats(c.now(s), "", ErrUnknownMember)
		s.beats(b2.now(s), "", ErrGeneration)
		s.beats(b, "", nil)
	})
}

// TestFailedWriteIsNoAssignment: nobody is told what is not stored, and all come
// again.
func TestFailedWriteIsNoAssignment(t *testing.T) {
	tell(t, nil, func(s *story) {
		j := s.joins("a", "").now(s)
		s.disk.set(false, errDisk)
		if err := s.syncs(j, "").now(s).Err; !errors.Is(err, errDisk) {
			s.Fatal(err)
		}
		s.disk.set(false, nil)
		s.beats(j, "", ErrRebalancing)
		again := s.joins("a", j.Member).now(s)
		if again.Generation != 2 || s.syncs(again, "").now(s).Err != nil {
			s.Fatalf("%+v", again)
		}
		s.disk.set(false, errDisk)
		s.c.Leave(testKey, []MemberRef{refOf(again, "")})
		s.passes(time.Second)
		s.disk.set(false, nil)
		s.c.Sweep(time.Now()) // it is tried again
		s.passes(time.Second)
		s.crashes()
		s.beats(again, "", ErrUnknownMember)
	})
}

// TestP10GroupThatMoves: who waits, asks or commits is sent on; a node that leads
// again starts from what is stored.
func TestP10GroupThatMoves(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, b := s.pair("a", "b")
		wait := s.joins("c", "")
		move := func(term uint64, away bool) {
			s.disk.mu.Lock()
			s.disk.term, s.disk.away = term, away
			s.disk.mu.Unlock()
		}
		move(1, true)
		if err := s.c.Heartbeat(testKey, refOf(a, "")); rhumb.KindOf(err) != rhumb.KindNotLeader {
			s.Fatal(err)
		}
		if err := wait.now(s).Err; rhumb.KindOf(err) != rhumb.KindNotLeader {
			s.Fatal(err)
		}
		done := &answer[error]{}
		s.c.Commit(testKey, refOf(a, ""), nil, done.take)
		if rhumb.KindOf(done.now(s)) != rhumb.KindNotLeader || s.c.Memory() != 0 {
			s.Fatal(done.now(s))
		}
		move(3, false)
		s.beats(b, "", nil)
		s.state(Stable, 2)
	})
}

// TestCloseAnswersAll: a node that stops keeps nobody waiting.
func TestCloseAnswersAll(t *testing.T) {
	tell(t, nil, func(s *story) {
		a, b := s.pair("a", "b")
		c := s.joins("c", "")
		s.c.Close()
		if err := c.now(s).Err; rhumb.KindOf(err) != rhumb.KindNotLeader {
			s.Fatal(err)
		}
		if err := s.c.Heartbeat(testKey, refOf(a, "")); rhumb.KindOf(err) != rhumb.KindNotLeader {
			s.Fatal(err)
		}
		s.crashes()
		s.beats(b, "", nil)
	})
}

// TestDamagedStateIsTold, hurts no other group, and can be deleted.
func TestDamagedStateIsTold(t *testing.T) {
	tell(t, nil, func(s *story) {
		s.disk.states[testKey] = []byte{recordVersion, 0, 0xff}
		if j := s.joins("a", "").now(s); rhumb.KindOf(j.Err) != rhumb.KindCorrupt {
			s.Fatalf("%+v", j)
		}
		other := testKey
		other.Group = "other"
		a := &answer[JoinAnswer]{}
		s.c.Join(other, JoinRequest{Session: time.Second, Kind: "x", Protocols: []Protocol{{"p", nil}}}, a.take)
		if a.now(s).Err != nil {
			s.Fatal(a.now(s).Err)
		}
		gone := &answer[error]{}
		s.c.DeleteGroup(testKey, gone.take)
		if gone.now(s) != nil || s.joins("a", "").now(s).Generation != 1 {
			s.Fatal(gone.now(s))
		}
	})
}
