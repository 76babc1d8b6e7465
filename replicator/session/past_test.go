package session

import (
	"bytes"
	"testing"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// TestI3NewLifeAfterDivergence: the life of a source that was restored from an
// old copy is closed, and a new one takes what lies behind. Whatever is on its
// way meanwhile, and wherever the destination stands, each batch of the source
// ends at the destination once, under the one life or the other.
func TestI3NewLifeAfterDivergence(t *testing.T) { rapid.Check(t, checkNewLife) }

func checkNewLife(t *rapid.T) {
	p := newPair(600, t.Fatalf)
	p.trace = t.Logf
	p.open()
	p.writeAnd(t, "truth", 20)
	parted := rapid.Bool().Draw(t, "restored")
	fork := p.src.pointBefore(len(p.src.batches))
	if parted {
		kept := rapid.IntRange(0, len(p.src.batches)).Draw(t, "kept")
		fork = p.src.pointBefore(kept)
		p.cut()
		for len(p.dst.queue) > 0 { // a restore takes longer
			p.apply()
		}
		p.src.cut(fork.Offset + 1)
		p.src.written += 500
		p.snd, p.watch, p.reads, p.checks = NewSender(p.snd.cfg), watch{}, nil, nil
		p.open()
	}
	p.writeAnd(t, "since", 20)
	for range rapid.IntRange(0, 60).Draw(t, "on the way") {
		p.anything(t)
	}
	p.src.closed = true
	p.src.last = p.src.pointBefore(rapid.IntRange(0, len(p.src.batches)).Draw(t, "closed at")).Offset
	closed := p.settleLife(t)
	if closed.State == Diverged {
		if !parted || p.src.last <= fork.Offset && p.dst.open(p.src.life).Offset > p.src.last {
			t.Fatalf("parted: %v behind %d, closed at %d: %+v", parted, fork.Offset, p.src.last, closed)
		}
		return // to be closed again, further down
	}
	p.nextLife(closed.Common)
	p.heal()
	if st := p.snd.Status(); st.State != Idle {
		t.Fatalf("the new life ends %+v", st)
	}
	p.onceEach(t)
}

func (p *pair) writeAnd(t *rapid.T, what string, most int) {
	for range rapid.IntRange(0, most).Draw(t, what) {
		p.src.own(rapid.Int32Range(1, 3).Draw(t, "records"), 0)
		p.src.flushed = p.src.end
		p.grown()
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			p.step()
		}
	}
}

// settleLife runs the closed life's sender, over bad connections, until it has an end.
func (p *pair) settleLife(t *rapid.T) Status {
	p.snd.Close(0, "")
	p.settleActions()
	p.snd, p.watch, p.reads, p.checks = NewSender(p.snd.cfg), watch{}, nil, nil
	p.open() // what the region has queued of the former session stays there
	for range rapid.IntRange(0, 100).Draw(t, "steps") {
		if roll(t, "fault", 12) == 0 {
			p.faultOnLink(t)
		} else {
			p.anything(t)
		}
	}
	for range 20_000 {
		switch st := p.snd.Status(); {
		case st.State == Settled, st.State == Diverged && p.quiet():
			return st
		case p.step():
		default:
			p.open()
		}
	}
	t.Fatalf("the past life has no end: %+v", p.snd.Status())
	return Status{}
}

// quiet reports whether nothing is under way that could change the outcome.
func (p *pair) quiet() bool {
	for p.step() {
		continue
	}
	return p.snd.Status().State == Diverged
}

// nextLife gives the source's log a new life behind what was agreed.
func (p *pair) nextLife(agreed dedup.ChainPoint) {
	old := p.src
	cfg := p.snd.cfg
	p.old = append(p.old, old)
	p.src = newTwinSource(rhumb.Life{0xbb}, 0)
	p.src.end, p.src.flushed, p.src.start = old.end, old.end, agreed
	for _, m := range old.batches {
		m.Envelope.Life = p.src.life
		p.src.batches = append(p.src.batches, m)
	}
	cfg.Life = p.src.life
	p.snd, p.watch = NewSender(cfg), watch{}
	p.open()
}

func (p *pair) onceEach(t *rapid.T) {
	old := p.old[len(p.old)-1]
	for _, m := range old.batches {
		n := 0
		for _, life := range []rhumb.Life{old.life, p.src.life} {
			for _, have := range p.dst.stored[life] {
				if have.Envelope.First == m.Envelope.First && bytes.Equal(have.Batch, m.Batch) {
					n++
				}
			}
		}
		if n != 1 {
			t.Fatalf("I3: batch %d to %d is stored %d times", m.Envelope.First, m.Envelope.Last, n)
		}
	}
}
