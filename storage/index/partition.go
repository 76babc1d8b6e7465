package index

import (
	"fmt"
	"slices"
	"sort"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Partition is the index of one partition's log. It has no lock: its owner calls
// the methods that change it one at a time, and [Partition.View] not beside them.
//
// Offsets: Start <= any offset served; parts end before the dense refs begin.
type Partition struct {
	Key   Key
	start rhumb.Offset // log start: only grows
	parts []*Part      // replaced, never changed in place
	old   int64        // bytes of parts
	dense dense
	at    Vector // after the last ref
	end   rhumb.Offset
	holes rhumb.Offset // holes below it are compaction's
}

// NewPartition makes an empty index.
func NewPartition(key Key, start rhumb.Offset) *Partition {
	return &Partition{Key: key, start: start}
}

// Start is the log start.
func (p *Partition) Start() rhumb.Offset { return p.start }

// End is the offset after the last batch, the log start if there is none.
func (p *Partition) End() rhumb.Offset { return max(p.end, p.start) }

// Append adds the next batch. It gives false, and changes nothing, if the batch
// does not lie behind all others: replay of what is known already.
func (p *Partition) Append(r Ref) bool {
	if r.Base < p.end || r.Span == 0 {
		return false
	}
	p.dense.append(r, p.at)
	p.at = p.at.advance(&r)
	p.end = r.Last() + 1
	return true
}

// AddPart adds a settled part; parts come in the order of their offsets.
func (p *Partition) AddPart(pt *Part) bool {
	if pt.Base < p.end {
		return false
	}
	p.parts = append(slices.Clip(p.parts), pt)
	p.old += int64(pt.Bytes)
	p.end = pt.Last + 1
	at := p.at.clone()
	for _, m := range pt.End {
		if i := at.find(m.Source); i >= 0 {
			at[i] = m
		} else {
			at = append(at, m)
		}
	}
	p.at = at
	return true
}

// SetStart moves the log start. Parts that it passed are given back; a lower
// start than the one before is ignored.
func (p *Partition) SetStart(start rhumb.Offset) (passed []*Part) {
	if start <= p.start {
		return nil
	}
	p.start = start
	n := 0
	for n < len(p.parts) && p.parts[n].Last < start {
		n++
	}
	passed = p.parts[:n:n]
	for _, pt := range passed {
		p.old -= int64(pt.Bytes)
	}
	p.parts = p.parts[n:]
	p.dense.dropBelow(start)
	p.raiseFloors()
	return passed
}

// raiseFloors notes, for what is appended from now on, which origin offsets the
// log no longer holds: those before the first batch that is left.
func (p *Partition) raiseFloors() {
	front := p.at
	switch {
	case len(p.parts) > 0:
		front = p.parts[0].Start
	case len(p.dense.chunks) > 0:
		front = p.dense.chunks[0].start
	}
	at := p.at.clone()
	for _, m := range front {
		if i := at.find(m.Source); i >= 0 {
			at[i].Floor = max(at[i].Floor, m.Watermark)
		}
	}
	p.at = at
}

// DenseFrom is the base offset of the first unsettled batch that ends at start or
// later; start itself if there is none.
func (p *Partition) DenseFrom(start rhumb.Offset) rhumb.Offset {
	for i := range p.dense.chunks {
		if c := &p.dense.chunks[i]; c.last() >= start {
			n := sort.Search(len(c.refs), func(i int) bool { return c.refs[i].Last() >= start })
			return c.refs[n].Base
		}
	}
	return start
}

// Unsettled gives the dense refs that match holds for, which are the first ones but for
// those that before holds for, and the vector before them. Both belong to the caller. It
// fails if refs match behind some that do not: such a part could not be put in their
// place. before may be nil: there are none.
func (p *Partition) Unsettled(before, match func(*Ref) bool) (start Vector, refs []Ref, err error) {
	begun, ended := false, false
	for i := range p.dense.chunks {
		c := &p.dense.chunks[i]
		if i == 0 {
			start = c.start.clone()
		}
		for j := range c.refs {
			r := &c.refs[j]
			first := before != nil && before(r)
			switch {
			case first && !begun:
				start = start.advance(r)
			case first, ended && match(r):
				return nil, nil, fmt.Errorf("index: %v: batch at %d does not settle in the order of offsets", p.Key, r.Base)
			case !match(r):
				begun, ended = true, true
			default:
				begun = true
				refs = append(refs, *r)
			}
		}
	}
	return start, refs, nil
}

// Settle puts a part in the place of the dense refs that it holds. It gives false
// if the log start has passed the part already.
func (p *Partition) Settle(pt *Part) bool {
	p.dense.dropBelow(pt.Last + 1)
	if pt.Last < p.start {
		return false
	}
	p.parts = append(slices.Clip(p.parts), pt)
	p.old += int64(pt.Bytes)
	return true
}

// Replace puts a part in the place of others that follow each other, with what
// compaction left of them; nil if it left nothing. It gives those that were there: log
// starts may have passed some, or the part, which is then not added.
func (p *Partition) Replace(old []*Part, pt *Part) (gone []*Part, added bool) {
	var parts []*Part
	at := -1
	for _, q := range p.parts {
		if !slices.Contains(old, q) {
			parts = append(parts, q)
			continue
		}
		if at < 0 {
			at = len(parts)
		}
		gone = append(gone, q)
		p.old -= int64(q.Bytes)
	}
	if pt != nil && at >= 0 && pt.Last >= p.start {
		parts = slices.Insert(parts, at, pt)
		p.old += int64(pt.Bytes)
		added = true
	}
	p.parts = parts
	return gone, added
}

// Holds tells if these parts are there, but for those that log starts have passed.
func (p *Partition) Holds(parts []*Part) bool {
	for _, q := range parts {
		if q.Last >= p.start && !slices.Contains(p.parts, q) {
			return false
		}
	}
	return true
}

// Holes is the offset below which holes are compaction's.
func (p *Partition) Holes() rhumb.Offset { return p.holes }

// SetHoles says that holes below an offset are compaction's.
func (p *Partition) SetHoles(below rhumb.Offset) { p.holes = max(p.holes, below) }

// View is a partition's index as it was at one moment.
type View struct {
	Start  rhumb.Offset
	End    rhumb.Offset
	Holes  rhumb.Offset // below it compaction may have made holes
	parts  []*Part
	bytes  int64   // of all, with what the first part has below the log start
	chunks []chunk // all but the last
	tail   chunk
}

// View gives the index as it is now. It stays valid without a lock.
func (p *Partition) View() View {
	v := View{Start: p.start, End: p.End(), Holes: p.holes, parts: p.parts, bytes: p.old + p.dense.bytes}
	if n := len(p.dense.chunks); n > 0 {
		v.chunks, v.tail = p.dense.chunks[:n-1:n-1], p.dense.chunks[n-1]
	}
	return v
}

// Unsettled gives the first batch that has not settled, nil if there is none.
func (v *View) Unsettled() *Ref {
	for _, c := range v.chunks {
		if len(c.refs) > 0 {
			return &c.refs[0]
		}
	}
	if len(v.tail.refs) > 0 {
		return &v.tail.refs[0]
	}
	return nil
}

// Parts gives the settled parts.
func (p *Partition) Parts() []*Part { return p.parts }

// Parts gives the settled parts. Do not change the slice.
func (v *View) Parts() []*Part { return v.parts }

// Only gives a view of some of the settled parts alone.
func (v *View) Only(parts []*Part) View {
	return View{Start: v.Start, End: parts[len(parts)-1].Last + 1, Holes: v.Holes, parts: parts}
}
