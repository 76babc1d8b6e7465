package replicator

import (
	"slices"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Owed tells which partitions owe records to other regions: to those to which an edge
// leads, and that have not confirmed all that it carries, forwarded records too. nil
// before the links know the policy. A region that the policy does not name any more
// is owed nothing.
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
	confirmed rhumb.Offset // of the origin
}

// claims lists what the link's peer may lack.
func (l *link) claims() []claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []claim
	for key, s := range l.sources {
		if e, edge := l.out[l.m.scopeOf(s.topic)]; edge && l.flows[key] == nil { // the edge is new
			all = append(all, claim{source: s, latest: e.Start == configstore.StartLatest, confirmed: rhumb.NoOffset})
		}
	}
	for _, f := range l.flows {
		c := claim{source: f.source, latest: f.latest}
		f.mu.Lock()
		nothing := f.owesNothingOver(l.conn)
		c.known, c.confirmed = f.status.known, f.status.confirmed
		f.mu.Unlock()
		if !nothing { // else nothing more of it goes there
			all = append(all, c)
		}
	}
	return all
}

// enter lowers what is owed of a partition to what the claim says.
func (c *claim) enter(owed map[rhumb.PartitionRef]region.Owed, l *link) {
	st, ok := l.m.cfg.Region.State(c.source.ref)
	if !ok {
		return
	}
	after, own := c.confirmed, !c.source.copied
	if own && !c.known {
		start, fixed := st.Edges[l.number]
		switch {
		case fixed:
			after = start - 1
		case c.latest: // it will start at what is the end then
			return
		}
	}
	last := st.OwnLast
	if own {
		after = max(after, c.source.from-1)
	} else {
		w, _ := markOf(&st, c.source.origin, c.source.life)
		last, after = w.Offset, max(after, w.Floor)
	}
	if c.source.closed != nil {
		last = min(last, c.source.closed.Last)
	}
	if last <= after {
		return
	}
	found, err := l.m.cfg.Region.ReadOrigin(c.source.ref, originQuery{Partition: c.source.ref.ID, Region: c.source.origin, Life: c.source.life,
		From: after + 1, Limit: st.End, MaxBytes: 1})
	switch {
	case err != nil: // it is not known: all of it
		found = []stored{{Base: st.LogStart}}
	case len(found) == 0:
		return // what is missing there is gone here already
	}
	o, had := owed[c.source.ref]
	if !had {
		o = region.Owed{First: found[0].Base, Sure: true}
	}
	o.First, o.Sure = min(o.First, found[0].Base), o.Sure && c.known
	if !slices.Contains(o.To, l.name) {
		o.To = append(o.To, l.name)
	}
	owed[c.source.ref] = o
}
