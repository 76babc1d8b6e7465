package shard

import (
	"context"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// request is one thing that waits for the shard's goroutine. Exactly one of
// appended, linked and done is set, and it is called exactly once.
type request struct {
	kind      kind
	partition rhumb.PartitionID
	header    codec.BatchHeader
	env       codec.Envelope // kindLink only
	batch     []byte
	command   command
	size      int   // bytes that it adds to an entry, about
	reserved  int64 // bytes of the node's budget that it holds

	appended func(AppendResult)
	linked   func(LinkResult)
	done     func(any, error)
}

func (r *request) fail(err error) {
	switch {
	case r.appended != nil:
		r.appended(AppendResult{Base: rhumb.NoOffset, Err: err})
	case r.linked != nil:
		r.linked(LinkResult{Verdict: dedup.Missing, Err: err})
	default:
		r.done(nil, err)
	}
}

// Append stores a batch that a producer sent. done is called exactly once, from
// the shard's goroutine and in the order of a partition's appends; or before
// Append returns if the request is refused at the door. It must not block.
//
// Errors are of kind not leader, not found, out of order, fenced, invalid, or
// unavailable: also when the node's budget of bytes in flight is used up.
func (s *Shard) Append(id rhumb.PartitionID, req AppendRequest, done func(AppendResult)) {
	r := &request{kind: kindAppend, partition: id, header: req.Header, batch: req.Batch, appended: done}
	if len(req.Batch) < codec.BatchHeaderSize || len(req.Batch) > codec.MaxBatchSize {
		r.fail(rhumb.Errorf(rhumb.KindInvalid, "batch of %d bytes", len(req.Batch)))
		return
	}
	r.size = commandHeaderSize + codec.EnvelopeSize + len(req.Batch)
	s.enqueueData(r)
}

// AppendLink judges a batch of another region and stores it if it continues its
// origin. done is called as for Append.
func (s *Shard) AppendLink(id rhumb.PartitionID, b LinkBatch, done func(LinkResult)) {
	r := &request{kind: kindLink, partition: id, env: b.Envelope, batch: b.Batch, linked: done}
	h, err := codec.ParseBatch(b.Batch)
	if err != nil || h.Size != len(b.Batch) || len(b.Batch) > codec.MaxBatchSize {
		r.fail(rhumb.Errorf(rhumb.KindCorrupt, "link batch of %d bytes: %v", len(b.Batch), err))
		return
	}
	if int64(b.Envelope.Last-b.Envelope.First) != int64(h.LastOffsetDelta) || b.Envelope.Life.IsZero() {
		r.fail(rhumb.Errorf(rhumb.KindInvalid, "link batch of origin offsets %d to %d has a last offset delta of %d", b.Envelope.First, b.Envelope.Last, h.LastOffsetDelta))
		return
	}
	r.header = h
	r.size = commandHeaderSize + codec.EnvelopeSize + len(b.Batch)
	s.enqueueData(r)
}

// SkipLink moves an origin's watermark where no data does. done is called as for
// Append.
func (s *Shard) SkipLink(id rhumb.PartitionID, k LinkSkip, done func(LinkResult)) {
	c := &skipCommand{partition: id, region: k.Region, life: k.Life, skip: k.Skip}
	s.enqueue(&request{kind: kindSkip, partition: id, command: c, size: 128, linked: done})
}

// OpenOrigin gives an origin life's watermark in a partition: applied, and
// flushed on a majority.
func (s *Shard) OpenOrigin(ctx context.Context, id rhumb.PartitionID, region rhumb.RegionNumber, life rhumb.Life) (dedup.Watermark, error) {
	if err := s.ReadBarrier(ctx); err != nil {
		return dedup.Watermark{}, err
	}
	type answer struct {
		w   dedup.Watermark
		err error
	}
	c := make(chan answer, 1)
	err := s.do(func() {
		p := s.m.partitions[id]
		if p == nil {
			c <- answer{err: rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", s.cfg.ID, id)}
			return
		}
		w := p.watermark(originKey{region, life})
		s.whenFlushed(func(err error) { c <- answer{w, err} })
	})
	if err != nil {
		return dedup.Watermark{}, err
	}
	select {
	case a := <-c:
		return a.w, a.err
	case <-ctx.Done():
		return dedup.Watermark{}, rhumb.Errorf(rhumb.KindTimeout, "shard %d: %w", s.cfg.ID, context.Cause(ctx))
	}
}

// Producers gives what a partition remembers of idempotent producers, in no order.
func (s *Shard) Producers(ctx context.Context, id rhumb.PartitionID) ([]ProducerState, error) {
	type answer struct {
		list []ProducerState
		err  error
	}
	c := make(chan answer, 1)
	err := s.do(func() {
		p := s.m.partitions[id]
		if p == nil {
			c <- answer{err: s.noPartition(id)}
			return
		}
		var list []ProducerState
		for _, pr := range p.producers {
			if pr.known {
				list = append(list, pr.describe())
			}
		}
		c <- answer{list: list}
	})
	if err != nil {
		return nil, err
	}
	select {
	case a := <-c:
		return a.list, a.err
	case <-ctx.Done():
		return nil, rhumb.Errorf(rhumb.KindTimeout, "shard %d: %w", s.cfg.ID, context.Cause(ctx))
	}
}

func (pr *producer) describe() ProducerState {
	st := ProducerState{ID: pr.id, Epoch: pr.applied.Epoch, LastSequence: -1, LastUse: pr.applied.LastUse}
	if b := pr.applied.Batches(); len(b) > 0 {
		st.LastSequence = b[len(b)-1].Last
	}
	return st
}

// control proposes a control command and waits until it is applied.
func (s *Shard) control(ctx context.Context, c command) (any, error) {
	type answer struct {
		value any
		err   error
	}
	ch := make(chan answer, 1)
	s.propose(c, func(v any, err error) { ch <- answer{v, err} })
	select {
	case a := <-ch:
		return a.value, a.err
	case <-ctx.Done():
		return nil, rhumb.Errorf(rhumb.KindTimeout, "shard %d: %w", s.cfg.ID, context.Cause(ctx))
	}
}

// propose hands a control command over. done is called as for Append, when the
// command is applied or cannot be.
func (s *Shard) propose(c command, done func(any, error)) {
	size := len(c.append(nil))
	if size > maxString {
		done(nil, rhumb.Errorf(rhumb.KindTooLarge, "shard %d: command of %d bytes", s.cfg.ID, size))
		return
	}
	s.enqueue(&request{kind: c.kind(), command: c, size: size + commandHeaderSize, done: done})
}

// ReadBarrier waits until this node has applied all that was committed anywhere
// when it was called, so that what is read afterwards is not older. It asks a
// majority, and fails on a node that does not lead.
func (s *Shard) ReadBarrier(ctx context.Context) error {
	c := make(chan error, 1)
	if err := s.do(func() { s.readIndex(c) }); err != nil {
		return err
	}
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return rhumb.Errorf(rhumb.KindTimeout, "shard %d: %w", s.cfg.ID, context.Cause(ctx))
	}
}
