package brokertest

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

type partition struct {
	start, end rhumb.Offset
	batches    []broker.Stored
	times      []int64 // max timestamps as the header that came with the append said
	producers  map[int64]*producer
	waiters    map[*broker.Waiter]rhumb.PartitionRef
}

func (p *partition) wake() {
	for w, ref := range p.waiters {
		w.Signal(ref)
	}
}

// producer keeps what Kafka keeps: the last five batches.
type producer struct {
	epoch int16
	last  []sequence
}

type sequence struct {
	first, last int32
	base        rhumb.Offset
}

const window = 5

// judge gives the place of a duplicate, or the error, or neither: accept.
func (p *partition) judge(h codec.BatchHeader) (*sequence, error) {
	known := p.producers[h.ProducerID]
	if !h.Idempotent() || known == nil {
		return nil, nil
	}
	first, last := h.BaseSequence, int32((int64(h.BaseSequence)+int64(h.LastOffsetDelta))%(1<<31))
	switch {
	case h.ProducerEpoch < known.epoch:
		return nil, rhumb.Errorf(rhumb.KindFenced, "producer epoch %d is over", h.ProducerEpoch)
	case h.ProducerEpoch > known.epoch:
		if first != 0 {
			return nil, rhumb.Errorf(rhumb.KindOutOfOrder, "new epoch starts at sequence %d", first)
		}
		return nil, nil
	}
	for i := range known.last {
		if s := &known.last[i]; s.first == first && s.last == last {
			return s, nil
		}
	}
	if want := int32((int64(known.last[len(known.last)-1].last) + 1) % (1 << 31)); first != want {
		return nil, rhumb.Errorf(rhumb.KindOutOfOrder, "sequence %d, want %d", first, want)
	}
	return nil, nil
}

func (p *partition) remember(h codec.BatchHeader, s sequence) {
	if !h.Idempotent() {
		return
	}
	known := p.producers[h.ProducerID]
	if known == nil || known.epoch != h.ProducerEpoch {
		known = &producer{epoch: h.ProducerEpoch}
		p.producers[h.ProducerID] = known
	}
	known.last = append(known.last, s)
	known.last = known.last[max(0, len(known.last)-window):]
}

// Append implements broker.Log.
func (r *Region) Append(ref rhumb.PartitionRef, req broker.AppendRequest, done func(broker.AppendResult)) {
	r.mu.Lock()
	hook := r.hook
	r.mu.Unlock()
	var result broker.AppendResult
	if hook != nil {
		result.Err = hook(ref, req)
	}
	r.mu.Lock()
	if result.Err == nil {
		result = r.store(ref, req)
	}
	if r.holding {
		r.held = append(r.held, func() { done(result) })
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	done(result)
}

func (r *Region) store(ref rhumb.PartitionRef, req broker.AppendRequest) broker.AppendResult {
	p := r.parts[ref]
	if p == nil {
		return broker.AppendResult{Err: rhumb.Errorf(rhumb.KindNotFound, "no such partition")}
	}
	h := req.Header
	duplicate, err := p.judge(h)
	switch {
	case err != nil:
		return broker.AppendResult{Err: err}
	case duplicate != nil:
		return broker.AppendResult{Base: duplicate.base, LogStart: p.start, Duplicate: true}
	}
	codec.PatchBatch(req.Batch, p.end, r.epoch)
	batch := append([]byte(nil), req.Batch...) // the caller's bytes are free after done
	now := time.Now().UnixMilli()
	s := broker.Stored{Base: p.end, Batch: batch}
	s.Envelope = codec.Envelope{First: p.end, Last: p.end + rhumb.Offset(h.LastOffsetDelta), Count: uint32(h.Count), AppendTime: now}
	p.batches, p.times = append(p.batches, s), append(p.times, h.MaxTimestamp)
	p.end = s.Last() + 1
	last := int32((int64(h.BaseSequence) + int64(h.LastOffsetDelta)) % (1 << 31))
	p.remember(h, sequence{h.BaseSequence, last, s.Base})
	p.wake()
	return broker.AppendResult{Base: s.Base, LogStart: p.start, AppendTime: now}
}

// State implements broker.Log.
func (r *Region) State(ref rhumb.PartitionRef) (broker.PartitionState, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[ref]
	if p == nil {
		return broker.PartitionState{}, false
	}
	return broker.PartitionState{LogStart: p.start, End: p.end, LeaderEpoch: r.epoch, Leading: true, Bytes: p.size()}, true
}

// Read implements broker.Log.
func (r *Region) Read(ref rhumb.PartitionRef, q broker.Query) ([]broker.Stored, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[ref]
	if p == nil {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	var out []broker.Stored
	size := 0
	for _, s := range p.batches {
		if s.Last() < max(q.From, p.start) {
			continue
		}
		if size == 0 && q.MostFirst > 0 && len(s.Batch) > q.MostFirst {
			return nil, &broker.LargeBatchError{Base: s.Base, Size: len(s.Batch)}
		}
		if size += len(s.Batch); size > q.MaxBytes && len(out) > 0 {
			break
		}
		out = append(out, s)
	}
	return out, nil
}

// ByTime implements broker.Log.
func (r *Region) ByTime(ref rhumb.PartitionRef, ts int64) (broker.Stored, bool, error) {
	return r.find(ref, func(t, _ int64) bool { return t >= ts }, true)
}

// Latest implements broker.Log.
func (r *Region) Latest(ref rhumb.PartitionRef) (broker.Stored, bool, error) {
	return r.find(ref, func(t, best int64) bool { return t > best }, false)
}

func (r *Region) find(ref rhumb.PartitionRef, better func(t, best int64) bool, first bool) (broker.Stored, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[ref]
	if p == nil {
		return broker.Stored{}, false, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	found, best := -1, int64(-1)
	for i, t := range p.times {
		if p.batches[i].Last() >= p.start && better(t, best) {
			if found, best = i, t; first {
				break
			}
		}
	}
	if found < 0 {
		return broker.Stored{}, false, nil
	}
	return p.batches[found], true, nil
}

// DeleteRecords implements broker.Log.
func (r *Region) DeleteRecords(_ context.Context, ref rhumb.PartitionRef, before rhumb.Offset) (rhumb.Offset, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[ref]
	if p == nil {
		return rhumb.NoOffset, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	if before < 0 {
		before = p.end
	}
	p.start = max(p.start, min(before, p.end))
	p.wake()
	return p.start, nil
}

// AddWaiter implements broker.Log.
func (r *Region) AddWaiter(ref rhumb.PartitionRef, w *broker.Waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[ref]
	if p != nil {
		p.waiters[w] = ref
	}
	return p != nil
}

// RemoveWaiter implements broker.Log.
func (r *Region) RemoveWaiter(ref rhumb.PartitionRef, w *broker.Waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.parts[ref]; p != nil {
		delete(p.waiters, w)
	}
}

// Waiters counts who is signalled when partitions change.
func (r *Region) Waiters() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		n += len(p.waiters)
	}
	return n
}
