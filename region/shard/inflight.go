package shard

import (
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// tagSize is the length of what Raft is given instead of an entry's data. No
// entry of ours is that short.
const tagSize = 8

// proposal is one entry between its building and its apply.
type proposal struct {
	tag      uint64
	index    uint64     // 0 until Raft has placed it
	data     []byte     // nil once it is in the entry
	text     *entryText // of which data is made, nil once it is
	time     int64
	commands uint32
	live     bool // its waiters have not been answered
	waiters  []waiter
}

// waiter is a request that is answered when a proposal is applied.
type waiter struct {
	req *request
	// command is the request's place in the entry, -1 if it waits for others':
	// it was judged by what is in flight, and is judged again by what came of it.
	command int
	part    *partition
	mark    *mark
	prod    *producer
}

// completed is a proposal that was applied; its results start at start.
type completed struct {
	p     *proposal
	start int
}

// leadership is what this node holds as a leader.
type leadership struct {
	waiting  []*request  // not proposed yet
	unplaced []*proposal // given to Raft, and not seen in a Ready yet
	inflight fifo        // by index
	tag      uint64
	time     int64
	// draining means that the speculative copy was wrong: nothing is proposed
	// until all that is in flight has been applied, which ends the copy.
	draining bool
	done     []completed // applied, not stored yet; reused
	text     entryText   // the same
}

// fifo is a queue of proposals that reuses its space.
type fifo struct {
	list []*proposal
	from int
}

func (f *fifo) len() int { return len(f.list) - f.from }

func (f *fifo) head() *proposal {
	if f.len() == 0 {
		return nil
	}
	return f.list[f.from]
}

func (f *fifo) push(p *proposal) {
	if f.from > 64 && f.from*2 > len(f.list) {
		n := copy(f.list, f.list[f.from:])
		clear(f.list[n:])
		f.list, f.from = f.list[:n], 0
	}
	f.list = append(f.list, p)
}

func (f *fifo) pop() *proposal {
	p := f.list[f.from]
	f.list[f.from] = nil
	f.from++
	if f.from == len(f.list) {
		f.list, f.from = f.list[:0], 0
	}
	return p
}

// release takes a request out of the speculative copy. A value of it that
// nothing in flight changes any more goes.
func (w *waiter) release() {
	if w.part != nil {
		if w.part.spec.pending--; w.part.spec.pending == 0 {
			w.part.spec.last = nil
		}
	}
	if w.mark != nil {
		w.part.doneMark(w.mark)
	}
	if w.prod != nil {
		w.part.doneProducer(w.prod)
	}
}

func (p *partition) doneMark(k *mark) {
	if k.spec.pending--; k.spec.pending == 0 {
		k.spec.value = nil
		p.forgetMark(k)
	}
}

func (p *partition) doneProducer(pr *producer) {
	if pr.spec.pending--; pr.spec.pending == 0 {
		pr.spec.value = nil
		p.forgetProducer(pr)
	}
}

// forgetMark drops a life that was only asked about.
func (p *partition) forgetMark(k *mark) {
	if !k.known && k.spec.pending == 0 {
		delete(p.marks, originKey{k.applied.Region, k.applied.Life})
	}
}

func (p *partition) forgetProducer(pr *producer) {
	if !pr.known && pr.spec.pending == 0 {
		delete(p.producers, pr.id)
	}
}

// complete answers the requests of a proposal that was applied and stored.
func (s *Shard) complete(p *proposal, results []result) {
	p.live = false
	for i := range p.waiters {
		w := &p.waiters[i]
		if w.command < 0 {
			s.answerLate(w)
			continue
		}
		w.release()
		s.cfg.Budget.give(w.req.reserved)
		w.req.reserved = 0
		s.answer(w, p, results[w.command])
	}
	if s.lead.draining && s.lead.inflight.len() == 0 {
		s.lead.draining = false
	}
}

func (s *Shard) answer(w *waiter, p *proposal, r result) {
	switch {
	case w.req.appended != nil && r.refused:
		w.req.fail(r.err)
	case w.req.appended != nil:
		w.req.appended(AppendResult{Base: r.base, LogStart: w.part.logStart, AppendTime: p.time})
	case w.req.linked != nil && r.refused:
		w.req.fail(r.err)
	case w.req.linked != nil:
		k := w.originKey()
		s.confirm(w.req.linked, LinkResult{Verdict: dedup.Accept, Watermark: w.part.watermark(k)})
	default:
		w.req.done(r.value, r.err)
	}
}

func (w *waiter) originKey() originKey {
	if c, ok := w.req.command.(*skipCommand); ok {
		return originKey{c.region, c.life}
	}
	return originKey{w.req.env.Region, w.req.env.Life}
}

// confirm answers a link when what its watermark says is on the disks of a
// majority.
func (s *Shard) confirm(linked func(LinkResult), r LinkResult) {
	s.whenFlushed(func(err error) {
		if err != nil {
			r = LinkResult{Verdict: dedup.Missing, Err: err}
		}
		linked(r)
	})
}

// answerLate answers a request that was no news to what was in flight, by what
// has become of that.
func (s *Shard) answerLate(w *waiter) {
	s.cfg.Budget.give(w.req.reserved)
	w.req.reserved = 0
	p := w.part
	if s.m.partitions[p.id] != p {
		w.req.fail(s.noPartition(p.id))
		return
	}
	if w.req.linked != nil {
		v := s.judgeLink(w.req, p.watermark(w.originKey()))
		if v == dedup.Accept { // what was in flight did not make it
			v = dedup.Missing
		}
		s.confirm(w.req.linked, LinkResult{Verdict: v, Watermark: p.watermark(w.originKey())})
		return
	}
	h := w.req.header
	v, base := p.producerState(h.ProducerID).Judge(h.ProducerEpoch, h.BaseSequence, dedup.LastSequence(h.BaseSequence, h.Count))
	if v != dedup.SequenceDuplicate {
		w.req.fail(rhumb.Errorf(rhumb.KindUnavailable, "shard %d, partition %d: the batch in flight that this one repeats was not stored", s.cfg.ID, p.id))
		return
	}
	w.req.appended(AppendResult{Base: base, LogStart: p.logStart, Duplicate: true})
}

// abandon fails all that is in flight or waits.
func (s *Shard) abandon(err error) {
	l := &s.lead
	for _, c := range l.done { // what they were stored with failed
		s.failProposal(c.p, err)
	}
	clear(l.done)
	l.done = l.done[:0]
	for l.inflight.len() > 0 {
		s.failProposal(l.inflight.pop(), err)
	}
	for _, p := range l.unplaced {
		s.failProposal(p, err)
	}
	l.draining = false
	waiting := l.waiting
	l.waiting = nil
	for _, r := range waiting {
		s.fail(r, err)
	}
}

func (s *Shard) failProposal(p *proposal, err error) {
	if !p.live {
		return
	}
	p.live = false
	for i := range p.waiters {
		w := &p.waiters[i]
		if w.command >= 0 {
			w.release()
		}
		s.fail(w.req, err)
	}
}

// dropCopy starts again from applied state: data that waits fails with a
// retriable error, and nothing is proposed until what is in flight is decided.
func (s *Shard) dropCopy(cause error) {
	l := &s.lead
	l.draining = l.inflight.len() > 0 || len(l.unplaced) > 0
	keep := l.waiting[:0]
	var failing []*request
	for _, r := range l.waiting {
		if r.done != nil {
			keep = append(keep, r)
		} else {
			failing = append(failing, r)
		}
	}
	clear(l.waiting[len(keep):])
	l.waiting = keep
	for _, r := range failing {
		s.fail(r, rhumb.Errorf(rhumb.KindUnavailable, "shard %d starts again from applied state: %w", s.cfg.ID, cause))
	}
}
