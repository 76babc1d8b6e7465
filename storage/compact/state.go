package compact

import (
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// MaxMarks bounds the marks of a [State].
const MaxMarks = 16

// Mark says that a pass had seen all records below an offset at a time.
type Mark struct {
	Below rhumb.Offset
	At    int64 // ms since 1970
}

// State is how far a partition's log has been compacted. Start from [NewState].
type State struct {
	// Cleaned: a pass has seen all records below it.
	Cleaned rhumb.Offset
	// Marks, oldest first; both fields grow. A mark that was given up only makes
	// tombstones stay longer.
	Marks []Mark
	// Tombstone is the lowest tombstone below Cleaned, Waiting the lowest one that
	// waits for nothing but its time; NoOffset if there is none.
	Tombstone, Waiting rhumb.Offset
	// Held is the lowest tombstone whose time is over and that an edge has to carry.
	Held rhumb.Offset
}

// NewState is that of a log of which nothing has been compacted.
func NewState() State {
	return State{Tombstone: rhumb.NoOffset, Waiting: rhumb.NoOffset, Held: rhumb.NoOffset}
}

// Horizon is the offset below which tombstones have been seen retention ago.
func (s *State) Horizon(now time.Time, retention time.Duration) rhumb.Offset {
	below := rhumb.Offset(0)
	for _, m := range s.Marks {
		if m.At <= now.Add(-retention).UnixMilli() {
			below = max(below, m.Below)
		}
	}
	return below
}

// Outcome is what a pass that has ended leaves behind.
type Outcome struct {
	Cleaned rhumb.Offset // as far as it noted
	Horizon rhumb.Offset // that it had
	// Restart: a tombstone whose time was over still had an older record in front of
	// it. Its time, and that of all others, begins again.
	Restart bool
	// Tombstone is the lowest that stayed, Waiting the lowest at or above the horizon,
	// Held the lowest below it that an edge has to carry.
	Tombstone, Waiting, Held rhumb.Offset
}

// tombstone notes one that stays.
func (o *Outcome) tombstone(r Record) {
	note := func(lowest *rhumb.Offset) {
		if *lowest == rhumb.NoOffset {
			*lowest = r.Offset
		}
	}
	note(&o.Tombstone)
	switch {
	case r.Offset >= o.Horizon:
		note(&o.Waiting)
	case r.Held != 0:
		note(&o.Held)
	}
}

// After gives the state after a pass.
func (s *State) After(o Outcome, now time.Time) State {
	next := State{Cleaned: max(s.Cleaned, o.Cleaned), Tombstone: o.Tombstone, Waiting: o.Waiting, Held: o.Held}
	if o.Restart {
		next.Waiting, next.Held = o.Tombstone, rhumb.NoOffset
	}
	if !o.Restart {
		for _, m := range s.Marks {
			if m.Below >= o.Horizon { // those below it say nothing that it does not
				next.Marks = append(next.Marks, m)
			}
		}
	}
	if n := len(next.Marks); n == 0 || next.Marks[n-1].Below < next.Cleaned {
		next.Marks = append(next.Marks, Mark{next.Cleaned, now.UnixMilli()})
	}
	for len(next.Marks) > MaxMarks {
		next.Marks = dropClosest(next.Marks)
	}
	return next
}

// dropClosest gives up the mark whose successor came soonest after it.
func dropClosest(marks []Mark) []Mark {
	at := 0
	for i := 1; i+1 < len(marks); i++ {
		if marks[i+1].At-marks[i].At < marks[at+1].At-marks[at].At {
			at = i
		}
	}
	return slices.Delete(marks, at, at+1)
}

// Policy is how a partition is compacted; names and meanings are Kafka's.
type Policy struct {
	// MinLag is how long a record stays untouched, MaxLag after which time it is
	// looked at whatever the ratio; 0 means none.
	MinLag, MaxLag time.Duration
	// DeleteRetention is how long a tombstone stays after a pass has seen it.
	DeleteRetention time.Duration
	// DirtyRatio is the share of bytes behind Cleaned from which on a pass is worth it.
	DirtyRatio float64
}

// Load is what a partition's settled log holds.
type Load struct {
	Clean, Dirty int64        // bytes below Cleaned, and from there on as far as a pass may go
	Oldest       int64        // time of the first dirty batch, ms since 1970
	Carried      rhumb.Offset // edges have carried all own records up to it
}

// Due tells if a partition is worth a pass now.
func (p *Policy) Due(s *State, l Load, now time.Time) bool {
	if horizon := s.Horizon(now, p.DeleteRetention); s.Waiting != rhumb.NoOffset && s.Waiting < horizon {
		return true
	}
	if s.Held != rhumb.NoOffset && s.Held <= l.Carried {
		return true
	}
	if l.Dirty <= 0 {
		return false
	}
	if p.MaxLag > 0 && l.Oldest <= now.Add(-p.MaxLag).UnixMilli() {
		return true
	}
	return float64(l.Dirty) >= p.DirtyRatio*float64(l.Clean+l.Dirty)
}
