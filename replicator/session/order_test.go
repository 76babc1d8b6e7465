package session

import (
	"testing"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// skips gives the skips among actions, and answers reads from the source.
func skips(s *Sender, src *twinSource) (out []dedup.Skip) {
	for more := true; more; {
		more = false
		for _, a := range append([]Action(nil), s.Actions()...) {
			switch {
			case a.Do == DoRead:
				s.OnRead(src.read(a.Read))
				more = true
			case a.Do == DoSend:
				if f, ok := a.Frame.(*wire.Skip); ok {
					out = append(out, f.Skip)
				}
			}
		}
	}
	return out
}

// TestG17OrderBeginsWhereTheDestinationIs: a skip that an operator ordered goes out in
// the next session only, begins at the destination's watermark, is said again after a
// rewind, and nothing of it is said once the destination has it.
func TestG17OrderBeginsWhereTheDestinationIs(t *testing.T) {
	s, src := flowing(t, 6)
	at := func(o rhumb.Offset) dedup.ChainPoint { return s.flights.list[o].end }
	point, watermark := at(3), at(0)
	s.SkipTo(&Order{To: point, By: "ann"})
	s.Disconnected()
	s.Open(2, src.source())
	w := dedup.NewWatermark(1, hostileLife)
	w.Offset, w.Chain = watermark.Offset, watermark.Chain
	s.OnFrame(&wire.State{Session: 2, Window: 10_000, Watermark: w})
	for _, a := range s.Actions() {
		if a.Do == DoCheck {
			s.OnChains(a.Gen, []ChainAnswer{{Chain: watermark.Chain, Known: true}})
		}
	}
	want := dedup.Skip{From: 0, To: 3, Chain: point.Chain, Reason: rhumb.ReasonSkipped, By: "ann"}
	if got := skips(s, src); len(got) != 1 || got[0] != want {
		t.Fatalf("skips %+v, want %+v", got, want)
	}
	s.OnFrame(&wire.Refuse{Session: 2, Code: wire.CodeMissing, Watermark: 0, Chain: watermark.Chain})
	if got := skips(s, src); len(got) != 1 || got[0] != want {
		t.Fatalf("after a rewind: skips %+v", got)
	}
	s.OnFrame(&wire.Confirm{Session: 2, Watermark: 3, Chain: point.Chain})
	if got := skips(s, src); len(got) != 0 || s.Status().Confirmed != 3 || s.Status().State != Flowing {
		t.Fatalf("afterwards: skips %+v, %+v", got, s.Status())
	}
}
