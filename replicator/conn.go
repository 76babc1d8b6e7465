package replicator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/fec"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// conn is the connection that serves a link, in both directions, with those that
// joined it.
type conn struct {
	// Fixed before run.
	m        *Manager
	link     *link
	qc       *quic.Conn
	dialled  bool       // by this side
	boot     rhumb.UUID // of the peer's process, zero if it told none
	data     rhumb.UUID // of the peer's data directory
	rebuilt  bool       // the peer's document says that it was rebuilt
	features uint64     // that both sides know
	stream   *quic.Stream
	software string       // version of the peer's program, empty if it told none
	reader   *wire.Reader // of the control stream
	writer   *wire.Writer

	heard   atomic.Int64 // when the control stream last brought a frame, Unix ns
	adopted time.Time    // by the link; guarded by link.mu

	stopOnce sync.Once
	stopped  chan struct{} // closed by end
	cause    error         // valid once stopped is closed

	control control
	rates   rates
	settler settler
	lanes   lanes
	inbound inbound
	pool    pool

	corrected  *fec.Session // nil without correction; fixed before run
	correcting bool         // it did when it was last looked; owned by pool.run

	told     time.Time     // when the watchdog last logged; its own
	opening  *gate         // sessions that find their start
	far      bool          // nothing goes alone over it; owned by link.runFlows
	confirms atomic.Uint64 // grows with each sign of progress of any session
	due      due           // flows to be worked on; guarded by link.mu
	trailing []trailing    // barren flows, by time; guarded by link.mu
}

// streamGivenUp is the code with which either side gives a lane up.
const streamGivenUp quic.StreamErrorCode = 1

// aliveFor is how long after the last frame of the control stream a connection
// counts as alive. Pings go each way every second.
const aliveFor = 2 * time.Second

func (c *conn) alive() bool {
	return time.Since(time.Unix(0, c.heard.Load())) < aliveFor && c.qc.Context().Err() == nil && !c.ended()
}

// prepare makes what other goroutines may use as soon as the link adopts c.
func (c *conn) prepare() {
	c.heard.Store(time.Now().UnixNano())
	c.stopped = make(chan struct{})
	c.control.init()
	c.settler.init(c)
	c.lanes.init(c)
	c.inbound.init(c)
	c.pool.init(c)
	c.opening = newGate(c.m.cfg.Limits.Opening)
	c.due = newDue()
}

func (c *conn) ended() bool {
	select {
	case <-c.stopped:
		return true
	default:
		return false
	}
}

// policyChanged looks again at all that depends on edges and topics.
func (c *conn) policyChanged() {
	c.control.again()
	c.settler.policyChanged()
	select {
	case c.inbound.look <- struct{}{}:
	default:
	}
}

// end makes run return. The first cause counts.
func (c *conn) end(cause error) {
	c.stopOnce.Do(func() {
		c.cause = cause
		close(c.stopped)
	})
}

// run serves the connection until it breaks, one side ends it, or the context ends.
func (c *conn) run(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, part := range []func(context.Context) error{
		c.hear, c.speak, c.settler.run, c.inbound.accept, c.inbound.review, c.link.runFlows(c), c.link.reoffer(c), c.settleAlone, c.watch, c.pool.run, c.warm, c.drain,
	} {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				c.end(reading(err))
			}
		})
	}
	select {
	case <-c.stopped:
	case <-ctx.Done():
		c.end(errStopped)
	case <-c.qc.Context().Done():
		c.end(reading(context.Cause(c.qc.Context())))
	}
	cancel(c.cause)
	code, text := closing(c.cause)
	_ = c.qc.CloseWithError(code, text) // waits until the connection's own goroutines ended
	wg.Wait()
	c.pool.close()
	c.lanes.readers.Wait()
	c.lanes.loseAlone(nil)
	c.settled()
	c.uncorrect()
	c.link.release(c, c.cause)
}
