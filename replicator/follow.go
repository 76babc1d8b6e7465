package replicator

import (
	"context"
	"maps"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A look at all topics and edges costs time that grows with the topics. It is
// followed by a pause of so many times that, so that many changes one after the
// other are looked at together; but of no more than wholeEach for each partition, as on
// a busy machine a look at a few takes long, too, and a link that is to begin would wait for
// nothing.
const (
	wholeShare = 9
	wholeEach  = 40 * time.Microsecond
	wholeMost  = 2 * time.Second
)

// pauseAfter is how long to wait after a look that took so long.
func pauseAfter(took time.Duration, partitions int) time.Duration {
	return min(wholeShare*took, time.Duration(partitions)*wholeEach, wholeMost)
}

// follow brings links and sources in line with policy and topics until ctx ends. New
// topics, which may be thousands a second, cost what they are; all other changes
// have everything looked at.
func (m *Manager) follow(ctx context.Context) {
	m.whole.Store(true)
	var next time.Time // no look at everything before it
	for ctx.Err() == nil {
		if !m.addTopics() {
			m.whole.Store(true)
		}
		var due <-chan time.Time
		if m.whole.Load() {
			wait := time.Until(next)
			if wait <= 0 {
				m.whole.Store(false)
				began := time.Now()
				m.looks.Add(1)
				m.reconcile(ctx)
				took := time.Since(began)
				next = time.Now().Add(pauseAfter(took, m.partitions()))
				continue
			}
			due = time.After(wait)
		}
		select {
		case <-m.changed:
		case <-due:
		case <-ctx.Done():
		}
	}
}

func (m *Manager) partitions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sources)
}

// addTopics takes over partitions that are new since the last look, and reports
// whether there was nothing else.
func (m *Manager) addTopics() bool {
	change := m.cfg.Region.TopicsSince(m.mark)
	m.mark = change.Mark
	if change.Whole {
		return false
	}
	only := change.Gone == 0
	added := sourcesOf(m.cfg.Self.Number, m.alive(change.Changed))
	m.mu.Lock()
	if m.sources == nil {
		m.mu.Unlock()
		return false
	}
	for key, s := range added {
		if old := m.sources[s.ref]; old != nil || s.closed != nil {
			only = only && old != nil && s.closed == nil && old.same(s)
			delete(added, key)
		}
	}
	for _, s := range added {
		m.sources[s.ref] = s
	}
	links := m.sorted()
	m.mu.Unlock()
	if len(change.Changed) == 0 {
		return only
	}
	m.watcher.add(added)
	for _, l := range links {
		l.addSources(added)
	}
	return only
}

// same reports whether nothing that links go by tells two sources apart.
func (s *source) same(o *source) bool {
	return s.topic == o.topic && s.life == o.life && s.deletions == o.deletions && maps.Equal(s.configs, o.configs)
}

// addSources takes over partitions that the region did not have before.
func (l *link) addSources(added map[sourceKey]*source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, s := range added {
		l.sources[key], l.base[s.ref] = s, s
		l.start(key, s)
	}
	if l.conn != nil {
		l.conn.control.grown()
	}
}

// flowsOf gives the flows of a partition: of the lives of its log, and of those that
// it has copies of. The caller holds mu.
func (l *link) flowsOf(ref rhumb.PartitionRef) []*flow {
	var all []*flow
	add := func(life rhumb.Life) {
		if f := l.flows[sourceKey{ref, life}]; f != nil {
			all = append(all, f)
		}
	}
	if s := l.base[ref]; s != nil {
		add(s.life)
		for _, life := range s.earlier {
			add(life)
		}
	}
	if st, ok := l.m.cfg.Region.Glance(ref); ok {
		for i := range st.Watermarks {
			add(st.Watermarks[i].Life)
		}
	}
	return all
}
