package replicator

import (
	"context"
	"math"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Lives of one origin are sessions of their own, and a region that joins, or that was
// behind when the origin was rebuilt, may lack something of several. What was published
// later would then overtake what was published before: on a compacted topic the old value
// of a key would be its last one. So a session of a life begins where the sessions of
// those before it have brought what this region has. Nothing waits for what a third region
// may have, or brings over another path, and nobody who has all of the former lives waits.

const (
	// olderLook is how often a flow looks whether what was written before is there, at
	// first; it is told, and looks ever less often.
	olderLook     = 200 * time.Millisecond
	olderLookMost = 5 * time.Second
	// olderPatience is how long it waits while nothing of that moves (I13).
	olderPatience = time.Minute
	// olderAsk is how long it waits for the peer to say what it has of that.
	olderAsk = 2 * time.Second
)

var errOlder = rhumb.Errorf(rhumb.KindUnavailable, "what its origin wrote in a former life goes first, and is on its way")

// awaitOlder waits until the peer has, of what the flow's origin wrote in lives before
// this one, all that this region has, or that does not get on. It gives the right to open
// a session back meanwhile.
func (f *flow) awaitOlder(ctx context.Context, c *conn, opened func()) (func(), error) {
	if f.source.closed != nil {
		return opened, nil // its log has an order of its own: see awaitEarlier
	}
	had, ahead := f.ahead(c)
	if ahead == nobody {
		return opened, nil
	}
	opened()
	f.mu.Lock()
	f.status.err, f.status.errAt = errOlder, time.Now()
	f.mu.Unlock()
	f.become(SessionStalled)
	pause := backoff{least: olderLook, most: olderLookMost}
	for began, moved := time.Now(), time.Now(); ; {
		f.rest(ctx, pause.next())
		if ctx.Err() != nil {
			return func() {}, context.Cause(ctx)
		}
		var now rhumb.Offset
		if now, ahead = f.ahead(c); now != had {
			had, moved = now, time.Now()
		}
		if ahead == nobody || ahead == unasked && time.Since(began) > olderAsk || time.Since(moved) > olderPatience {
			return f.openAgain(ctx, c)
		}
	}
}

// lead says what of former lives is before a flow.
type lead int

const (
	nobody  lead = iota
	unasked      // the peer has not said what it has of one
	behind       // it is known to lack something of one that is being sent
)

// ahead tells what former lives of the flow's origin have for the peer, and a sum that
// changes as they get on. Those of which the peer was not asked are asked next.
func (f *flow) ahead(c *conn) (sum rhumb.Offset, most lead) {
	l := f.link
	st, ok := l.m.cfg.Region.State(f.source.ref)
	if !ok {
		return 0, nobody
	}
	for i := range st.Watermarks {
		w := &st.Watermarks[i]
		if w.Region != f.source.origin || w.Life == f.source.life || st.Owns(w.Life) {
			continue
		}
		l.mu.Lock()
		g := l.flows[sourceKey{f.source.ref, w.Life}]
		goes := g != nil && g.over == nil && !g.paused && !g.standby.on && l.unheard(g, c) == nil
		l.mu.Unlock()
		if !goes {
			continue
		}
		at, is := g.leads(c, w.Offset)
		if is == nobody || !f.follows(w.Life) {
			continue
		}
		if is == unasked {
			l.mu.Lock()
			if !g.running {
				l.queue(g)
			}
			l.mu.Unlock()
		}
		sum, most = sum+at+1, max(most, is)
	}
	return sum, most
}

// leads tells whether the flow has something to bring to the peer up to an offset, and
// where the peer is.
func (f *flow) leads(c *conn, end rhumb.Offset) (at rhumb.Offset, is lead) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &f.status
	switch {
	case st.settledOn == c, st.leftOut != nil, st.apart != nil, st.refused != nil, st.state == SessionRefused:
		return 0, nobody
	case !st.known:
		return rhumb.NoOffset, unasked
	case st.confirmed >= end:
		return 0, nobody
	}
	return st.confirmed, behind
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

// letFollow wakes later lives of the flow's origin, which may wait for it.
func (f *flow) letFollow() {
	if f.forwards() {
		f.link.settled(f)
	}
}

// giveUp gives back the right to open a session, if there is one.
func giveUp(opened func()) {
	if opened != nil {
		opened()
	}
}
