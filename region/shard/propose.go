package shard

import (
	"encoding/binary"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// bigBatch is the size from which on a batch is an entry of its own.
const bigBatch = 64 << 10

// serve proposes all that waits, if this node may.
func (s *Shard) serve() error {
	l := &s.lead
	switch {
	case len(l.waiting) == 0 || l.draining:
		return nil
	case !s.leading.Load() && (s.role == raft.StateLeader || s.single):
		return nil // the first entry of the term is on its way
	case !s.leading.Load():
		s.abandon(s.notLeader())
		return nil
	}
	for len(l.waiting) > 0 && s.leading.Load() && !l.draining {
		n := cut(l.waiting)
		fence := l.waiting[0].kind == kindNewLife
		p := s.build(l.waiting[:n])
		clear(l.waiting[:n])
		l.waiting = l.waiting[n:]
		if p.commands == 0 {
			continue
		}
		if err := s.submit(p); err != nil {
			return err
		}
		if fence { // what is built now would carry the life that is being closed
			l.draining = l.inflight.len() > 0 || len(l.unplaced) > 0
		}
	}
	if len(l.waiting) == 0 {
		l.waiting = nil
	}
	return nil
}

// cut says how many of the requests go into one entry: up to maxProposal bytes, but a big
// batch goes alone, and so does the creation of a partition, whose id is the entry's index,
// and a new life.
func cut(waiting []*request) (n int) {
	size := entryHeaderSize
	for _, r := range waiting {
		alone := r.size >= bigBatch || r.kind == kindCreatePartition || r.kind == kindNewLife
		if n > 0 && (alone || size+r.size > maxProposal) {
			break
		}
		n++
		size += r.size
		if alone {
			break
		}
	}
	return n
}

// build judges requests by the speculative copy, assigns offsets, and puts what
// is new into one entry. The rest is answered, or waits for what is in flight.
func (s *Shard) build(requests []*request) *proposal {
	l := &s.lead
	l.time = max(l.time, s.m.time, time.Now().UnixMilli())
	l.tag++
	p := &proposal{tag: l.tag, time: l.time, live: true, text: &l.text, waiters: make([]waiter, 0, len(requests))}
	p.text.begin(entryHeader{epoch: s.term, time: p.time})
	for _, r := range requests {
		switch r.kind {
		case kindAppend:
			s.buildAppend(p, r)
		case kindLink, kindSkip:
			s.buildLink(p, r)
		default:
			p.text.command(r.command)
			p.add(waiter{req: r})
		}
	}
	p.data = p.text.end(p.commands)
	p.text = nil
	return p
}

// add puts a command's waiter in the proposal.
func (p *proposal) add(w waiter) {
	w.command = int(p.commands)
	p.commands++
	p.waiters = append(p.waiters, w)
	if w.part != nil {
		w.part.spec.pending++
		w.part.spec.last = p
	}
}

// submit hands an entry to Raft. One that Raft drops leaves the copy wrong.
func (s *Shard) submit(p *proposal) error {
	tag := binary.LittleEndian.AppendUint64(make([]byte, 0, tagSize), p.tag)
	err := s.raft.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: new(s.cfg.Node), Entries: []*raftpb.Entry{{Data: tag}}})
	if err != nil {
		s.dropCopy(err)
		s.failProposal(p, s.notLeader())
		return nil
	}
	s.lead.unplaced = append(s.lead.unplaced, p)
	return s.ready()
}

func (s *Shard) noPartition(id rhumb.PartitionID) error {
	return rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", s.cfg.ID, id)
}

// open gives the speculative position of a partition.
func (p *partition) open() *specPosition {
	if p.spec.pending == 0 {
		p.spec = specPosition{end: p.end, ownLast: p.ownLast, ownChain: p.ownChain}
	}
	return &p.spec
}

// buildAppend judges and places a batch that was published here.
func (s *Shard) buildAppend(p *proposal, r *request) {
	part := s.m.partitions[r.partition]
	if part == nil {
		s.fail(r, s.noPartition(r.partition))
		return
	}
	h := &r.header
	w := waiter{req: r, part: part}
	if h.Idempotent() {
		w.prod = part.producer(h.ProducerID)
		if !s.judgeProducer(part, w.prod, r) {
			part.forgetProducer(w.prod)
			return
		}
	}
	spec := part.open()
	base := spec.end
	last := base + rhumb.Offset(h.LastOffsetDelta)
	chain := codec.NextChain(spec.ownChain, base, last, h.CRC)
	env := codec.Envelope{
		Region: s.cfg.Region, Partition: part.id, Life: part.life, First: base, Last: last, Prev: spec.ownLast,
		Chain: chain, AppendTime: p.time, Count: uint32(h.Count),
	}
	p.text.put(kindAppend, &env, r.batch, base, s.term)
	if w.prod != nil {
		next := dedup.Producer{}
		if state := w.prod.speculative(); state != nil {
			next = *state
		}
		seq := dedup.SeqRange{First: h.BaseSequence, Last: dedup.LastSequence(h.BaseSequence, h.Count), Base: base, Time: p.time}
		next = next.Accept(h.ProducerEpoch, seq)
		w.prod.spec.set(next)
	}
	spec.end, spec.ownLast, spec.ownChain = last+1, last, chain
	p.add(w)
}

// set makes v the speculative value, with one more change in flight.
func (o *specOf[T]) set(v T) {
	if o.value == nil {
		o.value = new(T)
	}
	*o.value = v
	o.pending++
}

func (pr *producer) speculative() *dedup.Producer {
	if pr.spec.value != nil {
		return pr.spec.value
	}
	return pr.state()
}

func (k *mark) speculative() dedup.Watermark {
	if k.spec.value != nil {
		return *k.spec.value
	}
	return k.applied
}

// judgeProducer reports whether a batch is new to its producer's table. If not,
// it is answered; a copy of one that is in flight is answered after that one.
func (s *Shard) judgeProducer(part *partition, pr *producer, r *request) bool {
	h := &r.header
	v, base := pr.speculative().Judge(h.ProducerEpoch, h.BaseSequence, dedup.LastSequence(h.BaseSequence, h.Count))
	var k rhumb.Kind
	switch v {
	case dedup.SequenceNew:
		return true
	case dedup.SequenceDuplicate:
		if base >= part.end {
			part.spec.last.waiters = append(part.spec.last.waiters, waiter{req: r, command: -1, part: part})
			return false
		}
		s.cfg.Budget.give(r.reserved)
		r.reserved = 0
		r.appended(AppendResult{Base: base, LogStart: part.logStart, Duplicate: true})
		return false
	case dedup.SequenceOutOfOrder:
		k = rhumb.KindOutOfOrder
	case dedup.SequenceFenced:
		k = rhumb.KindFenced
	default:
		k = rhumb.KindInvalid
	}
	s.fail(r, rhumb.Errorf(k, "shard %d, partition %d: producer %d, epoch %d, sequence %d is %s", s.cfg.ID, part.id, h.ProducerID, h.ProducerEpoch, h.BaseSequence, v))
	return false
}

func (s *Shard) judgeLink(r *request, w dedup.Watermark) dedup.Verdict {
	if c, ok := r.command.(*skipCommand); ok {
		return w.JudgeSkip(c.skip)
	}
	return w.Judge(dedup.OriginBatchOf(&r.env, r.header))
}

// buildLink judges and places a batch or a skip of another region.
func (s *Shard) buildLink(p *proposal, r *request) {
	part := s.m.partitions[r.partition]
	if part == nil {
		s.fail(r, s.noPartition(r.partition))
		return
	}
	w := waiter{req: r, part: part}
	key := w.originKey()
	if owns(part.life, part.past, key.life) {
		s.fail(r, rhumb.Errorf(rhumb.KindForbidden, "shard %d, partition %d: life %s cannot come back to itself", s.cfg.ID, part.id, key.life))
		return
	}
	w.mark = part.mark(key)
	now := w.mark.speculative()
	if v := s.judgeLink(r, now); v != dedup.Accept {
		part.forgetMark(w.mark)
		s.answerVerdict(part, r, v)
		return
	}
	spec := part.open()
	if c, ok := r.command.(*skipCommand); ok {
		p.text.command(c)
		w.mark.spec.set(now.Skip(c.skip))
	} else {
		env := r.env
		env.Partition = part.id
		p.text.put(kindLink, &env, r.batch, spec.end, s.term)
		w.mark.spec.set(now.Accept(dedup.OriginBatchOf(&r.env, r.header)))
		spec.end += rhumb.Offset(r.header.LastOffsetDelta) + 1
	}
	p.add(w)
}

// answerVerdict answers what is not accepted: from applied state at once, or
// after what is in flight for the partition, judged again by what came of it.
func (s *Shard) answerVerdict(part *partition, r *request, v dedup.Verdict) {
	if part.spec.pending > 0 {
		last := part.spec.last
		last.waiters = append(last.waiters, waiter{req: r, command: -1, part: part})
		return
	}
	s.cfg.Budget.give(r.reserved)
	r.reserved = 0
	w := waiter{req: r}
	s.confirm(r.linked, LinkResult{Verdict: v, Watermark: part.watermark(w.originKey())})
}
