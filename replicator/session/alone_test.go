package session

import (
	"testing"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// TestI3SessionOfOneBatch: what comes of the batch is the only answer, and the session is
// over with it.
func TestI3SessionOfOneBatch(t *testing.T) {
	batch := frame(0, 40)
	here := dedup.NewWatermark(1, hostileLife)
	there := here
	there.Offset, there.Chain = batch.Envelope.Last, batch.Envelope.Chain
	further := there
	further.Offset, further.Chain = 7, 77
	for name, c := range map[string]struct {
		res   Result
		word  rhumb.Offset // of the confirmation
		chain uint64
		code  wire.Code // of the refusal
	}{
		"accepted":              {Result{Verdict: dedup.Accept, Watermark: there}, 0, there.Chain, wire.CodeNone},
		"it had it":             {Result{Verdict: dedup.Duplicate, Watermark: there}, 0, there.Chain, wire.CodeNone},
		"it has more":           {Result{Verdict: dedup.Duplicate, Watermark: further}, 7, 77, wire.CodeNone},
		"something is missing":  {Result{Verdict: dedup.Missing, Watermark: here}, rhumb.NoOffset, 0, wire.CodeMissing},
		"it has something else": {Result{Verdict: dedup.Diverged, Watermark: further}, 7, 77, wire.CodeDiverged},
		"no room":               {Result{Err: rhumb.Errorf(rhumb.KindNoSpace, "full")}, rhumb.NoOffset, 0, wire.CodeHold},
	} {
		r := NewReceiver(&wire.Open{Session: 1, Region: 1, Life: hostileLife, Head: 1, Alone: true}, 1000)
		if got := r.Actions(); len(got) != 0 {
			t.Errorf("%s: asks for %+v before the batch came", name, got)
		}
		r.OnFrame(batch)
		ticket := uint64(0)
		for _, a := range r.Actions() {
			if a.Do == DoAppend {
				ticket = a.Ticket
			}
		}
		if ticket == 0 || r.Over() {
			t.Fatalf("%s: the batch is not given to the region, over %v", name, r.Over())
		}
		r.OnResult(ticket, c.res)
		word, chain, code := rhumb.NoOffset, uint64(0), wire.CodeNone
		for _, a := range r.Actions() {
			switch f := a.Frame.(type) {
			case *wire.Confirm:
				word, chain = f.Watermark, f.Chain
			case *wire.Refuse:
				code = f.Code
			}
		}
		if word != c.word || chain != c.chain || code != c.code || !r.Over() {
			t.Errorf("%s: confirms %d with chain %x, refuses with %s, over %v", name, word, chain, code, r.Over())
		}
	}
}

// TestI9SessionOfOneBatchTakesOne: a second batch, or a skip, is refused and leaves no
// bytes behind.
func TestI9SessionOfOneBatchTakesOne(t *testing.T) {
	begin := func() *Receiver {
		return NewReceiver(&wire.Open{Session: 1, Region: 1, Life: hostileLife, Head: 10, Alone: true}, 1000)
	}
	r := begin()
	r.OnFrame(&wire.Skip{Session: 1, Head: 10, Skip: dedup.Skip{From: -1, To: 3, Reason: rhumb.ReasonForeign}})
	if f, _, appended := refusal(r); f == nil || f.Code != wire.CodeInvalid || appended > 0 || !r.Over() {
		t.Errorf("a skip: %+v", f)
	}
	r = begin()
	first, second := frame(0, 40), frame(1, 40)
	r.OnFrame(first)
	r.OnFrame(second)
	if _, released, appended := refusal(r); released != second.Size() || appended != 1 {
		t.Errorf("of two batches %d reach the region, %d bytes are released", appended, released)
	}
}
