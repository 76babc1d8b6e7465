package replicator

import (
	"math"
	"slices"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Shipped gives, for each partition of this region, how far all edges that lead from
// it have carried it: confirmed, so flushed at the destination. A partition from which
// no edge leads is carried all. One that is not named is new here: compaction then
// keeps what edges may still need.
func (m *Manager) Shipped() map[rhumb.PartitionRef]region.Shipped {
	m.mu.Lock()
	shipped := make(map[rhumb.PartitionRef]region.Shipped, len(m.sources))
	for ref := range m.sources {
		shipped[ref] = region.Shipped{Own: math.MaxInt64}
	}
	for _, l := range m.links {
		l.lower(shipped)
	}
	m.mu.Unlock()
	for ref, s := range shipped {
		for i := range s.Copies {
			s.Copies[i].Here = m.carriedHere(ref, s.Copies[i])
		}
	}
	return shipped
}

// AllShipped is Shipped of a region that has no links.
func AllShipped(topics []region.TopicInfo) map[rhumb.PartitionRef]region.Shipped {
	shipped := map[rhumb.PartitionRef]region.Shipped{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			shipped[p.Ref] = region.Shipped{Own: math.MaxInt64}
		}
	}
	return shipped
}

// lower takes what the link has not carried out of shipped.
func (l *link) lower(shipped map[rhumb.PartitionRef]region.Shipped) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lower := func(ref rhumb.PartitionRef, to rhumb.Offset) {
		if s, ok := shipped[ref]; ok {
			s.Own = min(s.Own, to)
			shipped[ref] = s
		}
	}
	for key, s := range l.sources {
		e, edge := l.out[l.m.scopeOf(s.topic)]
		if edge && l.flows[key] == nil {
			lower(key.ref, rhumb.NoOffset) // the edge is new
		}
		if edge && l.mayRelay(e) && s == l.base[key.ref] {
			l.lowerCopies(shipped, s, e)
		}
	}
	for key, f := range l.flows {
		if f.forwards() {
			continue // its offsets are others'
		}
		f.mu.Lock()
		settled, known, confirmed := f.status.settledOn != nil, f.status.known, f.status.confirmed
		f.mu.Unlock()
		switch {
		case f.source.closed != nil && settled: // nothing more of it goes there
		case !known:
			lower(key.ref, rhumb.NoOffset)
		default:
			lower(key.ref, confirmed)
		}
	}
}

// lowerCopies takes the lives of other logs that the link forwards, and has not
// carried, out of shipped. The caller holds mu.
func (l *link) lowerCopies(shipped map[rhumb.PartitionRef]region.Shipped, base *source, e configstore.Edge) {
	s, ok := shipped[base.ref]
	st, there := l.m.cfg.Region.State(base.ref)
	if !ok || !there {
		return
	}
	for i := range st.Watermarks {
		w := &st.Watermarks[i]
		if w.Offset == rhumb.NoOffset || st.Owns(w.Life) || !l.carries(e, w.Region) {
			continue
		}
		c := region.ShippedCopy{Region: w.Region, Life: w.Life, After: rhumb.NoOffset}
		if f := l.flows[sourceKey{base.ref, w.Life}]; f != nil { // else the edge is new
			f.mu.Lock()
			nothing := f.owesNothingOver(l.conn)
			if f.status.known {
				c.After = f.status.confirmed
			}
			f.mu.Unlock()
			if nothing {
				continue
			}
		}
		s.Copies = lowest(s.Copies, c)
	}
	shipped[base.ref] = s
}

// carriedHere gives the offset of this log up to which all of a copy was carried.
func (m *Manager) carriedHere(ref rhumb.PartitionRef, c region.ShippedCopy) rhumb.Offset {
	st, there := m.cfg.Region.State(ref)
	if !there {
		return rhumb.NoOffset
	}
	found, err := m.cfg.Region.ReadOrigin(ref, originQuery{Partition: ref.ID, Region: c.Region, Life: c.Life, From: c.After + 1, Limit: st.End, MaxBytes: 1})
	switch {
	case err != nil:
		return rhumb.NoOffset
	case len(found) == 0:
		return st.End - 1
	}
	return found[0].Base - 1
}

// lowest adds a copy to a list, or lowers what is there of its life.
func lowest(all []region.ShippedCopy, c region.ShippedCopy) []region.ShippedCopy {
	i := slices.IndexFunc(all, func(o region.ShippedCopy) bool { return o.Region == c.Region && o.Life == c.Life })
	if i < 0 {
		return append(all, c)
	}
	all[i].After = min(all[i].After, c.After)
	return all
}
