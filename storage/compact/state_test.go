package compact

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func TestMarksStayFewAndSafe(t *testing.T) {
	start := time.UnixMilli(1e12)
	s := NewState()
	for i := range 200 {
		now := start.Add(time.Duration(i*i) * time.Second)
		next := s.After(Outcome{Cleaned: rhumb.Offset(i+1) * 10, Tombstone: 3, Waiting: 3, Held: rhumb.NoOffset}, now)
		if len(next.Marks) > MaxMarks {
			t.Fatalf("%d marks", len(next.Marks))
		}
		// A mark must never say that something was seen earlier than it was.
		for _, m := range next.Marks {
			seen := m.Below/10 - 1
			if at := start.Add(time.Duration(seen*seen) * time.Second); m.At < at.UnixMilli() {
				t.Fatalf("below %d by %d, was seen at %d", m.Below, m.At, at.UnixMilli())
			}
		}
		s = next
	}
	if h := s.Horizon(start.Add(1e6*time.Second), time.Second); h != 2000 {
		t.Errorf("horizon %d long after all passes, want 2000", h)
	}
	if h := s.Horizon(start, time.Second); h != 0 {
		t.Errorf("horizon %d before all passes", h)
	}
	s = s.After(Outcome{Cleaned: 2000, Horizon: 2000, Restart: true, Tombstone: 3, Waiting: rhumb.NoOffset, Held: 5}, start.Add(2e6*time.Second))
	if len(s.Marks) != 1 || s.Waiting != 3 || s.Held != rhumb.NoOffset || s.Horizon(start.Add(2e6*time.Second), time.Second) != 0 {
		t.Errorf("after a restart: %+v", s)
	}
}

func TestDue(t *testing.T) {
	now := time.UnixMilli(1e12)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	p := Policy{MaxLag: time.Hour, DeleteRetention: time.Hour, DirtyRatio: 0.5}
	waiting := NewState()
	waiting.Waiting, waiting.Marks = 5, []Mark{{10, ago(2 * time.Hour)}}
	later := NewState()
	later.Waiting, later.Marks = 15, waiting.Marks
	held := NewState()
	held.Held = 7
	for _, c := range []struct {
		name  string
		state State
		load  Load
		due   bool
	}{
		{"nothing", NewState(), Load{}, false},
		{"all dirty", NewState(), Load{Dirty: 1, Oldest: ago(0)}, true},
		{"half dirty", NewState(), Load{Clean: 10, Dirty: 10, Oldest: ago(0)}, true},
		{"less than half", NewState(), Load{Clean: 11, Dirty: 10, Oldest: ago(0)}, false},
		{"old", NewState(), Load{Clean: 1000, Dirty: 1, Oldest: ago(61 * time.Minute)}, true},
		{"a tombstone's time is over", waiting, Load{Clean: 1000}, true},
		{"a tombstone was carried", held, Load{Clean: 1000, Carried: 7}, true},
		{"not yet", held, Load{Clean: 1000, Carried: 6}, false},
		{"that of none", later, Load{Clean: 1000}, false},
	} {
		if due := p.Due(&c.state, c.load, now); due != c.due {
			t.Errorf("%s: due %v", c.name, due)
		}
	}
}

func TestKeysKeepToTheirBudget(t *testing.T) {
	for _, budget := range []int64{1, 100_000, 1 << 20} {
		k := NewKeys(budget)
		n := 0
		for k.Room(1) {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], uint64(n))
			k.put(KeyOf(b[:]), rhumb.Offset(n))
			n++
		}
		if size := int64(len(k.slots)) * slotSize; n < firstSlots/2 || size*3/2 > max(budget, 2*firstSlots*slotSize) {
			t.Errorf("budget %d: %d keys in %d bytes", budget, n, size)
		}
		for i := range n {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], uint64(i))
			if at, _ := k.newest(KeyOf(b[:])); at != rhumb.Offset(i) {
				t.Fatalf("budget %d: key %d of %d has offset %d", budget, i, n, at)
			}
		}
	}
}
