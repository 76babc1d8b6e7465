package index

import (
	"math"
	"sort"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Cursor walks a view's refs in offset order. A failed step leaves it unusable.
type Cursor struct {
	view *View
	part int // next part to open
	hs   []Handle
	h    int // next handle of hs
	open *Part
	c    int // next chunk; len(view.chunks) is the tail
	refs []Ref
	i    int

	skipPart  func(*Part) bool
	skipBlock func(*Handle) bool
}

// Seek gives a cursor at the first batch whose last offset is at least from.
// The log start is not looked at.
func (v *View) Seek(from rhumb.Offset) (*Cursor, error) {
	c := &Cursor{view: v}
	c.part = sort.Search(len(v.parts), func(i int) bool { return v.parts[i].Last >= from })
	if c.part < len(v.parts) {
		if err := c.openPart(); err != nil {
			return nil, err
		}
		c.h = sort.Search(len(c.hs), func(i int) bool { return c.hs[i].Last >= from })
		if err := c.fill(); err != nil {
			return nil, err
		}
	} else {
		n := len(v.chunks)
		c.c = sort.Search(n, func(i int) bool { return v.chunks[i].last() >= from })
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	c.i = sort.Search(len(c.refs), func(i int) bool { return c.refs[i].Last() >= from })
	return c, nil
}

func (c *Cursor) openPart() (err error) {
	c.open = c.view.parts[c.part]
	c.hs, err = c.open.table.handlesOf(c.open)
	c.h = 0
	c.part++
	return err
}

// fill makes refs the next run of refs; it leaves none at the end.
func (c *Cursor) fill() error {
	c.refs, c.i = nil, 0
	for {
		blk, err := c.nextBlock()
		if err != nil {
			return err
		}
		if blk != nil {
			c.refs = blk.Refs
			return nil
		}
		for c.part < len(c.view.parts) && c.skipPart != nil && c.skipPart(c.view.parts[c.part]) {
			c.part++
		}
		if c.part == len(c.view.parts) {
			break
		}
		if err := c.openPart(); err != nil {
			return err
		}
	}
	if n := len(c.view.chunks); c.c < n {
		c.refs = c.view.chunks[c.c].refs
	} else if c.c == n {
		c.refs = c.view.tail.refs
	}
	c.c++
	return nil
}

// nextBlock gives the next block of the open part, nil when it has no more.
func (c *Cursor) nextBlock() (*Block, error) {
	for c.h < len(c.hs) {
		h := &c.hs[c.h]
		c.h++
		if c.skipBlock == nil || !c.skipBlock(h) {
			return c.open.table.block(c.open, h)
		}
	}
	return nil, nil
}

// Next gives the next ref, nil at the end. It stays valid; do not change it.
func (c *Cursor) Next() (*Ref, error) {
	if c.i == len(c.refs) {
		if err := c.fill(); err != nil {
			return nil, err
		}
		if len(c.refs) == 0 { // chunks and blocks are never empty
			return nil, nil
		}
	}
	r := &c.refs[c.i]
	c.i++
	return r, nil
}

// SeekOrigin gives a cursor at the first batch of that life whose last origin
// offset is at least from, or shortly before it: the caller skips other refs.
// Batches of one life have growing origin offsets, so a place whose watermark is
// below from lies before all that is wanted.
func (v *View) SeekOrigin(s Source, from rhumb.Offset) (*Cursor, error) {
	before := func(at Vector) bool { return at.Watermark(s) < from }
	c := &Cursor{view: v}
	// The last place that still lies before what is wanted; places are ordered.
	n := len(v.chunks)
	if len(v.parts) > 0 && (n == 0 && len(v.tail.refs) == 0 || !before(v.denseStart())) {
		c.part = max(0, sort.Search(len(v.parts), func(i int) bool { return !before(v.parts[i].Start) })-1)
		if err := c.openPart(); err != nil {
			return nil, err
		}
		var err error
		k := sort.Search(len(c.hs), func(i int) bool {
			if err != nil {
				return true
			}
			var blk *Block
			if blk, err = c.open.table.block(c.open, &c.hs[i]); err != nil {
				return true
			}
			return !before(blk.Start)
		})
		if err != nil {
			return nil, err
		}
		c.h = max(0, k-1)
		return c, nil
	}
	c.part = len(v.parts)
	k := sort.Search(n, func(i int) bool { return !before(v.chunks[i].start) })
	if k == n && (n == 0 || before(v.tail.start)) {
		k = n + 1
	}
	c.c = max(0, k-1)
	return c, nil
}

func (v *View) denseStart() Vector {
	if len(v.chunks) > 0 {
		return v.chunks[0].start
	}
	return v.tail.start
}

// ByTime gives the first batch from the log start on, with base below limit,
// whose largest timestamp is at least ts; nil if there is none. Timestamps need
// not be monotonic, so every part is asked for its maximum.
func (v *View) ByTime(ts int64, limit rhumb.Offset) (*Ref, error) {
	c, err := v.Seek(v.Start)
	if err != nil {
		return nil, err
	}
	c.skipPart = func(p *Part) bool { return p.MaxTime < ts }
	c.skipBlock = func(h *Handle) bool { return h.MaxTime < ts }
	for {
		r, err := c.Next()
		if err != nil || r == nil || r.Base >= limit {
			return nil, err
		}
		if r.MaxTime >= ts {
			return r, nil
		}
	}
}

// Latest gives the first of the batches with the largest timestamp, among those
// from the log start on with base below limit; nil if there is none.
func (v *View) Latest(limit rhumb.Offset) (*Ref, error) {
	c, err := v.Seek(v.Start)
	if err != nil {
		return nil, err
	}
	best, at := int64(math.MinInt64), (*Ref)(nil)
	c.skipPart = func(p *Part) bool { return at != nil && p.MaxTime <= best }
	c.skipBlock = func(h *Handle) bool { return at != nil && h.MaxTime <= best }
	for {
		r, err := c.Next()
		if err != nil {
			return nil, err
		}
		if r == nil || r.Base >= limit {
			return at, nil
		}
		if at == nil || r.MaxTime > best {
			best, at = r.MaxTime, r
		}
	}
}

// RetentionStart gives where the log start would go: the first batch border from
// the log start on such that the batch there is not older than beforeMs and what
// is left takes at most maxBytes. math.MinInt64 and a negative maxBytes mean no
// limit. The border is at most limit, and at least the log start.
func (v *View) RetentionStart(beforeMs, maxBytes int64, limit rhumb.Offset) (rhumb.Offset, error) {
	total, err := v.Bytes()
	if err != nil {
		return v.Start, err
	}
	c, err := v.Seek(v.Start)
	if err != nil {
		return v.Start, err
	}
	start := v.Start
	for {
		r, err := c.Next()
		if err != nil || r == nil {
			return start, err
		}
		old := r.RetentionTime() < beforeMs
		big := maxBytes >= 0 && total > maxBytes
		if !old && !big || r.Last() >= limit {
			return start, nil
		}
		start = r.Last() + 1
		total -= int64(r.Size)
	}
}

// Bytes is what the batches with offsets from the log start on take, exactly. It
// reads the index of the settled file that the log start lies in, once.
func (v *View) Bytes() (int64, error) {
	if len(v.parts) == 0 || v.parts[0].Base >= v.Start {
		return v.bytes, nil
	}
	below, err := v.parts[0].BytesBelow(v.Start)
	return v.bytes - below, err
}
