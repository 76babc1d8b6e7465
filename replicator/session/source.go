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

// NewSource is an empty log whose edge starts from the beginning.
func NewSource() Source {
	none := dedup.ChainPoint{Offset: rhumb.NoOffset}
	return Source{Start: none, Floor: none, OwnLast: rhumb.NoOffset}
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
	s.End, s.Compacted = max(s.End, o.End), max(s.Compacted, o.Compacted)
	switch {
	case o.Closed && (!s.Closed || o.Last < s.Last): // what was known before reached further
		s.Closed, s.Last, s.OwnLast, s.Head = true, o.Last, o.OwnLast, o.Head
	case o.Closed == s.Closed:
		s.OwnLast = max(s.OwnLast, o.OwnLast)
		s.Head = max(s.Head, o.Head)
	}
}
