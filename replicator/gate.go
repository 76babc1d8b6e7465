package replicator

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// class orders those who wait at a gate.
type class uint8

// New data goes before what is older where both wait. Of that, debts and backlog take turns.
const (
	fresh class = iota
	debt        // old records of a partition of which the destination lacks little
	backlog
	classes
)

// backlogShare is how often what is older gets its turn although new data waits: once
// in so many grants. Without it a link that new data fills would keep a
// returning partition behind for ever.
const backlogShare = 8

// gate is a budget: of bytes, or of turns. Who takes from it waits in its class,
// first come first served, or by rank, so that no session starves another one of its class. While
// nobody waits it is taken and given back without a lock: thousands of sessions do that
// for each record, and whoever is interrupted with the lock would hold up all of them.
type gate struct {
	limit  atomic.Int64
	used   atomic.Int64
	queued atomic.Int64 // who waits, or is about to

	mu      sync.Mutex
	streak  int   // grants to new data since what is older had its turn
	older   class // that had its turn last
	waiting [classes]fifo
}

// fifo is a queue that drops its dead head cheaply. The lowest rank is first, and among
// equals who came first.
type fifo struct {
	items []*queued
	head  int
}

type queued struct {
	n     int64
	rank  int64
	ready chan struct{} // closed by the grant
	gone  bool          // gave up waiting; guarded by the gate's mu
}

func newGate(limit int64) *gate {
	g := &gate{}
	g.limit.Store(limit)
	return g
}

// acquire takes n, and waits until that fits. One that is larger than the whole
// budget passes alone. It fails only with the context's cause.
func (g *gate) acquire(ctx context.Context, n int64, c class) error {
	return g.acquireRanked(ctx, n, c, 0)
}

// acquireRanked is acquire for who waits behind those of lower ranks of its class only.
func (g *gate) acquireRanked(ctx context.Context, n int64, c class, rank int64) error {
	if g.try(n) {
		return nil
	}
	w := &queued{n: n, rank: rank, ready: make(chan struct{})}
	// Who gives back from here on looks for those who wait; what was given back before, grant sees.
	g.queued.Add(1)
	g.mu.Lock()
	g.waiting[c].push(w)
	g.grant()
	g.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.ready: // granted at the same moment: give it back
		g.used.Add(-n)
	default:
		w.gone = true
		g.queued.Add(-1)
	}
	g.grant()
	return context.Cause(ctx)
}

// try takes n if that fits at once and nobody waits.
func (g *gate) try(n int64) bool { return g.queued.Load() == 0 && g.take(n) }

// take takes n if that fits.
func (g *gate) take(n int64) bool {
	for {
		used := g.used.Load()
		if used != 0 && used+n > g.limit.Load() {
			return false
		}
		if g.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// overdraw takes n at once, whether it fits or not.
func (g *gate) overdraw(n int64) { g.used.Add(n) }

// release gives n back.
func (g *gate) release(n int64) {
	if g.used.Add(-n) < 0 {
		panic("replicator: more was given back to a budget than was taken")
	}
	if g.queued.Load() > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.grant()
	}
}

// resize changes the budget. What is taken beyond it stays taken.
func (g *gate) resize(limit int64) {
	g.limit.Store(limit)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grant()
}

// inUse gives what is taken.
func (g *gate) inUse() int64 { return g.used.Load() }

// grant serves those who wait, in order, while the next one fits: a large one
// at the head is never overtaken by small ones for ever. The caller holds mu.
func (g *gate) grant() {
	for {
		c := g.next()
		w := g.waiting[c].peek()
		if w == nil || !g.take(w.n) {
			return
		}
		g.waiting[c].pop()
		g.queued.Add(-1)
		if c == fresh {
			g.streak++
		} else {
			g.streak, g.older = 0, c
		}
		close(w.ready)
	}
}

// next gives the class whose turn it is. The caller holds mu.
func (g *gate) next() class {
	older := backlog
	if g.waiting[backlog].peek() == nil || g.older == backlog && g.waiting[debt].peek() != nil {
		older = debt
	}
	if g.waiting[fresh].peek() == nil || g.streak >= backlogShare-1 && g.waiting[older].peek() != nil {
		return older
	}
	return fresh
}

// crowded reports whether somebody has of it, or waits.
func (g *gate) crowded() bool { return g.used.Load() > 0 || g.queued.Load() > 0 }

func (f *fifo) push(w *queued) {
	behind, _ := slices.BinarySearchFunc(f.items[f.head:], w.rank, func(o *queued, rank int64) int {
		if o.rank <= rank {
			return -1
		}
		return 1
	})
	f.items = slices.Insert(f.items, f.head+behind, w)
}

// peek gives the first one that still waits.
func (f *fifo) peek() *queued {
	for f.head < len(f.items) {
		if w := f.items[f.head]; !w.gone {
			return w
		}
		f.pop()
	}
	return nil
}

func (f *fifo) pop() {
	f.items[f.head] = nil
	f.head++
	switch {
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head > 64 && f.head > len(f.items)/2:
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
}
