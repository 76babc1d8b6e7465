package replicator

import (
	"context"
	"sync"
	"time"
)

// pace lets bytes through at a rate. The zero rate is none.
type pace struct {
	mu      sync.Mutex
	rate    int64         // bytes per second
	next    time.Time     // when what was let through so far has used up its share
	changed chan struct{} // closed when the rate changes; nil: nobody waits
}

// paceBurst is how much may leave at once after a pause.
const paceBurst = 100 * time.Millisecond

// wait blocks until n bytes may leave, and reports whether it had to.
func (p *pace) wait(ctx context.Context, n int64) (waited bool, err error) {
	for {
		until, changed := p.take(n)
		now := time.Now()
		if !until.After(now) {
			return waited, nil
		}
		waited = true
		if sleep(ctx, until.Sub(now), changed) {
			return true, nil
		}
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
	}
}

// take enters n bytes and gives when they may leave. changed is closed if that is
// void, since the rate changed: then they have to be entered again.
func (p *pace) take(n int64) (until time.Time, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return time.Time{}, nil
	}
	if earliest := time.Now().Add(-paceBurst); p.next.Before(earliest) {
		p.next = earliest
	}
	until = p.next
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return until, p.changed
}

// set changes the rate; who waits is let through by the new one.
func (p *pace) set(rate int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate, p.next = rate, time.Time{}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
