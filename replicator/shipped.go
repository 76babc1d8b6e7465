package replicator

import (
	"math"
	"slices"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Shipped gives, for each partition of this region, up to which own offset all edges
// that lead from it have carried it: confirmed, so flushed at the destination. A
// partition from which no edge leads is carried all. One that is not named has an
// edge of which nothing is known yet: compaction then keeps what it may still need.
func (m *Manager) Shipped() map[rhumb.PartitionRef]rhumb.Offset {
	m.mu.Lock()
	defer m.mu.Unlock()
	shipped := make(map[rhumb.PartitionRef]rhumb.Offset, len(m.sources))
	for ref := range m.sources {
		shipped[ref] = math.MaxInt64
	}
	for _, l := range m.links {
		l.lower(shipped)
	}
	return shipped
}

// AllShipped is Shipped of a region that has no links.
func AllShipped(topics []region.TopicInfo) map[rhumb.PartitionRef]rhumb.Offset {
	shipped := map[rhumb.PartitionRef]rhumb.Offset{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			shipped[p.Ref] = math.MaxInt64
		}
	}
	return shipped
}

// lower takes what the link has not carried out of shipped.
func (l *link) lower(shipped map[rhumb.PartitionRef]rhumb.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, s := range l.sources {
		if _, edge := l.out[l.m.scopeOf(s.topic)]; edge && l.flows[key] == nil {
			delete(shipped, key.ref) // the edge is new
		}
	}
	for key, f := range l.flows {
		if f.forwards() {
			continue // its offsets are others'
		}
		at, ok := shipped[key.ref]
		if !ok {
			continue
		}
		f.mu.Lock()
		settled, known, confirmed := f.status.settledOn != nil, f.status.known, f.status.confirmed
		f.mu.Unlock()
		switch {
		case f.source.closed != nil && settled: // nothing more of it goes there
		case !known:
			delete(shipped, key.ref)
		default:
			shipped[key.ref] = min(at, confirmed)
		}
	}
}

// Owed tells which partitions owe own records to other regions: to those to which an
// edge leads and that have not confirmed everything. nil before the links know the
// policy. A region that the policy does not name any more is owed nothing.
func (m *Manager) Owed() map[rhumb.PartitionRef]region.Owed {
	m.mu.Lock()
	known, links := m.sources != nil, m.sorted()
	m.mu.Unlock()
	if !known {
		return nil
	}
	owed := map[rhumb.PartitionRef]region.Owed{}
	for _, l := range links {
		for _, c := range l.claims() {
			c.enter(owed, l)
		}
	}
	return owed
}

// claim is what a link's peer is known to have of one life of a partition.
type claim struct {
	source    *source
	latest    bool // where the edge starts, if its start is not fixed yet
	known     bool
	confirmed rhumb.Offset
}

// claims lists what the link's peer may lack.
func (l *link) claims() []claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []claim
	for key, s := range l.sources {
		e, edge := l.out[l.m.scopeOf(s.topic)]
		if !edge {
			continue
		}
		c := claim{source: s, latest: e.Start == configstore.StartLatest, confirmed: rhumb.NoOffset}
		if f := l.flows[key]; f != nil {
			f.mu.Lock()
			settled := f.source.closed != nil && f.status.settledOn != nil
			c.known, c.confirmed = f.status.known, f.status.confirmed
			f.mu.Unlock()
			if settled { // nothing more of it goes there
				continue
			}
		}
		all = append(all, c)
	}
	return all
}

// enter lowers what is owed of a partition to what the claim says.
func (c *claim) enter(owed map[rhumb.PartitionRef]region.Owed, l *link) {
	st, ok := l.m.cfg.Region.State(c.source.ref)
	if !ok {
		return
	}
	last, after := st.OwnLast, c.confirmed
	if c.source.closed != nil {
		last = min(last, c.source.closed.Last)
	}
	if !c.known {
		start, fixed := st.Edges[l.number]
		switch {
		case fixed:
			after = start - 1
		case c.latest: // it will start at what is the end then
			return
		}
	}
	if after = max(after, c.source.from-1); last <= after {
		return
	}
	o, had := owed[c.source.ref]
	if !had {
		o = region.Owed{After: after, Sure: true}
	}
	o.After, o.Sure = min(o.After, after), o.Sure && c.known
	if !slices.Contains(o.To, l.name) {
		o.To = append(o.To, l.name)
	}
	owed[c.source.ref] = o
}
