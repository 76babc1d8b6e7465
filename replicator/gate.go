package replicator

import (
	"context"
	"sync"
)

// class orders those who wait at a gate.
type class uint8

// New data goes before backlog where both wait.
const (
	fresh class = iota
	backlog
	classes
)

// backlogShare is how often backlog gets its turn although new data waits: once
// in so many grants. Without it a link that new data fills would keep a
// returning partition behind for ever.
const backlogShare = 8

// gate is a budget: of bytes, or of turns. Who takes from it waits in its class,
// first come first served, so that no session starves another one of its class.
type gate struct {
	mu      sync.Mutex
	limit   int64
	used    int64
	streak  int // grants to new data since backlog had its turn
	waiting [classes]fifo
}

// fifo is a queue that drops its dead head cheaply.
type fifo struct {
	items []*queued
	head  int
}

type queued struct {
	n     int64
	ready chan struct{} // closed by the grant
	gone  bool          // gave up waiting; guarded by the gate's mu
}

func newGate(limit int64) *gate { return &gate{limit: limit} }

// acquire takes n, and waits until that fits. One that is larger than the whole
// budget passes alone. It fails only with the context's cause.
func (g *gate) acquire(ctx context.Context, n int64, c class) error {
	g.mu.Lock()
	if g.idle() && g.fits(n) {
		g.used += n
		g.mu.Unlock()
		return nil
	}
	w := &queued{n: n, ready: make(chan struct{})}
	g.waiting[c].push(w)
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
		g.used -= n
	default:
		w.gone = true
	}
	g.grant()
	return context.Cause(ctx)
}

// try takes n if that fits at once and nobody waits.
func (g *gate) try(n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.idle() || !g.fits(n) {
		return false
	}
	g.used += n
	return true
}

// overdraw takes n at once, whether it fits or not.
func (g *gate) overdraw(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used += n
}

// release gives n back.
func (g *gate) release(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= n
	if g.used < 0 {
		panic("replicator: more was given back to a budget than was taken")
	}
	g.grant()
}

// resize changes the budget. What is taken beyond it stays taken.
func (g *gate) resize(limit int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
	g.grant()
}

// inUse gives what is taken.
func (g *gate) inUse() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

func (g *gate) fits(n int64) bool { return g.used+n <= g.limit || g.used == 0 }

func (g *gate) idle() bool {
	for c := range g.waiting {
		if g.waiting[c].peek() != nil {
			return false
		}
	}
	return true
}

// grant serves those who wait, in order, while the next one fits: a large one
// at the head is never overtaken by small ones for ever.
func (g *gate) grant() {
	for {
		c := fresh
		if g.waiting[fresh].peek() == nil || g.streak >= backlogShare-1 && g.waiting[backlog].peek() != nil {
			c = backlog
		}
		w := g.waiting[c].peek()
		if w == nil || !g.fits(w.n) {
			return
		}
		g.waiting[c].pop()
		g.used += w.n
		if c == backlog {
			g.streak = 0
		} else {
			g.streak++
		}
		close(w.ready)
	}
}

func (f *fifo) push(w *queued) { f.items = append(f.items, w) }

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
