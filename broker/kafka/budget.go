package kafka

import (
	"context"
	"slices"
	"sync"
)

// budget bounds bytes that are held on behalf of all connections. Waiters are
// served first come, first served, so a large request is not starved by small
// ones. A share of it can be kept for small requests, which have a queue of their own:
// they do not wait for large ones. While a large one waits they have that share only.
type budget struct {
	mu        sync.Mutex
	free      int64
	share     int64 // of small requests
	smallHeld int64
	large     queue
	small     queue
}

type queue []*budgetWaiter

type budgetWaiter struct {
	n     int64
	ready chan struct{}
}

func newBudget(n int64) *budget { return &budget{free: n} }

// newSharedBudget makes a budget with a share for small requests.
func newSharedBudget(n, share int64) *budget { return &budget{free: n, share: share} }

// Acquire implements broker.Budget. n is at most the whole budget.
func (b *budget) Acquire(ctx context.Context, n int64) error { return b.acquire(ctx, n, false) }

// TryAcquire implements broker.Budget.
func (b *budget) TryAcquire(n int64) bool { return b.try(n, false) }

// Release implements broker.Budget.
func (b *budget) Release(n int64) { b.release(n, false) }

func (b *budget) acquire(ctx context.Context, n int64, small bool) error {
	b.mu.Lock()
	q := b.queue(small)
	if len(*q) == 0 && b.fits(n, small) {
		b.take(n, small)
		b.mu.Unlock()
		return nil
	}
	w := &budgetWaiter{n: n, ready: make(chan struct{})}
	*q = append(*q, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(*q, w); i >= 0 {
		*q = slices.Delete(*q, i, i+1)
	} else {
		b.take(-n, small) // served just now
	}
	b.serve() // those behind may fit
	return ctx.Err()
}

func (b *budget) try(n int64, small bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(*b.queue(small)) > 0 || !b.fits(n, small) {
		return false
	}
	b.take(n, small)
	return true
}

func (b *budget) release(n int64, small bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(-n, small)
	b.serve()
}

// pressed reports whether somebody waits.
func (b *budget) pressed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.large)+len(b.small) > 0
}

// has reports whether so much is free.
func (b *budget) has(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free >= n
}

// The rest is called with mu held.

func (b *budget) queue(small bool) *queue {
	if small {
		return &b.small
	}
	return &b.large
}

func (b *budget) take(n int64, small bool) {
	b.free -= n
	if small {
		b.smallHeld += n
	}
}

func (b *budget) fits(n int64, small bool) bool {
	if small {
		return n <= b.free && (len(b.large) == 0 || b.smallHeld+n <= b.share)
	}
	return n <= b.free-max(0, b.share-b.smallHeld)
}

// serve wakes the waiters that fit.
func (b *budget) serve() {
	for served := true; served; {
		served = false
		for _, small := range []bool{true, false} {
			if q := b.queue(small); len(*q) > 0 && b.fits((*q)[0].n, small) {
				w := (*q)[0]
				*q = (*q)[1:]
				b.take(w.n, small)
				close(w.ready)
				served = true
			}
		}
	}
}
