package session

import (
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// Do says what an [Action] asks for.
type Do uint8

// What can be asked for.
const (
	// DoSend: write Frame to the session's lane, in order.
	DoSend Do = iota + 1

	// DoRead (sender): read messages as Read says, then call [Sender.OnRead].
	DoRead

	// DoCheck (sender): look up the source's own chain at each of Points, then
	// call [Sender.OnChains] with Gen.
	DoCheck

	// DoSearch (sender): list ends of the source's own batches that lie after From
	// and before To, whatever life names them, evenly spaced and at most
	// wire.MaxProbes, the first one among them; then call [Sender.OnBorders] with Gen.
	DoSearch

	// DoAppend (receiver): give Message to the region, then call
	// [Receiver.OnResult] with Ticket. Appends must reach the region in order.
	DoAppend

	// DoSkip (receiver): give Skip to the region, in order with the appends, then
	// call [Receiver.OnResult] with Ticket.
	DoSkip

	// DoRelease (receiver): Bytes of a received batch are not held any more.
	DoRelease
)

// Action is one thing that a state machine asks its caller to do. Only the
// fields that its Do names are set.
type Action struct {
	Do      Do
	Frame   wire.Frame
	Read    Read
	Gen     uint64
	Points  []dedup.ChainPoint
	From    rhumb.Offset
	To      rhumb.Offset
	Ticket  uint64
	Message Message
	Skip    dedup.Skip
	Bytes   int
}

// queue collects actions until they are taken. It reuses its memory without
// keeping what the actions of an earlier round pointed to.
type queue struct {
	list  []Action
	taken int // how many the last take gave
}

func (q *queue) add(a Action) { q.list = append(q.list, a) }

func (q *queue) take() []Action {
	if n := len(q.list); n < q.taken {
		clear(q.list[n:q.taken])
	}
	a := q.list
	q.list, q.taken = q.list[:0], len(a)
	return a
}

// Message is one batch with its envelope.
type Message struct {
	Envelope codec.Envelope
	Batch    []byte
}

// size is what the message takes from the window; see [wire.Data.Size].
func (m *Message) size() int { return codec.EnvelopeSize + len(m.Batch) }

// skipSize is what a skip or gap takes from the window.
const skipSize = 64

// Read asks for the batches of the session's origin life whose first offset lies
// in (After, Limit), in order, at most MaxBytes of them but at least one.
type Read struct {
	Gen      uint64
	After    rhumb.Offset
	Limit    rhumb.Offset
	MaxBytes int
}

// ReadResult answers a [Read].
type ReadResult struct {
	Gen      uint64
	Source   Source // as it is after the read
	Messages []Message
	Complete bool // nothing of the origin lies between the last message and Limit
	// Tail, of a closed life, is its end if compaction took all behind the last message.
	Tail *dedup.ChainPoint
	Err  error
}

// ChainAnswer is the source's own chain at a point: Known is false if the source
// cannot tell any more, since the point lies below its floor, past its end, or where
// compaction took the batches around it.
// Inside says that the point lies inside of a batch, where no chain is right.
type ChainAnswer struct {
	Chain  uint64
	Known  bool
	Inside bool
}

// Result is the region's answer to an append or a skip. Watermark is applied
// and flushed state, also when the verdict is not accept; its Life is zero if
// the region could not tell.
type Result struct {
	Verdict   dedup.Verdict
	Watermark dedup.Watermark
	Err       error

	// Code, unless none, says that the message was not even given to the region, and Text
	// why.
	Code wire.Code
	Text string
}
