package dedup

import (
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ChainPoint is the chain value of an origin's log at an offset: that of the
// last batch that ends at or before it. A chain of 0 means not known.
type ChainPoint struct {
	Offset rhumb.Offset
	Chain  uint64
}

// Known reports whether the point says anything.
func (p ChainPoint) Known() bool { return p.Chain != 0 }

// RecentPoints is how many earlier points a watermark keeps.
const RecentPoints = 4

// Watermark is what a region knows of one origin life in one partition. It is a
// value: copying it takes a snapshot. Make new ones with [NewWatermark].
type Watermark struct {
	Region rhumb.RegionNumber
	Life   rhumb.Life

	// Offset is the origin offset up to which, inclusive, this region accounts
	// for everything; NoOffset at first. It only grows.
	Offset rhumb.Offset

	// Chain is the origin's chain at Offset, 0 while nothing was accepted.
	Chain uint64

	// Floor is the origin offset up to which, inclusive, this region vouches for
	// nothing. Invariant: NoOffset <= Floor <= Offset.
	Floor rhumb.Offset

	// Recent holds earlier points, newest first, ever further apart, so that
	// after a divergence the last common offset can be found near.
	Recent [RecentPoints]ChainPoint
}

// NewWatermark is the watermark of a life of which nothing has come yet.
func NewWatermark(region rhumb.RegionNumber, life rhumb.Life) Watermark {
	return Watermark{Region: region, Life: life, Offset: rhumb.NoOffset, Floor: rhumb.NoOffset}
}

// OriginBatch is what the accept rule needs to know of a batch: its place at
// its origin and its proof of what came before it.
type OriginBatch struct {
	First rhumb.Offset
	Last  rhumb.Offset
	Prev  rhumb.Offset // last offset before First that carries something for this edge, NoOffset if none
	Chain uint64       // at Last
	CRC   uint32       // of the record batch as its origin stored it
}

// OriginBatchOf takes what the rule needs from a batch's envelope and header.
func OriginBatchOf(e *codec.Envelope, h codec.BatchHeader) OriginBatch {
	return OriginBatch{First: e.First, Last: e.Last, Prev: e.Prev, Chain: e.Chain, CRC: e.ChainCRC(h.CRC)}
}

// maxBatchOffsets is the most offsets that one batch can span: its last offset
// delta is a positive int32.
const maxBatchOffsets = 1 << 31

func (b OriginBatch) valid() bool {
	return rhumb.NoOffset <= b.Prev && b.Prev < b.First && b.First <= b.Last && b.Last-b.First < maxBatchOffsets
}

// Judge applies the accept rule (see the package comment) to a batch. It
// changes nothing.
func (w Watermark) Judge(b OriginBatch) Verdict {
	first, last, prev := b.First, b.Last, b.Prev
	if mutant.On(mutant.FirstBorder) && first == w.Offset {
		first++ // as if first >= watermark were enough
	}
	if mutant.On(mutant.PrevBorder) {
		prev--
	}
	switch {
	case !b.valid():
		return Invalid
	case last < w.Offset, last == w.Offset && !mutant.On(mutant.LastBorder):
		if w.contradicts(ChainPoint{b.Last, b.Chain}) && !mutant.On(mutant.DuplicateTrusted) {
			return Diverged
		}
		return Duplicate
	case first <= w.Offset && !mutant.On(mutant.OverlapAccepted):
		return Diverged
	case prev > w.Offset:
		return Missing
	case b.Chain != codec.NextChain(w.Chain, b.First, b.Last, b.CRC) && !mutant.On(mutant.ChainUnchecked):
		return Diverged
	}
	return Accept
}

// Accept gives the watermark after a batch that [Watermark.Judge] accepts.
func (w Watermark) Accept(b OriginBatch) Watermark {
	w.advance(ChainPoint{b.Last, b.Chain})
	return w
}

// contradicts reports whether the chain at the same offset is known and differs.
func (w Watermark) contradicts(p ChainPoint) bool {
	if p.Offset == w.Offset {
		return p.Chain != w.Chain
	}
	for _, q := range w.Recent {
		if q.Known() && q.Offset == p.Offset {
			return q.Chain != p.Chain
		}
	}
	return false
}

// spacing is how far Recent[i] must lie before Recent[i-1] to be kept when a
// newer point moves in, in offsets.
var spacing = [RecentPoints]rhumb.Offset{0, 256, 1 << 14, 1 << 20}

// advance moves the watermark to p and remembers where it was. A remembered
// point moves one place back if it is far enough from the one there; else it is
// forgotten. So the points stay at least one batch, 256, 16 Ki and 1 Mi apart
// most of the time, with no counter to store.
func (w *Watermark) advance(p ChainPoint) {
	old := ChainPoint{w.Offset, w.Chain}
	w.Offset, w.Chain = p.Offset, p.Chain
	for i := range w.Recent {
		if !old.Known() {
			return
		}
		held := w.Recent[i]
		if held.Known() && old.Offset-held.Offset < spacing[i] {
			return
		}
		if mutant.On(mutant.RecentMisordered) && i > 0 {
			return
		}
		w.Recent[i], old = old, held
	}
}
