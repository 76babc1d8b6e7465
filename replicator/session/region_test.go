package session

import (
	"maps"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// twinRegion is a destination: a log of proposals that are applied one by one,
// with a speculative copy of the watermarks in front of it. It is harsher than a
// real region: after a change of leader, entries that were answered with an
// error may still be applied, and the new leader does not wait for them.
type twinRegion struct {
	applied   map[rhumb.Life]dedup.Watermark
	overlay   map[rhumb.Life]dedup.Watermark
	queue     []proposal
	stored    map[rhumb.Life][]Message
	gaps      map[rhumb.Life][]dedup.Skip // From: the watermark before
	failNext  error                       // answer to the next proposal
	onGap     func(rhumb.Life, dedup.Skip)
	lastLife  rhumb.Life
	untouched map[rhumb.Life]dedup.Watermark // before the last entry: for one of the planted bugs
}

type proposal struct {
	life    rhumb.Life
	message Message
	skip    dedup.Skip // if message has no batch
	verdict dedup.Verdict
	done    func(Result)
}

func newTwinRegion() *twinRegion {
	return &twinRegion{applied: map[rhumb.Life]dedup.Watermark{}, overlay: map[rhumb.Life]dedup.Watermark{},
		stored: map[rhumb.Life][]Message{}, gaps: map[rhumb.Life][]dedup.Skip{}, untouched: map[rhumb.Life]dedup.Watermark{}}
}

// open gives the applied watermark of a life.
func (r *twinRegion) open(life rhumb.Life) dedup.Watermark {
	if _, known := r.applied[life]; !known {
		w := dedup.NewWatermark(1, life)
		if mutant.On(mutant.LivesShareWatermark) && !r.lastLife.IsZero() {
			w = r.applied[r.lastLife]
			w.Life = life
		}
		r.applied[life], r.overlay[life], r.untouched[life] = w, w, w
		r.lastLife = life
	}
	return r.applied[life]
}

func (p *proposal) judge(w dedup.Watermark) dedup.Verdict {
	if p.message.Batch == nil {
		return w.JudgeSkip(p.skip)
	}
	return w.Judge(p.origin())
}

func (p *proposal) advance(w dedup.Watermark) dedup.Watermark {
	if p.message.Batch == nil {
		return w.Skip(p.skip)
	}
	return w.Accept(p.origin())
}

func (p *proposal) origin() dedup.OriginBatch {
	h, err := codec.ParseBatch(p.message.Batch)
	if err != nil {
		panic(err)
	}
	return dedup.OriginBatchOf(&p.message.Envelope, h)
}

// propose judges by the speculative copy. It answers at once only what applied
// state is enough for.
func (r *twinRegion) propose(p proposal) {
	w := r.overlay[p.life]
	p.verdict = p.judge(w)
	switch {
	case r.failNext != nil:
		err := r.failNext
		r.failNext = nil
		p.done(Result{Err: err, Watermark: r.applied[p.life]})
		return
	case p.verdict == dedup.Missing:
		p.done(Result{Verdict: dedup.Missing, Watermark: r.applied[p.life]})
		return
	case p.verdict == dedup.Duplicate && mutant.On(mutant.UnappliedDuplicate):
		p.done(Result{Verdict: dedup.Duplicate, Watermark: w})
		return
	case p.verdict == dedup.Accept:
		r.overlay[p.life] = p.advance(w)
	}
	r.queue = append(r.queue, p)
}

// apply applies the oldest proposal: data and watermark together.
func (r *twinRegion) apply() {
	p := r.queue[0]
	r.queue = r.queue[1:]
	w := r.applied[p.life]
	verdict := p.judge(w)
	if mutant.On(mutant.NotDecidedAtApply) {
		verdict = p.verdict
	}
	if verdict == dedup.Accept {
		r.untouched[p.life] = w
		r.applied[p.life] = p.advance(w)
		switch {
		case p.message.Batch != nil:
			r.stored[p.life] = append(r.stored[p.life], p.message)
		case p.skip.Reason.IsGap():
			gap := p.skip
			gap.From = w.Offset
			r.gaps[p.life] = append(r.gaps[p.life], gap)
			r.onGap(p.life, gap)
		}
	}
	if verdict != p.verdict || r.overlay[p.life].Offset < r.applied[p.life].Offset {
		r.overlay = maps.Clone(r.applied)
	}
	p.done(Result{Verdict: verdict, Watermark: r.applied[p.life]})
}

// loseLeader answers everything that waits with an error; the first keep of it
// stay in the log all the same.
func (r *twinRegion) loseLeader(keep int, err error) {
	for i := range r.queue {
		r.queue[i].done(Result{Err: err})
		r.queue[i].done = func(Result) {}
	}
	r.queue = r.queue[:min(keep, len(r.queue))]
	r.overlay = maps.Clone(r.applied)
}

// crash forgets all that is not applied and answers nobody.
func (r *twinRegion) crash() {
	if mutant.On(mutant.WatermarkApart) {
		r.applied = maps.Clone(r.untouched)
	}
	r.queue = nil
	r.overlay = maps.Clone(r.applied)
}

// chains answers the probes of an open.
func (r *twinRegion) chains(o *wire.Open) []dedup.ChainPoint {
	points := make([]dedup.ChainPoint, len(o.Probes))
	for i, at := range o.Probes {
		points[i].Offset = at
		for _, m := range r.stored[o.Life] {
			if m.Envelope.Last == at {
				points[i].Chain = m.Envelope.Chain
			}
		}
	}
	return points
}
