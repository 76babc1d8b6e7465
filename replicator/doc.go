// Package replicator keeps the links between this region and all others: what
// was published here goes to every region to which an edge of the policy leads,
// in order, without loss, exactly once. Over an edge that forwards, so does what
// other regions published and this one holds.
//
// # Shape
//
//	Manager ── link (one per other region, lives as long as its number)
//	             ├─ dialler ── conn (one QUIC connection, mutual TLS, hello)
//	             │               ├─ control stream: announces, pings, pongs
//	             │               ├─ pool: connections that joined it, as many as bring more
//	             │               ├─ lanes: streams on which this side's sessions send
//	             │               └─ inbound: streams on which the peer's sessions send
//	             └─ flow (one per origin life, partition and edge) ── sending (one session)
//
// As a destination, the manager's origins decide over which of several paths a life
// comes (package paths). A flow whose peer takes the life over another path stands
// by, without goroutine or session, and offers it again while the peer lacks some.
//
// The two ends of a session are the pure machines of package session; frames are
// those of package wire. This package gives them sockets, time and memory. It
// remembers nothing: where a flow goes on, the destination's log says each time
// a session opens.
//
// # One connection per pair, and those that join it
//
// Both regions may dial; the one with the lower number at once, the other after
// three seconds without a connection. Data flows both ways on the connection,
// whoever dialled. Of two connections both sides keep the one that the lower
// number dialled, if it lives, and of two dialled by the same side the newer. A
// refusal (other mesh, wrong certificate, a number that belongs to another name,
// no common version, unknown required feature) names its reason on both sides.
//
// That connection carries control, answers and the bases of lanes. Others join it, as
// many as package climb finds worth having: each lane is spread over all of them (package
// strands). They are dialled by who dialled the first, name it by what its hello said, and
// end with it. Both sides say in their hellos how many they take.
//
// A connection on a long line is warmed up by padding before there is data, so that new
// records do not wait for its congestion window to grow. Where losses shrink the windows
// that there are, up to three further connections join that are warmed up likewise.
//
// A path that heals is found within about two seconds: attempts overlap, since
// QUIC repeats a lost first packet ever more rarely. A restarted process is
// noticed at once: its stateless resets end the connections of its former life.
//
// # What bounds memory
//
//	Limits.SendBudget     batches read here and not confirmed, all links together
//	Limits.ReceiveBudget  batches arrived and not stored, all links together
//	                      each link has an equal share of both
//	Limits.Window         of these, what one session may hold
//	connectionWindow      what QUIC buffers of a connection before it is read
//	windowBudget          by how much these windows may have grown, all connections
//	                      together, over initialWindow each
//	maxJoined             connections that joined others, all links together
//
// Who waits for a budget, or for the link, waits in one of two classes, first
// come first served: records up to five seconds old go before older ones, which
// get at least one turn in eight. Of SendBudget backlog has three quarters at most. Older
// records of a partition that owes little are a class between them, debts: they take turns
// with backlog, and have an eighth of SendBudget. One read takes a quarter at most of what its
// class has.
//
// Each class has lanes of its own, since a batch cannot be cut on a lane. A session that
// falls behind or catches up ends once all it sent is confirmed, and the next one goes on
// over the other class's lane. As many sessions write backlog at once as the line is fast,
// on a slow one one, and as many a debt; between two pieces they give way to new data that waits.
//
// An edge with a rate has a limiter of its own: sessions take one of its few slots
// before they read, new data first, and wait for its pace before their turn, so that
// they hold nothing meanwhile that other edges need.
//
// # What operators do
//
// Pauses are settings of the source region; a paused flow has no session. A skip is
// an order for the next session of a flow: it says a gap up to a batch border, and is
// done when the destination has confirmed that. Neither is remembered anywhere else.
// A refusal stays with its flow until the destination gets past it.
//
// # A session that fails
//
// A refusal stops its partition alone; the flow tries again with back-off, and
// at once when policy, topics or the connection change. Diverged logs wait for a
// person. The watchdog rebuilds a session that has something to do and does not
// move, gives up a stream that takes nothing, and replaces a connection on which
// nothing moves.
//
// # Goroutines
//
// Per manager: fec.Socket.Run (see there), Run (woken by policy and topics; brings links in line), accept
// (woken by new connections), serve (one per accepted connection, becomes conn.run),
// watcher.run (32, woken by growth of idle partitions).
//
// Per link: dialler.run (woken by changes of the link), one per dialling attempt,
// which becomes conn.run.
//
// Per connection: run, hear and speak (control stream), settler.run (announced
// topics), inbound.accept, inbound.review (woken by policy and topics), runFlows
// (starts flows that are due), reoffer (queues flows that stand by, and barren ones when it is time, each second), watch (the watchdog, by time), correct (the loss of the
// path, each second), pool.run
// (by time, and woken by lanes and connections), warm (by time, until the connection is
// warm), drain (woken by padding). Per connection that joined: run, which
// accepts strands, warm and drain, and one per strand until its lane is known, then those of package
// strands. Per lane that this
// side sends on: hear, and carry if it is for new data. Per lane that the peer sends on: hear and speak, and one
// per session that asks the region where it stands.
//
// Per flow that has something to do: flow.run. Idle flows have none.
//
// All end before Run returns.
//
// # Lock order
//
// No lock is held while something waits for the network or for time: that would
// stop the clock of a test under virtual time, and much else otherwise. Where one
// at a time may wait, a channel or a gate orders them.
//
// Manager.mu, then link.mu, then any of: lanes.mu, lane.mu, inbound.mu, settler.mu,
// control.mu, flow.mu, ledger.mu, gate.mu, origins.mu, pool.mu, windows.mu, precedence.mu. Apart from these: receiver.mu, then
// inbound.mu, inLane.mu, receiver.resultsMu. watcher.mu before the region's own
// locks. A region's callback takes receiver.resultsMu and inLane.mu only, until
// its lane is closed.
package replicator
