package replicator

import (
	"context"
	"maps"
	"sync"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// setSources takes over the partitions of the region: base has the lives that its
// logs have now.
func (l *link) setSources(sources map[sourceKey]*source, base map[rhumb.PartitionRef]*source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sources, l.base = maps.Clone(sources), maps.Clone(base) // addSources adds to them
	l.refresh()
	if l.conn != nil {
		l.conn.control.again()
	}
}

// refresh makes a flow for each life of each partition that an edge carries, and
// ends those that have lost theirs. The caller holds mu.
func (l *link) refresh() {
	for key, f := range l.flows {
		if cause := l.over(f); cause != nil {
			f.end(cause)
			l.leaveStandby(f)
			delete(l.flows, key)
		} else {
			f.nudge()
		}
	}
	for key, s := range l.sources {
		l.start(key, s)
	}
}

// start makes the flows of a source that an edge carries, as far as there are none.
// The caller holds mu.
func (l *link) start(key sourceKey, s *source) {
	e, ok := l.out[l.m.scopeOf(s.topic)]
	if !ok {
		return
	}
	if l.flows[key] == nil {
		f := newFlow(l, s, e)
		l.flows[key] = f
		l.settlePause(f)
		switch {
		case l.conn == nil: // all are queued when there is a connection
		case f.empty():
			f.become(SessionIdle)
		default:
			l.queue(f)
		}
	}
	if s.closed == nil && l.mayRelay(e) {
		if st, ok := l.m.cfg.Region.Glance(s.ref); ok {
			l.relays(s, e, &st, nil)
		}
	}
}

// empty reports whether the flow's log is of now and never had anything, so that there
// is nothing to ask the peer for: the watcher wakes the flow with the first batch. Of
// an edge that begins at the latest record it is asked at once where that is. Tens of
// thousands of topics are made without a session for each.
func (f *flow) empty() bool {
	st, ok := f.link.m.cfg.Region.Glance(f.source.ref)
	return ok && st.End == 0 && len(st.Watermarks) == 0 && st.Gaps == 0 && f.barren(st.OwnLast)
}

// over says why a flow ends, nil if it goes on. The caller holds mu.
func (l *link) over(f *flow) error {
	s := f.source
	e, edge := l.out[l.m.scopeOf(s.topic)]
	base, own := l.base[s.ref], l.sources[s.key()]
	switch {
	case s.copied && (base == nil || own != nil || base.topic != s.topic || base.deletions != s.deletions):
		return errReplaced
	case !s.copied && (own == nil || !own.sameEnd(s)):
		return errReplaced
	case !edge || s.copied && !l.carries(e, s.origin):
		return errNoEdge
	}
	return nil
}

// runFlows works on the link's flows over a connection until ctx ends.
func (l *link) runFlows(c *conn) func(context.Context) error {
	return func(ctx context.Context) error {
		var wg sync.WaitGroup
		defer wg.Wait()
		l.askAll(c)
		c.far = c.qc.ConnectionStats().MinRTT > aloneTrip
		for {
			f := l.nextDue(c)
			if f == nil {
				select {
				case <-ctx.Done():
					return nil
				case <-c.due.wake:
				}
				continue
			}
			// Only so many find their start at once; those that are under way already
			// need no right for it.
			if c.opening.acquire(ctx, 1, fresh) != nil {
				l.finished(f, c)
				return nil
			}
			if l.sendAlone(c, f) {
				continue
			}
			opened := sync.OnceFunc(func() { c.opening.release(1) })
			wg.Go(func() {
				for again := true; again; again = l.finished(f, c) {
					f.run(ctx, c, opened)
				}
				opened()
			})
		}
	}
}

// finished is called when nobody works on the flow any more. It reports whether
// it must be worked on again at once, over the same connection.
func (l *link) finished(f *flow, c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := f.again && !f.standby.on && !f.paused
	f.again = false
	switch {
	case l.flows[f.source.key()] != f:
	case l.conn == c && again && !c.ended():
		return true
	case l.conn != c && l.conn != nil:
		f.running = false
		l.queue(f)
		return false
	}
	f.running = false
	return false
}

// shares reports whether the topic's namespace has an edge between this region
// and the peer, in either direction: then each tells the other of its topics.
func (l *link) shares(t rhumb.Topic) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, out := l.out[l.m.scopeOf(t)]
	_, in := l.in[l.m.scopeOf(t)]
	return out || in
}

// announced has the flows of topics that the peer told of tried again at once: it
// may have refused them only because it did not have them. A topic that it tells of
// not for the first time may be another one there, that has nothing of what was
// confirmed: flows that sleep ask again where to go on.
func (l *link) announced(again map[rhumb.Topic]bool) {
	if len(again) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, repeated := range again {
		info, ok := l.m.cfg.Region.Topic(topic)
		if !ok {
			continue // it has no flows
		}
		for _, p := range info.Partitions {
			for _, f := range l.flowsOf(p.Ref) {
				if repeated {
					f.doubt(f.running)
					l.queue(f)
				} else {
					f.nudge()
				}
			}
		}
	}
}

// doubt notes that what the peer said last may not be so any more, unless somebody works
// on the flow, who hears of it.
func (f *flow) doubt(running bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.doubted = f.status.doubted || !running && f.status.known
}

// agreed reports whether the peer has all that the earlier lives of a flow's log
// name, as far as it will ever come, said over connection c; and up to where its
// copies of them agree with this log. The flow's own life begins behind that.
func (l *link) agreed(f *flow, c *conn) (at dedup.ChainPoint, ok bool) {
	at.Offset = rhumb.NoOffset
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, life := range f.source.earlier {
		g := l.flows[sourceKey{f.source.ref, life}]
		if g == nil {
			return at, false
		}
		g.mu.Lock()
		on, point := g.status.settledOn, g.status.agreed
		g.mu.Unlock()
		if on != c {
			return at, false
		}
		if point.Offset > at.Offset {
			at = point
		}
	}
	return at, true
}

// settled wakes the flows that wait for a past life of their log.
func (l *link) settled(f *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.flowsOf(f.source.ref) {
		if g != f {
			g.nudge()
		}
	}
}
