package session

import (
	"fmt"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// phase is where a receiver stands. It only grows.
type phase uint8

const (
	asked phase = iota // the region is being asked for the watermark
	open
	ended
)

// Receiver is the destination's side of one session. See the package comment.
type Receiver struct {
	request wire.Open
	window  int

	phase phase
	round uint32       // the highest that came
	tail  rhumb.Offset // the last offset that came in this round
	head  rhumb.Offset // the source's, as it said last

	// pending are the messages that the region has not answered, oldest first.
	pending []pending
	bytes   int // of the batches among them, with their envelopes
	skips   int // among them
	ticket  uint64

	watermark dedup.ChainPoint // the highest that the region gave
	confirmed rhumb.Offset     // the highest that was told to the source

	// The first failure of this round, nil while there is none. It is told when
	// nothing is pending any more.
	failure       *wire.Refuse
	failureTicket uint64 // of the message, 0 for one that the region never saw
	told          bool

	actions queue
}

type pending struct {
	ticket uint64
	last   rhumb.Offset
	size   int // 0 for a skip
}

// unconfirmed is how many bytes of the window the source may count as taken: not
// those that a later message's result has confirmed before their own came.
func (r *Receiver) unconfirmed() (bytes int) {
	for i := range r.pending {
		if r.pending[i].last > r.confirmed {
			bytes += r.pending[i].size
		}
	}
	return bytes
}

// maxSkips bounds the skips that the region has not answered: a source of ours
// has no more than maxSkipsAhead in flight, and a few more.
const maxSkips = 4 * maxSkipsAhead

// NewReceiver makes the receiver for an open that came. The caller decides
// whether it may be, asks the region for the watermark of the life, and calls
// [Receiver.Opened] or [Receiver.Fail]. window is the most bytes to take before
// the region has answered for some; it is told to the source.
//
// A session of one batch, [wire.Open.Alone], is open from the start: the region judges
// the batch by what it has, and its answer is all that the source hears.
func NewReceiver(request *wire.Open, window int) *Receiver {
	r := &Receiver{request: *request, window: window, head: request.Head}
	if request.Alone {
		r.phase, r.tail, r.confirmed = open, rhumb.NoOffset, rhumb.NoOffset
		r.watermark.Offset = rhumb.NoOffset
	}
	return r
}

// Over reports whether the session has ended.
func (r *Receiver) Over() bool { return r.phase == ended }

// ReceiverStatus is a snapshot of a receiver for figures.
type ReceiverStatus struct {
	Open      bool
	Watermark rhumb.Offset // the highest that the region gave
	Head      rhumb.Offset // the source's, as it said last
	Pending   int          // messages that the region has not answered
	Bytes     int          // of them
}

// Status gives a snapshot.
func (r *Receiver) Status() ReceiverStatus {
	return ReceiverStatus{Open: r.phase == open, Watermark: r.watermark.Offset, Head: r.head, Pending: len(r.pending), Bytes: r.bytes}
}

// Actions gives what has to be done since the last call, in order. The slice is
// good until the next call of any method. Confirmations of several results are
// put together, so take actions once after several results, not after each.
func (r *Receiver) Actions() []Action {
	if r.phase == open && r.watermark.Offset > r.confirmed {
		r.confirmed = r.watermark.Offset
		r.send(&wire.Confirm{Session: r.request.Session, Watermark: r.watermark.Offset, Chain: r.watermark.Chain})
	}
	r.tellFailure()
	if r.request.Alone && r.ticket > 0 && len(r.pending) == 0 {
		r.phase = ended
	}
	return r.actions.take()
}

func (r *Receiver) send(f wire.Frame) {
	r.actions.add(Action{Do: DoSend, Frame: f})
}

// Opened gives the watermark of the session's life, from applied and flushed
// state, and the answers to the open's probes.
func (r *Receiver) Opened(w dedup.Watermark, chains ...dedup.ChainPoint) {
	if r.phase != asked {
		return
	}
	r.phase = open
	r.watermark = dedup.ChainPoint{Offset: w.Offset, Chain: w.Chain}
	r.confirmed, r.tail = w.Offset, w.Offset
	r.send(&wire.State{Session: r.request.Session, Window: uint32(r.window), Watermark: w, Chains: chains})
}

// Fail refuses the session, before or after it was opened.
func (r *Receiver) Fail(code wire.Code, text string) {
	if r.phase != ended {
		r.fail(0, code, text)
	}
}

// Elsewhere refuses a session, before it was opened, because the life comes over
// another path: w is what the region has of it.
func (r *Receiver) Elsewhere(w dedup.Watermark, text string) {
	if r.phase == asked {
		r.phase = ended
		r.send(&wire.Refuse{Session: r.request.Session, Code: wire.CodeElsewhere, Watermark: w.Offset, Chain: w.Chain, Text: text})
	}
}

// Close ends the session without blaming it.
func (r *Receiver) Close(code wire.Code, text string) {
	if r.phase == ended {
		return
	}
	r.phase = ended
	r.send(&wire.Close{Session: r.request.Session, Code: code, Text: text})
}

// OnFrame takes a frame of the source.
func (r *Receiver) OnFrame(f wire.Frame) {
	switch f := f.(type) {
	case *wire.Data:
		if f.Session != r.request.Session || !r.admit(f.Round, f.Head, f.Envelope.Last, f.Size()) {
			r.release(f.Size())
			return
		}
		if text := r.check(f); text != "" {
			r.release(f.Size())
			r.fail(r.ticket+1, wire.CodeInvalid, text)
			return
		}
		r.give(Action{Do: DoAppend, Message: Message{f.Envelope, f.Batch}}, f.Envelope.Last, f.Size())
	case *wire.Skip:
		if f.Session == r.request.Session && r.admit(f.Round, f.Head, f.Skip.To, 0) {
			r.give(Action{Do: DoSkip, Skip: f.Skip}, f.Skip.To, 0)
		}
	case *wire.Close:
		if f.Session == r.request.Session {
			r.phase = ended
		}
	}
}

// admit decides whether a message is looked at: not if its round is over, or
// has failed, or the message came before in it.
func (r *Receiver) admit(round uint32, head, last rhumb.Offset, size int) bool {
	if r.phase != open || round < r.round {
		return false
	}
	if round > r.round {
		r.round, r.failure, r.told, r.failureTicket = round, nil, false, 0
		r.tail = r.watermark.Offset
	}
	r.head = max(r.head, head)
	switch {
	case r.failure != nil:
		return false
	case r.request.Alone && (r.ticket > 0 || size == 0):
		r.fail(r.ticket+1, wire.CodeInvalid, "more than one batch in a session of one")
		return false
	case last <= r.tail:
		return false
	case size > 0 && r.bytes+size > r.window && r.unconfirmed() > 0 && r.unconfirmed()+size > r.window:
		r.fail(r.ticket+1, wire.CodeInvalid, fmt.Sprintf("%d bytes in a window of %d", r.unconfirmed()+size, r.window))
		return false
	case size == 0 && r.skips == maxSkips:
		r.fail(r.ticket+1, wire.CodeInvalid, "too many skips")
		return false
	}
	return true
}

// check says what is wrong with a message, "" if nothing is.
func (r *Receiver) check(f *wire.Data) string {
	e := &f.Envelope
	if e.Region != r.request.Region || e.Life != r.request.Life {
		return fmt.Sprintf("batch of origin %s in a session of %d:%s", e.Origin(), r.request.Region, r.request.Life)
	}
	check := codec.CheckBatch
	if e.Thinned() {
		check = codec.CheckThinned
	}
	h, err := check(f.Batch)
	if err != nil {
		return fmt.Sprintf("batch at %d: %v", e.First, err)
	}
	if int64(h.LastOffsetDelta) != int64(e.Last-e.First) || uint32(h.Count) != e.Count {
		return fmt.Sprintf("batch at %d: %d records to offset %d, its envelope says %d", e.First, h.Count, e.Last, e.Count)
	}
	return ""
}

// give hands a message to the region.
func (r *Receiver) give(a Action, last rhumb.Offset, size int) {
	r.ticket++
	r.tail = last
	a.Ticket = r.ticket
	r.pending = append(r.pending, pending{r.ticket, last, size})
	r.bytes += size
	if size == 0 {
		r.skips++
	}
	r.actions.add(a)
}

func (r *Receiver) release(bytes int) {
	if bytes > 0 {
		r.actions.add(Action{Do: DoRelease, Bytes: bytes})
	}
}

// OnResult takes the region's answer for a ticket. It must be called once for
// each append and skip, also when the session has ended meanwhile.
func (r *Receiver) OnResult(ticket uint64, res Result) {
	if !r.settle(ticket) {
		return
	}
	if r.phase == ended {
		return
	}
	if res.Watermark.Life == r.request.Life && res.Watermark.Offset > r.watermark.Offset {
		r.watermark = dedup.ChainPoint{Offset: res.Watermark.Offset, Chain: res.Watermark.Chain}
	}
	switch {
	case res.Code != wire.CodeNone:
		r.fail(ticket, res.Code, res.Text)
	case res.Err != nil:
		r.fail(ticket, wire.CodeOf(res.Err), res.Err.Error())
	case res.Verdict == dedup.Missing:
		r.fail(ticket, wire.CodeMissing, "")
	case res.Verdict == dedup.Diverged:
		r.fail(ticket, wire.CodeDiverged, "batch does not continue the chain here")
	case res.Verdict == dedup.Invalid:
		r.fail(ticket, wire.CodeInvalid, "batch contradicts itself")
	}
}

// settle removes a ticket from what is pending. It is false for an unknown one.
func (r *Receiver) settle(ticket uint64) bool {
	i := 0
	for i < len(r.pending) && r.pending[i].ticket != ticket {
		i++
	}
	if i == len(r.pending) {
		return false
	}
	size := r.pending[i].size
	if i == 0 {
		r.pending = r.pending[1:] // the usual case: the region answers in order
	} else {
		r.pending = append(r.pending[:i], r.pending[i+1:]...)
	}
	r.bytes -= size
	if size == 0 {
		r.skips--
	}
	r.release(size)
	return true
}

// fail makes the round a failed one. Of several failures the one of the earliest
// message counts: those behind it only follow from it.
func (r *Receiver) fail(ticket uint64, code wire.Code, text string) {
	if r.told || r.failure != nil && (r.failureTicket == 0 || ticket > r.failureTicket) {
		return
	}
	r.failure = &wire.Refuse{Session: r.request.Session, Round: r.round, Code: code, Text: text}
	r.failureTicket = ticket
}

// tellFailure sends the refusal once nothing of the round is with the region, so
// that the watermark in it is the last word.
func (r *Receiver) tellFailure() {
	if r.failure == nil || r.told || r.phase == ended || len(r.pending) > 0 && !mutant.On(mutant.RefusedEarly) {
		return
	}
	r.told = true
	f := *r.failure
	f.Watermark, f.Chain = r.watermark.Offset, r.watermark.Chain
	if r.phase == asked {
		f.Watermark, f.Chain = rhumb.NoOffset, 0
	}
	r.confirmed = max(r.confirmed, r.watermark.Offset)
	if f.Code != wire.CodeMissing || r.request.Alone {
		r.phase = ended
	}
	r.send(&f)
}
