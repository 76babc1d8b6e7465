package replicator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
)

// limiter is the rate limit of one edge: what a namespace, or a topic with a policy
// of its own, may send to the link's peer. Sessions come to it before they read, so
// that one which waits holds nothing of what other edges need.
type limiter struct {
	pace
	slots *gate // sessions that have read and not sent yet
	limit atomic.Int64
}

const (
	// limiterSlots is how many sessions of an edge with a limit may have read at once:
	// new data waits for the turns of so many older ones at most.
	limiterSlots = 4
	// limiterShare is the part of a second that one turn takes; see chunk.
	limiterShare = 16
	// leastChunk is read at once, however low the limit is.
	leastChunk = 16 << 10
	// limitedFor is for how long a flow that has waited for its limit shows it.
	limitedFor = 2 * time.Second
	// limitedAfter is from when on a flow that still waits for its limit shows it.
	limitedAfter = 100 * time.Millisecond
)

func newLimiter() *limiter { return &limiter{slots: newGate(limiterSlots)} }

// set changes the limit, in bytes a second; 0 is none. Who waits goes by the new one.
func (l *limiter) set(rate int64) {
	if l.limit.Swap(rate) != rate {
		l.pace.set(rate)
	}
}

// chunk bounds what a session reads at once.
func (l *limiter) chunk(want int) int {
	rate := l.limit.Load()
	if rate == 0 {
		return want
	}
	return min(want, max(leastChunk, int(rate/limiterShare)))
}

// enter waits for a slot, new data first. done gives it back, once.
func (l *limiter) enter(ctx context.Context, c class, rank int64) (done func(), err error) {
	if l.limit.Load() == 0 {
		return func() {}, nil
	}
	if err := l.slots.acquireRanked(ctx, 1, c, rank); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { l.slots.release(1) }), nil
}

// limiterOf gives the limiter of a flow's edge. The caller holds mu.
func (l *link) limiterOf(s scope) *limiter {
	x := l.limiters[s]
	if x == nil {
		x = newLimiter()
		if l.limiters == nil {
			l.limiters = map[scope]*limiter{}
		}
		l.limiters[s] = x
	}
	return x
}

// setRates takes over the limits of the link's edges. The caller holds mu.
func (l *link) setRates(out map[scope]configstore.Edge) {
	for s, e := range out {
		if e.Rate > 0 || l.limiters[s] != nil {
			l.limiterOf(s).set(e.Rate)
		}
	}
	for s, x := range l.limiters {
		if _, edge := out[s]; !edge {
			x.set(0) // its sessions end
			delete(l.limiters, s)
		}
	}
}

// atLimit runs what may wait for the limit of the flow's edge, which is shown meanwhile.
func (f *flow) atLimit(wait func() (waited bool, err error)) error {
	f.atLimitSince.Store(time.Now().UnixNano())
	defer f.atLimitSince.Store(0)
	waited, err := wait()
	if waited && err == nil {
		f.limited.Store(time.Now().UnixNano())
	}
	return err
}

// isLimited reports whether the flow waits for its limit, or did so a moment ago.
func (f *flow) isLimited(now time.Time) bool {
	since := f.atLimitSince.Load()
	return since != 0 && now.Sub(time.Unix(0, since)) >= limitedAfter || now.Sub(time.Unix(0, f.limited.Load())) < limitedFor
}

// limiter gives the limiter of the flow's edge.
func (f *flow) limiter() *limiter {
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	return f.link.limiterOf(f.link.m.scopeOf(f.source.topic))
}
