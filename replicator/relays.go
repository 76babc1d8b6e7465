package replicator

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
)

// Pauses between two offers of a life that the peer takes over another path. The answer to
// an offer is all that tells how far the peer is, so the lag of a life that grows is as old
// as the last one: a second, unless more than offersAtOnce of them per second would be needed.
const (
	offerPause     = time.Second
	offerPauseMost = 5 * time.Second
	offersAtOnce   = 100
)

// offersEvery is the longest pause between two offers of a life. The caller holds mu.
func (l *link) offersEvery() time.Duration {
	return min(offerPauseMost, offerPause*time.Duration(1+len(l.standing)/offersAtOnce))
}

// standby is what a link keeps of a flow that the peer refused since another path
// brings the life. Guarded by link.mu.
type standby struct {
	on    bool // in link.standing: it is offered again by itself
	next  time.Time
	pause time.Duration
}

// copyOf is the source of a life of another log, of which s's partition has a copy.
func (s *source) copyOf(origin rhumb.RegionNumber, life rhumb.Life) *source {
	return &source{origin: origin, life: life, copied: true, topic: s.topic, index: s.index, ref: s.ref,
		deletions: s.deletions, configs: s.configs}
}

// carries reports whether records of an origin that this region holds copies of go
// to the peer over an edge: all, if it forwards; those of a region that was removed
// also over others, where the policy would have brought them. What a rebuilt region wrote before
// goes to it over any edge that leads to it, and from it over any that leads from
// it; its present life is never offered to a region that was not rebuilt.
func (l *link) carries(e configstore.Edge, origin rhumb.RegionNumber) bool {
	switch origin {
	case l.m.cfg.Self.Number:
		return true
	case l.number:
		return l.rebuilt
	}
	return e.Brings(l.gone[origin])
}

// relays makes a flow for each life that the partition has a copy of and the edge
// carries, and wakes those that the peer may lack something of. The caller holds mu.
func (l *link) relays(base *source, e configstore.Edge, st *partitionState, by *flow) {
	for i := range st.Watermarks {
		w := &st.Watermarks[i]
		key := sourceKey{base.ref, w.Life}
		if f := l.flows[key]; f != nil {
			l.wakeFlow(f, by, w.Offset)
			continue
		}
		if w.Offset != rhumb.NoOffset && l.carries(e, w.Region) && !st.Owns(w.Life) {
			f := newFlow(l, base.copyOf(w.Region, w.Life), e)
			l.flows[key] = f
			l.settlePause(f)
			l.queue(f)
		}
	}
}

// mayRelay reports whether an edge may carry lives of other logs.
func (l *link) mayRelay(e configstore.Edge) bool { return l.rebuilt || e.Brings(len(l.gone) > 0) }

// notePasses shows whether any edge does. The caller holds mu.
func (l *link) notePasses() {
	passes := false
	for _, e := range l.out {
		passes = passes || l.mayRelay(e)
	}
	l.passes.Store(passes)
}

// wake is called when a partition has something that may leave, of any life; by is
// the flow that saw it, nil if none did: then also flows that rest go on at once.
func (l *link) wake(ref rhumb.PartitionRef, st *partitionState, by *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	base := l.base[ref]
	if base == nil {
		return
	}
	e, ok := l.out[l.m.scopeOf(base.topic)]
	if !ok {
		return
	}
	if f := l.flows[base.key()]; f != nil && f.barren(st.OwnLast) {
		l.trail(f)
	} else {
		l.wakeFlow(f, by, st.Flushed-1)
	}
	if l.mayRelay(e) {
		l.relays(base, e, st, by)
	}
}

// wakeFlow has a flow worked on if the peer may lack something up to an offset. One
// that is worked on sees it by itself, unless it is about to end; one of which the peer
// said over this connection that it takes nothing more is left alone, or two of them
// on two links would wake each other without end. The caller holds mu.
func (l *link) wakeFlow(f, by *flow, end rhumb.Offset) {
	switch {
	case f == nil || f == by || f.standby.on || f.settledOver(l.conn):
	case f.running && by != nil:
		f.again = true
	case f.running || !f.has(end):
		l.queue(f)
	}
}

// settledOver reports whether the peer said over a connection that it takes nothing
// more of the flow's life.
func (f *flow) settledOver(c *conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return c != nil && f.status.settledOn == c
}

// has reports whether the peer is known to have everything up to an offset.
func (f *flow) has(end rhumb.Offset) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status.known && f.status.confirmed >= end
}

// stand ends the work on a flow whose life the peer takes over another path. It is
// offered again after a while, if the peer still lacks something of it then.
func (f *flow) stand(st session.Status) {
	f.note(st)
	f.mu.Lock()
	f.status.err, f.status.apart, f.status.via = nil, nil, st.Text
	if o := f.order; o != nil && o.said {
		f.order, o.why = nil, st.Text
		close(o.done)
	}
	served := f.status.served
	f.status.served = false
	f.mu.Unlock()
	f.become(SessionStandby)
	l := f.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.standby.pause = min(2*f.standby.pause, l.offersEvery()); served || f.standby.pause == 0 {
		f.standby.pause = offerPause
	}
	f.standby.on, f.standby.next = true, time.Now().Add(f.standby.pause)
	l.standing[f] = struct{}{}
}

// reoffer offers again what the peer takes over other paths and lacks something of,
// and has barren flows work when it is time, until the context ends.
func (l *link) reoffer(c *conn) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(offerPause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-tick.C:
				l.offerDue(now)
				l.followUp(c, now)
			}
		}
	}
}

func (l *link) offerDue(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.standing {
		if now.Before(f.standby.next) {
			continue
		}
		l.leaveStandby(f)
		if l.flows[f.source.key()] == f && !f.running && f.behind() {
			l.queue(f)
		}
	}
}

// leaveStandby lets growth wake the flow again. The caller holds mu.
func (l *link) leaveStandby(f *flow) {
	f.standby.on = false
	delete(l.standing, f)
}

// behind reports whether the peer may lack something of the flow's life.
func (f *flow) behind() bool {
	st, ok := f.link.m.cfg.Region.Glance(f.source.ref)
	if !ok {
		return false
	}
	if !f.forwards() {
		return !f.has(st.Flushed - 1)
	}
	w, ok := markOf(&st, f.source.origin, f.source.life)
	return ok && !f.has(w.Offset)
}
