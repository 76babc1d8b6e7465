package replicator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// When to dial.
const (
	// dialGrace is how long the region with the higher number waits to be dialled
	// before it dials itself: it may be the only one that can.
	dialGrace = 3 * time.Second
	// dialPause and dialPauseMost are the least and the most between the starts of
	// two attempts. An attempt at a dead path runs for dialTimeout; starting the
	// next one meanwhile is what finds a healed path soon, since QUIC's own
	// retransmissions of a first packet get rarer and rarer.
	dialPause     = 200 * time.Millisecond
	dialPauseMost = 1500 * time.Millisecond
	// refusedPause is between attempts at a peer that refuses: only a change of
	// configuration helps.
	refusedPause = 5 * time.Second
	// briefLife is how long a connection lives that was worth having: after one
	// that did not, the next attempt waits as after one that failed, so that a
	// peer which takes and ends connections is not dialled in a hot loop.
	briefLife = 5 * time.Second
	// dialAttempts is how many attempts may run at once.
	dialAttempts = 4
)

// dialler makes connections for a link that has none.
type dialler struct {
	link  *link
	pause backoff
	rival backoff // while another process of this region has the link
	next  int     // of the addresses
	wg    sync.WaitGroup
	hello *gate // one attempt at a time says hello, so that only one is adopted

	mu      sync.Mutex
	running int
	refused bool // by the last attempt that came so far
	twice   bool // for another process of this region
}

// run dials until the context ends, and joins every attempt and every
// connection that came from one.
func (d *dialler) run(ctx context.Context) {
	defer d.wg.Wait()
	for {
		conn, wanted, changed := d.look()
		if conn == nil && wanted {
			if !d.link.dialsFirst() && !sleep(ctx, dialGrace, changed) {
				if ctx.Err() != nil {
					return
				}
				continue // the link changed: look again
			}
			if !d.dialUntilConnected(ctx) {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (d *dialler) look() (c *conn, wanted bool, changed <-chan struct{}) {
	d.link.mu.Lock()
	defer d.link.mu.Unlock()
	return d.link.conn, d.link.wanted(), d.link.changed
}

// sleep waits, and reports false if the context ended or changed was closed before.
func sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		return false
	case <-t.C:
		return true
	}
}

// dialUntilConnected starts attempts until the link has a connection or needs
// none. It reports false when the context ends.
func (d *dialler) dialUntilConnected(ctx context.Context) bool {
	if !d.again(ctx) {
		return false
	}
	attempts, stop := context.WithCancelCause(ctx)
	defer stop(errSuperseded)
	for {
		conn, wanted, changed := d.look()
		if conn != nil || !wanted {
			return true
		}
		d.start(ctx, attempts)
		pause := d.pause.next()
		switch refused, twice := d.isRefused(); {
		case twice:
			pause = d.rival.next()
		case refused:
			pause = refusedPause
		}
		if !sleep(ctx, pause, changed) && ctx.Err() != nil {
			return false
		}
	}
}

// again starts counting attempts anew, or waits first if the last connection was
// a brief one. It reports false when the context ends.
func (d *dialler) again(ctx context.Context) bool {
	d.link.mu.Lock()
	brief := d.link.brief
	d.link.mu.Unlock()
	if !brief {
		d.pause.reset()
		d.rival.reset()
		return true
	}
	pause := d.pause.next()
	if _, twice := d.isRefused(); twice {
		pause = d.rival.next()
	}
	return sleep(ctx, pause, nil) || ctx.Err() == nil
}

func (d *dialler) isRefused() (refused, twice bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused, d.twice
}

// start runs one attempt, at the next address of the list, unless enough run.
// What it connects lives in ctx; the attempt itself in attempts.
func (d *dialler) start(ctx, attempts context.Context) {
	d.link.mu.Lock()
	geo := d.link.geo
	d.link.mu.Unlock()
	if len(geo) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == dialAttempts {
		return
	}
	d.running++
	addr := geo[d.next%len(geo)]
	d.next++
	d.wg.Go(func() {
		c, err := d.attempt(attempts, addr)
		d.mu.Lock()
		d.running--
		var r *refusal
		d.refused = errors.As(err, &r)
		d.twice = d.refused && r.twice
		d.mu.Unlock()
		if err != nil {
			d.link.heardRemoval(err)
			d.link.failed(err)
			return
		}
		c.run(ctx)
	})
}

// attempt makes one connection that the link has adopted.
func (d *dialler) attempt(ctx context.Context, addr string) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, rhumb.Errorf(rhumb.KindTimeout, "no answer from %s", addr))
	defer cancel()
	qc, err := d.link.m.endpoint.dial(ctx, d.link.name, addr)
	if err != nil {
		return nil, reading(err)
	}
	c, err := d.greet(ctx, qc)
	if err != nil {
		code, text := closing(err)
		_ = qc.CloseWithError(code, text)
		return nil, err
	}
	return c, nil
}

func (d *dialler) greet(ctx context.Context, qc *quic.Conn) (*conn, error) {
	if err := d.hello.acquire(ctx, 1, fresh); err != nil {
		return nil, err
	}
	defer d.hello.release(1)
	if c, _, _ := d.look(); c != nil && c.dialled {
		return nil, errSuperseded // another attempt was faster
	}
	c, err := d.link.m.greet(ctx, qc, d.link)
	if err == nil {
		err = c.ping(0)
	}
	if err == nil {
		err = d.link.adopt(c)
	}
	if c != nil && err != nil {
		c.uncorrect()
	}
	return c, err
}
