package kafka

import (
	"context"
	"sync"
)

// budget bounds bytes that are held on behalf of all connections. Waiters are
// served first come, first served, so a large request is not starved by small
// ones.
type budget struct {
	mu      sync.Mutex
	free    int64
	waiters []*budgetWaiter
}

type budgetWaiter struct {
	n     int64
	ready chan struct{}
}

func newBudget(n int64) *budget { return &budget{free: n} }

// Acquire implements broker.Budget. n is at most the whole budget.
func (b *budget) Acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiters) == 0 && b.free >= n {
		b.free -= n
		b.mu.Unlock()
		return nil
	}
	w := &budgetWaiter{n: n, ready: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.waiters {
		if b.waiters[i] == w {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			b.serve() // those behind may fit
			return ctx.Err()
		}
	}
	b.free += n // served just now
	b.serve()
	return ctx.Err()
}

// TryAcquire implements broker.Budget.
func (b *budget) TryAcquire(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiters) > 0 || b.free < n {
		return false
	}
	b.free -= n
	return true
}

// Release implements broker.Budget.
func (b *budget) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.serve()
}

// serve wakes the waiters that fit; mu is held.
func (b *budget) serve() {
	for len(b.waiters) > 0 && b.waiters[0].n <= b.free {
		w := b.waiters[0]
		b.free -= w.n
		b.waiters = b.waiters[1:]
		close(w.ready)
	}
}
