// Package session holds the two ends of one session of a link as pure state
// machines: [Sender] at the source, [Receiver] at the destination, both for one
// origin life of one partition. They have no socket, clock, goroutine or lock.
// Events are method calls; what has to be done about them is a list of [Action]
// values that the caller takes after each call. All calls of one machine come
// from one goroutine at a time.
//
// # The source's side
//
//	                 Open                State + chains agree
//	closed ────────────────▶ opening ───────────────────────▶ flowing ◀───▶ idle
//	  ▲                         │                                │   all confirmed
//	  │ Close,                  │ Refuse, read error, Close frame│
//	  │ Disconnected            ▼                                ▼
//	  └──────── held: the destination has no room        ┐
//	            stalled: unavailable, or no progress     ├─ Open again
//	            refused: deleted, forbidden, broken      │  (by back-off, by policy
//	            diverged: the logs differ                ┘   change, by an operator)
//
// The destination's watermark is the only memory of what has been replicated.
// Opening compares it, and the chain there and at earlier points, with the
// source's log. Then the source reads on from the watermark and sends until the
// window is full. What the window holds is derived from the list of messages in
// flight, never counted apart (G29). Only a [wire.Confirm] confirms.
//
// A refusal "missing" rewinds (go-back-N): position and list in flight go back to
// the watermark, the round grows, and the read generation grows, so that the
// result of a read that was under way changes nothing (G28). A second one
// without progress between them stalls instead, so that a fault can never make
// a hot loop. Any other refusal ends the session.
//
// # The destination's side
//
// Messages go to the region in the order in which they came. The first that
// fails fails its round: everything behind it is dropped unseen (G01). When no
// message is with the region any more, one refusal says how far it got. Nothing
// is confirmed but a watermark that the region gave with a result, which it
// takes from applied and flushed state.
//
// # Holes
//
// A message whose prev is at or before the position needs nothing else: the
// offsets between belong to other origins. Three things are said by a skip:
//
//	before the edge's start       skip, policy
//	at or below the floor         gap with the floor's reason, if the chain shows
//	                              that batches were there; else skip, foreign
//	at the end, when it is quiet  skip, foreign: so the watermark reaches the end
//
// A hole with none of these reasons stalls the session: it is never skipped.
package session
