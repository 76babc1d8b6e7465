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
//	            searching: the logs differ, it asks again at once, with probes
//	            settled: of a past life, nothing more of it will be sent
//
// The destination's watermark is the only memory of what has been replicated.
// Opening compares it, and the chain there and at earlier points, with the
// source's log. Then the source reads on from the watermark and sends until the
// window is full. What the window holds is derived from the list of messages in
// flight, never counted apart (G29). Only a [wire.Confirm] confirms.
//
// # Where logs part
//
// If the chains differ, the source asks where: the next open carries probes, ends
// of own batches between the last point that is the same and the first that
// differs, and the destination's state answers with its chains there. It goes on
// until no own batch ends between the two. Then the session is diverged, and
// Status.Common is the place to the record.
//
// A life that was closed (Source.Closed) is sent up to its last offset, and ends
// with a skip of one offset more: nothing of it that an earlier session still has
// on its way fits behind that. So the place where the destination agrees with this
// log is fixed, and the next life begins there. Where the destination has more of
// the life than this log, and other records, that place is where the logs part.
//
// # Rounds
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
