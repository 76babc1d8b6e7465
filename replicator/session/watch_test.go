package session

import (
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// watch follows the frames of a source and knows, apart from the machine, what
// it may do: each round goes on from what the destination said, without a hole,
// and the window holds.
type watch struct {
	session  wire.SessionID
	round    uint32
	position rhumb.Offset // everything up to here was sent or is confirmed
	said     rhumb.Offset // the watermark that the round starts from
	flying   []wire.Data  // not confirmed
}

// sent looks at a frame that leaves the source.
func (w *watch) sent(p *pair, f wire.Frame) {
	switch f := f.(type) {
	case *wire.Open:
		*w = watch{session: f.Session, position: rhumb.NoOffset, said: rhumb.NoOffset}
	case *wire.Skip:
		w.newRound(f.Round)
		if f.Skip.From != w.position {
			p.fatal("%s, but the source was at %d", describe(f), w.position)
		}
		for _, m := range p.src.batches {
			covered := m.Envelope.First > f.Skip.From && m.Envelope.Last <= f.Skip.To
			if p.src.closed && m.Envelope.First > p.src.last {
				continue // the life does not name it
			}
			if covered && f.Skip.Reason == rhumb.ReasonForeign {
				p.fatal("%s, but there is a batch %d to %d", describe(f), m.Envelope.First, m.Envelope.Last)
			}
		}
		w.position = f.Skip.To
	case *wire.Data:
		w.newRound(f.Round)
		if e := f.Envelope; e.Prev > w.position || e.First <= w.position {
			p.fatal("%s, but the source was at %d", describe(f), w.position)
		}
		if f.Envelope.Last >= p.src.flushed {
			p.fatal("%s, but only what is below %d is flushed", describe(f), p.src.flushed)
		}
		w.position = f.Envelope.Last
		w.flying = append(w.flying, *f)
		if bytes := w.bytes(); len(w.flying) > 1 && bytes > p.window {
			p.fatal("%d bytes in flight in a window of %d", bytes, p.window)
		}
	}
}

func (w *watch) newRound(round uint32) {
	if round != w.round {
		w.round, w.position, w.flying = round, w.said, nil
	}
}

func (w *watch) bytes() (n int) {
	for i := range w.flying {
		n += w.flying[i].Size()
	}
	return n
}

// answered looks at a frame that reaches the source.
func (w *watch) answered(p *pair, f wire.Frame) {
	switch f := f.(type) {
	case *wire.State:
		if f.Session == w.session && p.snd.Status().State == Opening {
			w.position, w.said = f.Watermark.Offset, f.Watermark.Offset
		}
	case *wire.Confirm:
		if f.Session != w.session {
			return
		}
		w.position, w.said = max(w.position, f.Watermark), max(w.said, f.Watermark)
		for len(w.flying) > 0 && w.flying[0].Envelope.Last <= f.Watermark {
			w.flying = w.flying[1:]
		}
	case *wire.Refuse:
		if f.Session == w.session && f.Round == w.round {
			w.said = max(w.said, f.Watermark)
		}
	}
}

// look checks what must hold at any time.
func (w *watch) look(p *pair) {
	st := p.snd.Status()
	if applied := p.dst.open(p.src.life).Offset; st.Confirmed > applied {
		p.fatal("the source counts %d as confirmed, the destination has %d", st.Confirmed, applied)
	}
	if strings.Contains(st.Text, "hole without") || strings.Contains(st.Text, "may not leave") {
		p.fatal("the source sees a fault in its log: %s", st.Text)
	}
	if st.State == Refused {
		p.fatal("refused: %s", st.Text)
	}
}
