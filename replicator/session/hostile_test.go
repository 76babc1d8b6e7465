package session

import (
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

var hostileLife = rhumb.Life{9}

// frame makes the data frame of one record at an offset of session 1.
func frame(first rhumb.Offset, payload int) *wire.Data {
	b, h := makeBatch(first, 1, make([]byte, payload))
	return &wire.Data{Session: 1, Head: 100, Batch: b, Envelope: codec.Envelope{Region: 1, Life: hostileLife,
		First: first, Last: first, Prev: first - 1, Chain: codec.NextChain(0, first, first, h.CRC), Count: 1, BatchSize: uint32(len(b))}}
}

// openReceiver gives one that has told its state.
func openReceiver(window int) *Receiver {
	r := NewReceiver(&wire.Open{Session: 1, Region: 1, Life: hostileLife, Head: 10}, window)
	r.Opened(dedup.NewWatermark(1, hostileLife))
	r.Actions()
	return r
}

// refusal takes the actions and gives the refusal among them, and how many bytes
// were released and messages appended.
func refusal(r *Receiver) (f *wire.Refuse, released, appended int) {
	for _, a := range r.Actions() {
		if x, ok := a.Frame.(*wire.Refuse); ok {
			f = x
		}
		released += a.Bytes
		if a.Do == DoAppend {
			appended++
		}
	}
	return f, released, appended
}

// TestI9ReceiverRefusesBrokenMessages: each is refused with words, reaches no
// region, and leaves no bytes behind.
func TestI9ReceiverRefusesBrokenMessages(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire.Data)
		text   string
	}{
		"another life":   {func(f *wire.Data) { f.Envelope.Life[0]++ }, "in a session of"},
		"another region": {func(f *wire.Data) { f.Envelope.Region++ }, "in a session of"},
		"damaged batch":  {func(f *wire.Data) { f.Batch[70]++ }, "CRC"},
		"other count":    {func(f *wire.Data) { f.Envelope.Count++ }, "its envelope says"},
		"other length":   {func(f *wire.Data) { f.Envelope.Last++ }, "its envelope says"},
		"old magic":      {func(f *wire.Data) { f.Batch[16] = 1 }, "magic"},
	} {
		r, f := openReceiver(1000), frame(0, 40)
		c.change(f)
		r.OnFrame(f)
		got, released, appended := refusal(r)
		if got == nil || got.Code != wire.CodeInvalid || !strings.Contains(got.Text, c.text) || got.Watermark != rhumb.NoOffset {
			t.Errorf("%s: refusal %+v", name, got)
		}
		if released != f.Size() || appended != 0 || r.Status().Open {
			t.Errorf("%s: %d of %d bytes released, %d appended, %+v", name, released, f.Size(), appended, r.Status())
		}
	}
}

// TestI9ReceiverHoldsTheWindow: who sends more than was granted is refused, but
// one message larger than the window may come alone.
func TestI9ReceiverHoldsTheWindow(t *testing.T) {
	r := openReceiver(1000)
	r.OnFrame(frame(0, 5000))
	if f, _, appended := refusal(r); f != nil || appended != 1 {
		t.Errorf("a large message alone: %+v, %d appended", f, appended)
	}
	r.OnFrame(frame(1, 10))
	if f, released, appended := refusal(r); f != nil || released == 0 || appended != 0 {
		t.Errorf("refused before the region has answered for the first: %+v, %d released, %d appended", f, released, appended)
	}
	w := dedup.NewWatermark(1, hostileLife)
	w.Offset = 0
	r.OnResult(1, Result{Watermark: w})
	if f, _, _ := refusal(r); f == nil || f.Code != wire.CodeInvalid || f.Watermark != 0 || !strings.Contains(f.Text, "window") {
		t.Errorf("refusal %+v", f)
	}
}

// TestI9ReceiverBoundsSkips: skips take no memory worth counting, so they are
// counted themselves.
func TestI9ReceiverBoundsSkips(t *testing.T) {
	r := openReceiver(1000)
	for i := range maxSkips + 1 {
		r.OnFrame(&wire.Skip{Session: 1, Skip: dedup.Skip{From: rhumb.Offset(i) - 1, To: rhumb.Offset(i), Reason: rhumb.ReasonForeign}})
	}
	if n := r.Status().Pending; n != maxSkips {
		t.Errorf("%d skips are with the region", n)
	}
	for i := range maxSkips {
		r.OnResult(uint64(i+1), Result{Verdict: dedup.Duplicate})
	}
	if f, _, _ := refusal(r); f == nil || f.Code != wire.CodeInvalid {
		t.Errorf("refusal %+v", f)
	}
}

// TestReceiverAfterItsEnd: what comes late is released and answered by nothing.
func TestReceiverAfterItsEnd(t *testing.T) {
	r := openReceiver(1000)
	r.OnFrame(frame(0, 40))
	r.Actions()
	r.Close(wire.CodeForbidden, "the policy has changed")
	r.Close(wire.CodeForbidden, "again")
	actions := r.Actions()
	if len(actions) != 1 || actions[0].Frame.(*wire.Close).Code != wire.CodeForbidden {
		t.Fatalf("closing: %+v", actions)
	}
	late := frame(1, 40)
	r.OnFrame(late)
	r.OnResult(1, Result{Err: rhumb.Errorf(rhumb.KindTimeout, "late")})
	r.OnResult(1, Result{})  // no ticket has two results
	r.OnResult(77, Result{}) // nor was there this one
	r.Fail(wire.CodeForbidden, "too late")
	r.Opened(dedup.NewWatermark(1, hostileLife))
	released := 0
	for _, a := range r.Actions() {
		if a.Do != DoRelease {
			t.Errorf("after the end: %+v", a)
		}
		released += a.Bytes
	}
	if want := 2 * late.Size(); released != want {
		t.Errorf("%d bytes released, want %d", released, want)
	}
}

// TestReceiverRefusesTheOpen: the answer carries no watermark.
func TestReceiverRefusesTheOpen(t *testing.T) {
	r := NewReceiver(&wire.Open{Session: 1, Region: 1, Life: hostileLife}, 1000)
	r.OnFrame(frame(0, 10)) // a source that does not wait for the state
	r.Fail(wire.CodeDeleted, "deleted under count 4")
	f, released, appended := refusal(r)
	if f == nil || f.Code != wire.CodeDeleted || f.Watermark != rhumb.NoOffset || released == 0 || appended != 0 {
		t.Errorf("refusal %+v, %d released, %d appended", f, released, appended)
	}
}

// TestReceiverTellsTheEarliestFailure: what fails behind a failure only follows
// from it, also when its answer comes first.
func TestReceiverTellsTheEarliestFailure(t *testing.T) {
	r := openReceiver(1000)
	r.OnFrame(frame(0, 10))
	r.OnFrame(frame(1, 10))
	r.Actions()
	r.OnResult(2, Result{Verdict: dedup.Missing})
	if f, _, _ := refusal(r); f != nil {
		t.Fatalf("told while a message is pending: %+v", f)
	}
	r.OnResult(1, Result{Err: rhumb.Errorf(rhumb.KindNoSpace, "disk is full")})
	if f, _, _ := refusal(r); f == nil || f.Code != wire.CodeHold || f.Text != "disk is full" {
		t.Errorf("refusal %+v", f)
	}
}

// TestConfirmationsAreJoined: several results make one confirmation.
func TestConfirmationsAreJoined(t *testing.T) {
	r := openReceiver(10_000)
	w := dedup.NewWatermark(1, hostileLife)
	for i := range 5 {
		r.OnFrame(frame(rhumb.Offset(i), 10))
	}
	r.Actions()
	for i := range 5 {
		w.Offset, w.Chain = rhumb.Offset(i), uint64(i+1)
		r.OnResult(uint64(i+1), Result{Watermark: w})
	}
	var confirms []rhumb.Offset
	for _, a := range r.Actions() {
		if f, ok := a.Frame.(*wire.Confirm); ok {
			confirms = append(confirms, f.Watermark)
		}
	}
	if len(confirms) != 1 || confirms[0] != 4 {
		t.Errorf("confirms %v", confirms)
	}
}
