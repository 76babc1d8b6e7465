package replicator

import (
	"context"
	"math"
	"time"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Lives of one origin are sessions of their own, and a region that joins, or that was
// behind when the origin was rebuilt, may lack something of several. What was published
// later would then overtake what was published before: on a compacted topic the old value
// of a key would be its last one. So a life begins where those before it have ended.

const (
	// olderLook is how often a flow looks whether what was written before is there.
	olderLook = 200 * time.Millisecond
	// olderPatience is how long it waits while nothing of that moves (I13).
	olderPatience = time.Minute
)

// errOlder ends a session that goes on once the flows of its origin's former lives have.
var errOlder = rhumb.Errorf(rhumb.KindUnavailable, "what its origin wrote in a former life goes first")

// awaitOlder waits until the peer has, of what the flow's origin wrote in lives before
// this one, all that this region has, or that does not get on. It gives the right to open
// a session back meanwhile.
func (f *flow) awaitOlder(ctx context.Context, c *conn, opened func()) (func(), error) {
	had, ahead := f.ahead()
	if !ahead || f.yielded.Load() == c {
		return opened, nil
	}
	opened()
	f.waits(c)
	for moved := time.Now(); ahead && time.Since(moved) < olderPatience; {
		f.rest(ctx, olderLook)
		if ctx.Err() != nil {
			return func() {}, context.Cause(ctx)
		}
		var now rhumb.Offset
		if now, ahead = f.ahead(); now != had {
			had, moved = now, time.Now()
		}
	}
	if ahead {
		f.link.m.log.Warn("records of a former life do not get on, later ones go first", "topic", f.source.topic.String(), "partition", f.source.index)
		f.yielded.Store(c)
	}
	return f.openAgain(ctx, c)
}

// ahead reports whether something of a former life of the flow's origin is on its way to
// the peer, or to this region, and a sum that changes as it gets on.
func (f *flow) ahead() (sum rhumb.Offset, ahead bool) {
	if f.source.closed != nil {
		return 0, false // its log has an order of its own: see awaitEarlier
	}
	st, ok := f.link.m.cfg.Region.State(f.source.ref)
	if !ok {
		return 0, false
	}
	for i := range st.Watermarks {
		w := &st.Watermarks[i]
		if w.Region != f.source.origin || w.Life == f.source.life || st.Owns(w.Life) {
			continue
		}
		if g := f.link.flowOf(f.source.ref, w.Life); g != nil {
			if at, goes := g.goesOn(w); goes && f.follows(w.Life) {
				sum, ahead = sum+at+1, true
			}
		}
		if !f.source.copied && f.link.m.origins.arrives(f.source.ref, w) {
			sum, ahead = sum+w.Offset+1, true
		}
	}
	return sum, ahead
}

// follows reports whether a life of the flow's origin began before the flow's. What links
// brought here of this region is from before its log; of another origin's lives the
// times at which their first records were stored tell.
func (f *flow) follows(life rhumb.Life) bool {
	if !f.source.copied {
		return true
	}
	own, other := f.begunAt(f.source.life), f.begunAt(life)
	return other > 0 && own > other
}

// begunAt gives the append time of the first record here of a life of the flow's origin,
// in ms since 1970; 0 if there is none.
func (f *flow) begunAt(life rhumb.Life) int64 {
	s := f.source
	found, err := f.link.m.cfg.Region.ReadOrigin(s.ref, originQuery{Partition: s.ref.ID, Region: s.origin, Life: life, Limit: math.MaxInt64, MaxBytes: 1})
	if err != nil || len(found) == 0 {
		return 0
	}
	return found[0].Envelope.AppendTime
}

// goesOn reports whether the flow is about to bring the peer closer to a watermark of
// this region, and where the peer is.
func (f *flow) goesOn(w *dedup.Watermark) (at rhumb.Offset, goes bool) {
	f.link.mu.Lock()
	idle, conn := f.over != nil || f.paused || f.standby.on, f.link.conn
	f.link.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &f.status
	switch {
	case idle, st.settledOn != nil && st.settledOn == conn, st.leftOut != nil, st.apart != nil, st.refused != nil, st.state == SessionRefused:
		return 0, false
	case st.known && st.confirmed >= w.Offset:
		return 0, false
	}
	return st.confirmed, true
}

// flowOf gives the flow of a life of a partition, nil if there is none.
func (l *link) flowOf(ref rhumb.PartitionRef, life rhumb.Life) *flow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flows[sourceKey{ref, life}]
}

// overtake ends the sessions of later lives of the flow's origin, of which the peer would
// get records before what the flow has for it: they go on after it.
func (f *flow) overtake() {
	st, ok := f.link.m.cfg.Region.State(f.source.ref)
	if !ok || !f.forwards() {
		return
	}
	w, ok := markOf(&st, f.source.origin, f.source.life)
	if _, goes := f.goesOn(&w); !ok || !goes {
		return
	}
	f.link.mu.Lock()
	all := f.link.flowsOf(f.source.ref)
	f.link.mu.Unlock()
	for _, g := range all {
		if g == f || g.source.origin != f.source.origin || g.source.closed != nil || !g.follows(f.source.life) {
			continue
		}
		g.mu.Lock()
		if g.active != nil && g.yielded.Load() != g.active.conn {
			g.active.cancel(errOlder)
		}
		g.mu.Unlock()
	}
}

// arrives reports whether a path is to bring more of a life than this region has.
func (o *origins) arrives(ref rhumb.PartitionRef, w *dedup.Watermark) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.choices[originKey{ref, w.Region, w.Life}]
	if c == nil {
		return false
	}
	for _, p := range c.Paths() {
		if p.Up && p.Asked && p.Head-1 > w.Offset {
			return true
		}
	}
	return false
}
