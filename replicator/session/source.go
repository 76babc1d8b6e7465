package session

import (
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Source is what a source says about its log of the session's origin life.
// All offsets are the origin's. Every field only grows. The zero value is not an
// empty log: start from [NewSource].
type Source struct {
	// Start is the place that the edge starts after; NoOffset: from the beginning.
	// Its chain is the source's there.
	Start dedup.ChainPoint

	// Floor is the last offset that the source does not have any more, on a batch
	// border; NoOffset: it has everything. Its chain is that before the first
	// batch it still has: see [dedup.ChainBefore].
	Floor dedup.ChainPoint

	// FloorReason says why what lies right below it is gone: retention or deleted.
	FloorReason rhumb.Reason

	// Floors are earlier floors, rising, where something else was why.
	Floors []Floor

	// FloorOpen says that compaction took the batch behind the floor: the chain there
	// is not known, the floor's is 0.
	FloorOpen bool

	// Compacted is the offset below which compaction may have taken batches and
	// records: a hole there has a cause.
	Compacted rhumb.Offset

	// Last, if Closed, is the last offset that the life names: it was closed there,
	// and what lies behind it belongs to another life. Then OwnLast and Head do not
	// lie past it, but End is that of the whole log.
	Closed bool
	Last   rhumb.Offset

	// Relay says that the source holds a copy of another region's life. The destination
	// may be further than it, since it has other paths. Then Head is behind all that the
	// copy accounts for and may leave, and Mark is the chain there.
	Relay bool
	Mark  dedup.ChainPoint

	// Gaps says why a copy lacks what it lacks, rising. What none of them names was
	// left out by policy up to Left, and compacted behind it.
	Gaps []Gap
	Left rhumb.Offset

	// OwnLast is the last offset of the last batch of the origin, NoOffset if none.
	// It may lie past Head.
	OwnLast rhumb.Offset

	// Head is the first offset that may not leave the region yet: what lies below
	// is committed and flushed on a majority.
	Head rhumb.Offset

	// End is the first offset that nothing has taken yet. Invariant: Head <= End.
	End rhumb.Offset
}

// Floor is a place up to which a source's records are gone, and why they are.
type Floor struct {
	dedup.ChainPoint
	Reason rhumb.Reason
}

// Gap is a range of origin offsets, both inclusive, that a copy will never get.
type Gap struct {
	From, To rhumb.Offset
	Reason   rhumb.Reason
	By       string // who ordered it, empty if no person did
}

// lacks says why a copy has nothing behind from up to a point, and who ordered it.
func (s *Source) lacks(from, to rhumb.Offset) (why rhumb.Reason, by string) {
	for _, g := range s.Gaps {
		if g.From <= to && g.To > from {
			return g.Reason, g.By
		}
	}
	if to <= s.Left {
		return rhumb.ReasonPolicy, ""
	}
	return rhumb.ReasonCompacted, ""
}

// lost says why a copy has nothing behind from up to its floor any more: one gap
// that covers all of it, else what moved the log start, else what it never had.
func (s *Source) lost(from rhumb.Offset) (why rhumb.Reason, by string) {
	for _, g := range s.Gaps {
		if g.From <= from+1 && g.To >= s.Floor.Offset {
			return g.Reason, g.By
		}
	}
	if s.FloorReason != rhumb.ReasonNone {
		return s.FloorReason, ""
	}
	return s.lacks(from, s.Floor.Offset)
}

// NewSource is an empty log whose edge starts from the beginning.
func NewSource() Source {
	none := dedup.ChainPoint{Offset: rhumb.NoOffset}
	return Source{Start: none, Floor: none, Mark: none, Left: rhumb.NoOffset, OwnLast: rhumb.NoOffset}
}

// merge takes over whatever is newer in o. Two sources' snapshots may come out of
// order.
func (s *Source) merge(o Source) {
	if o.Start.Offset > s.Start.Offset {
		s.Start = o.Start
	}
	if o.Floor.Offset > s.Floor.Offset {
		s.Floor, s.FloorReason, s.Floors, s.FloorOpen = o.Floor, o.FloorReason, o.Floors, o.FloorOpen
	}
	if o.Relay {
		s.Relay, s.Left = true, max(s.Left, o.Left)
		if o.Mark.Offset > s.Mark.Offset {
			s.Mark = o.Mark
		}
		if len(o.Gaps) > len(s.Gaps) {
			s.Gaps = o.Gaps
		}
	}
	s.End, s.Compacted = max(s.End, o.End), max(s.Compacted, o.Compacted)
	switch {
	case o.Closed && (!s.Closed || o.Last < s.Last): // what was known before reached further
		s.Closed, s.Last, s.OwnLast, s.Head = true, o.Last, o.OwnLast, o.Head
	case o.Closed == s.Closed:
		s.OwnLast = max(s.OwnLast, o.OwnLast)
		s.Head = max(s.Head, o.Head)
	}
}
