package replicator

import (
	"context"
	"sync"
	"time"
)

// pace is a link's rate limit. The zero rate is none.
type pace struct {
	rate int64 // bytes per second

	mu   sync.Mutex
	next time.Time // when what was let through so far has used up its share
}

// paceBurst is how much may leave at once after a pause.
const paceBurst = 100 * time.Millisecond

// wait blocks until n bytes may leave.
func (p *pace) wait(ctx context.Context, n int64) error {
	if p.rate == 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-paceBurst); p.next.Before(earliest) {
		p.next = earliest
	}
	until := p.next
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	if !until.After(now) {
		return nil
	}
	if !sleep(ctx, until.Sub(now), nil) {
		return context.Cause(ctx)
	}
	return nil
}
