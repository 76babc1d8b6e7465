package storage

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/index"
)

// pass is one pass over one partition. What it decides is package compact's; this
// reads and copies.
type pass struct {
	s   *Store
	ctx context.Context
	target
	w *rewriter

	core    *compact.Pass
	horizon rhumb.Offset
	cleaned rhumb.Offset
	last    map[index.Source]rhumb.Offset // base of the last batch of each life
	removed int
	batch   unpacked // the one that is looked at
	sum     *compact.Sum
}

// run makes the pass and leaves what is not finished with the rewriter. done is false
// if the table of keys did not have room for all.
func (p *pass) run() (done bool, err error) {
	now := time.Now()
	p.horizon = p.state.Horizon(now, p.policy.DeleteRetention)
	p.sum = compact.NewSum()
	p.core = compact.NewPass(p.s.compacting.keys, p.horizon)
	p.cleaned, p.last = p.state.Cleaned, map[index.Source]rhumb.Offset{}
	if done, err = p.note(); err != nil {
		return false, err
	}
	for len(p.parts) > 0 {
		group := p.nextGroup()
		if group[0].Base >= p.cleaned && !done {
			break // the next pass's
		}
		if err := p.rewrite(group); err != nil {
			return false, err
		}
	}
	p.w.end(p.sh, p.id, p.state.After(p.core.Outcome(p.cleaned), now))
	p.s.compacting.passes.Add(1)
	p.s.compacting.removed.Add(uint64(p.removed))
	return done, nil
}

// note learns keys: of what is dirty, and of tombstones whose time is over.
func (p *pass) note() (done bool, err error) {
	end := p.parts[len(p.parts)-1].Last + 1
	done = true
	err = p.walk(p.parts, p.state.Cleaned, end, func(r *index.Ref, raw []byte) error {
		p.s.compacting.dirty.Add(uint64(len(raw)))
		b, ok, err := p.open(r, raw)
		if err != nil {
			return err
		}
		if ok && !p.core.Note(b.records) {
			done = false
			return io.EOF
		}
		p.cleaned = r.Last() + 1
		return nil
	})
	if err != nil {
		return false, err
	}
	if done {
		p.cleaned = end
	}
	if p.state.Tombstone != rhumb.NoOffset && p.state.Tombstone < p.horizon {
		err = p.walk(p.parts, p.state.Tombstone, min(p.horizon, p.state.Cleaned), func(r *index.Ref, raw []byte) error {
			b, ok, err := p.open(r, raw)
			if err != nil || !ok {
				return err
			}
			for _, rec := range b.records {
				p.core.NoteExpired(rec)
			}
			return nil
		})
	}
	if err != nil {
		return false, err
	}
	return done, p.findLast()
}

// findLast finds the last batch of each life: its last record stays, so that the
// log's end, and the chain there, stay known.
func (p *pass) findLast() error {
	v := p.view.Only(p.parts)
	c, err := v.Seek(0)
	if err != nil {
		return err
	}
	for {
		r, err := c.Next()
		if err != nil || r == nil {
			return err
		}
		p.last[*r.Source] = r.Base
	}
}

// nextGroup takes the parts that become one: as many as fill a segment.
func (p *pass) nextGroup() []*index.Part {
	n, size := 1, int64(p.parts[0].Bytes)
	for n < len(p.parts) && size+int64(p.parts[n].Bytes) <= p.s.cfg.FileSize {
		size += int64(p.parts[n].Bytes)
		n++
	}
	group := p.parts[:n:n]
	p.parts = p.parts[n:]
	return group
}

// rewrite copies what stays of a group. One segment's part of which all stays is left
// where it is.
func (p *pass) rewrite(group []*index.Part) error {
	if len(group) == 1 && isSegment(group[0].File()) {
		changes := false
		err := p.walk(group, 0, math.MaxInt64, func(r *index.Ref, raw []byte) error {
			_, keep, err := p.judge(r, raw)
			if err == nil && keep != all {
				changes = true
			}
			return err
		})
		if err != nil || !changes {
			return err
		}
	}
	if err := p.w.begin(p.ctx, p.sh, p.id, group); err != nil {
		return err
	}
	return p.walk(group, 0, math.MaxInt64, func(r *index.Ref, raw []byte) error {
		b, keep, err := p.judge(r, raw)
		switch {
		case err != nil:
			return err
		case keep == none:
			p.removed += len(b.records)
			return nil
		case keep == some:
			return p.thin(r, raw, b)
		}
		return p.w.add(*r, raw)
	})
}

// verdict is how much of a batch stays.
type verdict uint8

const (
	all verdict = iota
	some
	none
)

// judge decides about the records of a batch; b.keep says which stay.
func (p *pass) judge(r *index.Ref, raw []byte) (b *unpacked, v verdict, err error) {
	if r.Last() < p.view.Start {
		return &unpacked{}, none, nil
	}
	b, ok, err := p.open(r, raw)
	if err != nil {
		return nil, all, err
	}
	if !ok {
		p.core.Opaque()
		return b, all, nil
	}
	kept := b.keyless
	for i, rec := range b.records {
		fixed := i == len(b.records)-1 && b.keyless == 0 && p.last[*r.Source] == r.Base
		stays := p.core.Keep(rec, fixed)
		b.keep[b.index[i]] = stays
		if stays {
			kept++
		}
	}
	switch kept {
	case len(b.keep):
		return b, all, nil
	case 0:
		return b, none, nil
	}
	return b, some, nil
}

// thin writes a batch without the records that go.
func (p *pass) thin(r *index.Ref, raw []byte, b *unpacked) error {
	c := &p.s.compacting
	batch, err := c.thinner.Thin(c.expander, b.batch, func(i int) bool { return i < len(b.keep) && b.keep[i] })
	if err != nil {
		return err
	}
	h, err := codec.CheckThinned(batch)
	if err != nil {
		return err
	}
	e := b.envelope
	e.OriginCRC = e.ChainCRC(b.header.CRC)
	e.Flags |= codec.FlagThinned
	p.removed += int(e.Count) - int(h.Count)
	e.Count = uint32(h.Count)
	out := make([]byte, codec.EnvelopeSize, codec.EnvelopeSize+len(batch))
	e.Put(out, batch)
	out = append(out, batch...)
	next := *r
	next.Size, next.MaxTime = uint32(len(out)), h.MaxTimestamp
	return p.w.add(next, out)
}

// unpacked is a batch taken apart. It is valid until the next one is.
type unpacked struct {
	envelope codec.Envelope
	header   codec.BatchHeader
	batch    []byte
	records  []compact.Record // those with a key
	index    []int32          // their numbers in the batch
	keep     []bool           // by number
	keyless  int
}

// open takes a batch apart. ok is false for one whose records cannot be judged: they
// cannot be read, are too many, or belong to a transaction.
func (p *pass) open(r *index.Ref, raw []byte) (b *unpacked, ok bool, err error) {
	b = &p.batch
	*b = unpacked{records: b.records[:0], index: b.index[:0], keep: b.keep[:0]}
	if b.envelope, b.batch, err = r.Open(p.id, raw, false); err != nil {
		return nil, false, err
	}
	if b.header, err = codec.ParseBatch(b.batch); err != nil {
		return nil, false, err
	}
	const whole = codec.AttrControl | codec.AttrTransactional
	if b.header.Attributes&whole != 0 && b.envelope.Flags&codec.FlagDecided == 0 || b.header.Count > compactRecords {
		return b, false, nil
	}
	records, err := p.s.compacting.expander.Open(b.batch)
	if err != nil {
		return b, false, nil
	}
	defer records.Close()
	held := p.held(r)
	for at := int64(-1); ; {
		p.sum.Begin()
		rec, tombstone, err := records.NextKey(p.sum)
		if err == io.EOF {
			return b, true, nil
		}
		if err != nil || rec.Delta <= at || rec.Delta >= int64(r.Span) {
			return b, false, nil
		}
		at = rec.Delta
		b.keep = append(b.keep, true)
		if !rec.HasKey {
			b.keyless++
			continue
		}
		c := compact.Record{Key: p.sum.Key(), Offset: r.Base + rhumb.Offset(at), Tombstone: tombstone}
		if held != 0 && r.First+rhumb.Offset(at) > p.policy.Held[held-1].After {
			c.Held = held
		}
		b.records = append(b.records, c)
		b.index = append(b.index, int32(len(b.keep)-1))
	}
}

// held gives the number of the batch's life if edges carry it, else 0.
func (p *pass) held(r *index.Ref) uint32 {
	for i := range p.policy.Held {
		if p.policy.Held[i].Source == *r.Source {
			return uint32(i + 1)
		}
	}
	return 0
}

// walk reads the batches of some parts that end at or behind from and begin below
// limit, and calls fn; io.EOF from fn ends it without an error.
func (p *pass) walk(parts []*index.Part, from, limit rhumb.Offset, fn func(r *index.Ref, raw []byte) error) error {
	v := p.view.Only(parts)
	c, err := v.Seek(from)
	if err != nil {
		return err
	}
	for {
		refs, size, err := nextRun(c, limit)
		if err != nil || len(refs) == 0 {
			return err
		}
		_, raw, err := p.sh.fetchRaw(p.id, refs)
		if err != nil {
			return err
		}
		p.s.compacting.read.Add(uint64(size))
		for i := range refs {
			if err := fn(&refs[i], raw[i]); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		if err := p.s.compacting.pace(p.ctx, size, p.s.cfg.CompactRate); err != nil {
			return err
		}
	}
}

// nextRun gives the next refs with a base below limit, about as much as one read takes.
func nextRun(c *index.Cursor, limit rhumb.Offset) (refs []index.Ref, size int64, err error) {
	for size < maxReadRun {
		r, err := c.Next()
		if err != nil {
			return nil, 0, err
		}
		if r == nil || r.Base >= limit {
			break
		}
		refs = append(refs, *r)
		size += int64(r.Size)
	}
	return refs, size, nil
}

// pace waits as long as reading, and writing about as much, may take at that rate.
func (c *compacting) pace(ctx context.Context, size, rate int64) error {
	if rate <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(time.Duration(float64(size) / float64(rate) * float64(time.Second)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
