package replicator

import (
	"math"

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
		if _, edge := l.out[scopeOf(s.topic)]; edge && l.flows[key] == nil {
			delete(shipped, key.ref) // the edge is new
		}
	}
	for key, f := range l.flows {
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
