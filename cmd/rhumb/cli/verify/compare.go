package verify

import (
	"context"
	"errors"
	"io"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxSpan is how many offsets of batches that are cut differently are looked at
// in one piece.
const maxSpan = 100_000

// Stream is a digest of one side. Next gives io.EOF only at its complete end.
type Stream interface {
	Next() (api.DigestLine, error)
	Close() error
}

// opener starts a digest of one side for the compared life.
type opener func(ctx context.Context, from, to rhumb.Offset, records bool) (Stream, error)

// comparison walks two digests of one origin life.
type comparison struct {
	open [2]opener
	to   rhumb.Offset
	span rhumb.Offset // maxSpan
	note observer

	sides [2]*side
}

// observer takes what a comparison sees. The side is the index of the one where
// it is so.
type observer interface {
	equal(records int64)
	lone(side int, r Range, records int64) // only this side has them
	differ(r Range, records int64, detail string)
	late(side int, r Range, records int64) // stands behind a later one, or a second time
}

// side is one digest, batch by batch, in rising order: what is not is told and
// left out.
type side struct {
	index  int
	stream Stream
	note   observer
	to     rhumb.Offset
	top    rhumb.Offset // highest last offset so far
	head   *batch       // nil at the end
}

// batch is a digest of a batch, perhaps only the rest of it.
type batch struct {
	api.DigestBatch
	whole bool
}

func (b *batch) span() Range { return Range{b.First, b.Last} }

func (s *side) advance() error {
	for {
		line, err := s.stream.Next()
		if errors.Is(err, io.EOF) {
			s.head = nil
			return nil
		}
		if err != nil {
			return err
		}
		if line.Batch == nil {
			continue
		}
		b := batch{*line.Batch, true}
		if b.Last < b.First || b.First < 0 {
			return rhumb.Errorf(rhumb.KindCorrupt, "a stored batch says that it has origin offsets %d to %d", b.First, b.Last)
		}
		if b.First <= s.top {
			s.note.late(s.index, b.span(), int64(b.Count))
			continue
		}
		if b.First > s.to {
			continue // arrived after the watermarks were taken
		}
		if b.Last > s.to {
			b.Last, b.whole = s.to, false
		}
		s.top = b.Last
		s.head = &b
		return nil
	}
}

// run compares everything up to c.to, from the start of both logs.
func (c *comparison) run(ctx context.Context) error {
	for i := range c.sides {
		stream, err := c.open[i](ctx, 0, c.to, false)
		if err != nil {
			return err
		}
		defer stream.Close()
		c.sides[i] = &side{index: i, stream: stream, note: c.note, to: c.to, top: rhumb.NoOffset}
		if err := c.sides[i].advance(); err != nil {
			return err
		}
	}
	a, b := c.sides[0], c.sides[1]
	for a.head != nil || b.head != nil {
		if err := c.step(ctx, a, b); err != nil {
			return err
		}
	}
	return nil
}

// step deals with the first batch of either side, or with all that overlaps it.
func (c *comparison) step(ctx context.Context, a, b *side) error {
	switch {
	case a.head != nil && b.head != nil && same(a.head, b.head):
		c.note.equal(int64(a.head.Count - max(a.head.Dropped, b.head.Dropped))) // both dropped the first ones
		if err := a.advance(); err != nil {
			return err
		}
		return b.advance()
	case before(a.head, b.head) && a.head.whole:
		c.note.lone(0, a.head.span(), int64(a.head.Count))
		return a.advance()
	case before(b.head, a.head) && b.head.whole:
		c.note.lone(1, b.head.span(), int64(b.head.Count))
		return b.advance()
	}
	span, err := c.absorb(a, b)
	if err != nil {
		return err
	}
	return c.records(ctx, span)
}

func same(a, b *batch) bool {
	return a.whole && b.whole && a.Broken == "" && sameBatch(a.DigestBatch, b.DigestBatch)
}

// sameBatch reports whether two regions store the same batch at the same offsets,
// whatever each has dropped of it.
func sameBatch(a, b api.DigestBatch) bool {
	a.Dropped, b.Dropped = 0, 0
	return a == b
}

// before reports whether x lies wholly before y; nothing lies behind everything.
func before(x, y *batch) bool {
	return x != nil && (y == nil || x.Last < y.First)
}

// absorb consumes all batches that overlap the first one, those that overlap
// them, and so on: up to the next offset at which both sides have a border, or
// to c.span. It gives the range that they cover.
func (c *comparison) absorb(a, b *side) (Range, error) {
	var span Range
	switch {
	case a.head == nil || b.head != nil && b.head.First < a.head.First:
		span = b.head.span()
	default:
		span = a.head.span()
	}
	limit := span.From + c.span - 1
	span.To = min(span.To, limit)
	for {
		moved := false
		for _, s := range []*side{a, b} {
			for s.head != nil && s.head.First <= span.To {
				if s.head.Last > limit { // the rest of it comes in the next piece
					span.To = limit
					s.head.First, s.head.whole = limit+1, false
					continue
				}
				span.To = max(span.To, s.head.Last)
				moved = true
				if err := s.advance(); err != nil {
					return span, err
				}
			}
		}
		if !moved {
			return span, nil
		}
	}
}

// records compares a range record by record.
func (c *comparison) records(ctx context.Context, span Range) error {
	var in [2]*recordStream
	for i := range in {
		stream, err := c.open[i](ctx, span.From, span.To, true)
		if err != nil {
			return err
		}
		defer stream.Close()
		in[i] = &recordStream{stream: stream, span: span, top: span.From - 1}
		if err := in[i].advance(); err != nil {
			return err
		}
	}
	a, b := in[0], in[1]
	for a.head != nil || b.head != nil {
		if err := c.recordStep(a, b); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) recordStep(a, b *recordStream) error {
	switch {
	case b.head == nil || a.head != nil && a.head.Last < b.head.First:
		c.note.lone(0, a.head.span(), a.head.count())
		return a.advance()
	case a.head == nil || b.head.Last < a.head.First:
		c.note.lone(1, b.head.span(), b.head.count())
		return b.advance()
	case a.head.broken == "" && b.head.broken == "":
		if a.head.hash == b.head.hash {
			if !a.head.dropped && !b.head.dropped {
				c.note.equal(1)
			}
		} else {
			c.note.differ(a.head.span(), 1, "")
		}
		if err := a.advance(); err != nil {
			return err
		}
		return b.advance()
	}
	// A batch whose records cannot be read: all that overlaps it is in doubt.
	span, detail := a.head.span(), a.head.broken
	if a.head.broken == "" {
		span, detail = b.head.span(), b.head.broken
	}
	c.note.differ(span, int64(span.To-span.From)+1, detail)
	for _, s := range []*recordStream{a, b} {
		for s.head != nil && s.head.First <= span.To {
			if err := s.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// item is one record, or one batch whose records cannot be read.
type item struct {
	First, Last rhumb.Offset
	records     int64
	hash        string
	dropped     bool
	broken      string
}

func (i *item) span() Range  { return Range{i.First, i.Last} }
func (i *item) count() int64 { return i.records }

// recordStream is the records of a digest within a span, in rising order. What
// is not in order was told when the batches were walked.
type recordStream struct {
	stream Stream
	span   Range
	top    rhumb.Offset
	head   *item
}

func (s *recordStream) advance() error {
	for {
		line, err := s.stream.Next()
		if errors.Is(err, io.EOF) {
			s.head = nil
			return nil
		}
		if err != nil {
			return err
		}
		var next item
		switch {
		case line.Record != nil:
			next = item{First: line.Record.Offset, Last: line.Record.Offset, records: 1, hash: line.Record.Hash, dropped: line.Record.Dropped}
		case line.Batch != nil && line.Batch.Broken != "":
			next = item{First: max(line.Batch.First, s.span.From), Last: min(line.Batch.Last, s.span.To),
				records: int64(line.Batch.Count), broken: line.Batch.Broken}
		default:
			continue
		}
		if next.First <= s.top || next.First > s.span.To {
			continue
		}
		s.top = next.Last
		s.head = &next
		return nil
	}
}
