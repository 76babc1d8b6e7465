package replicator

import (
	"context"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// source is one partition of this region that links may have to send. It is
// never changed: a partition that is created again is another source.
type source struct {
	topic     rhumb.Topic
	index     int32
	ref       rhumb.PartitionRef
	origin    rhumb.RegionNumber // this region, unless the life is a copy of another one's
	life      rhumb.Life
	deletions uint64
	configs   map[string]string

	from    rhumb.Offset     // first offset that the life can name
	closed  *region.PastLife // nil: it is the life that the log has
	earlier []rhumb.Life     // that the log had before this one
	copied  bool             // the life is not this log's: links brought it here
}

// sourceKey tells the lives of a partition's log apart: what an earlier one names
// has to reach every destination, too.
type sourceKey struct {
	ref  rhumb.PartitionRef
	life rhumb.Life
}

func (s *source) key() sourceKey { return sourceKey{s.ref, s.life} }

// sameEnd reports whether two sources of one life end at the same place.
func (s *source) sameEnd(o *source) bool {
	if s.closed == nil || o.closed == nil {
		return s.closed == o.closed
	}
	return s.closed.Last == o.closed.Last
}

// scope is the unit of policy that a topic belongs to: its namespace, or itself if
// it has a topology of its own.
type scope struct {
	tenant    rhumb.Tenant
	namespace rhumb.Namespace
	topic     rhumb.TopicName // empty: the namespace
}

func (m *Manager) scopeOf(t rhumb.Topic) scope {
	s := scope{tenant: t.Tenant, namespace: t.Namespace}
	if doc, ok := m.cfg.Policy.TopicDoc(t); ok && doc.Topology != nil {
		s.topic = t.Name
	}
	return s
}

// sourcesOf lists the lives of the region's own logs, of the topics' partitions that
// are ready.
func sourcesOf(self rhumb.RegionNumber, topics []topicInfo) map[sourceKey]*source {
	all := map[sourceKey]*source{}
	for i := range topics {
		t := &topics[i]
		for _, p := range t.Partitions {
			if !p.Ready {
				continue
			}
			s := source{origin: self, topic: t.Topic, index: p.Index, ref: p.Ref, deletions: t.Deletions, configs: t.Configs}
			for k := range p.Past {
				past := s
				past.life, past.closed, past.from = p.Past[k].Life, &p.Past[k], p.Past[k].From
				s.earlier = append(s.earlier[:k:k], past.life)
				s.from = p.Past[k].Last + 1
				all[past.key()] = &past
			}
			s.life = p.Life
			all[s.key()] = &s
		}
	}
	return all
}

// current gives the sources of the lives that the logs have now.
func current(sources map[sourceKey]*source) map[rhumb.PartitionRef]*source {
	now := make(map[rhumb.PartitionRef]*source, len(sources))
	for _, s := range sources {
		if s.closed == nil {
			now[s.ref] = s
		}
	}
	return now
}

// watchBuckets is how many goroutines watch idle partitions, whatever their
// number is.
const watchBuckets = 32

// watcher tells which partitions grew. Partitions share a waiter per bucket, so
// idle ones cost no goroutine; the waiter gathers which of them changed, and their
// ends are compared with those last seen. A partition that some session works on
// leaves its bucket (hold) and has a waiter of its own.
type watcher struct {
	log  Source
	grew func(*source) // called without locks held

	mu      sync.Mutex
	sources map[rhumb.PartitionRef]*watched
	buckets [watchBuckets]bucket
}

type bucket struct {
	waiter  *region.Waiter
	members map[rhumb.PartitionRef]*watched
}

type watched struct {
	source *source
	holds  int
	seen   rhumb.Offset // end, when last looked at
}

// ownEnd is the last own offset that may leave the region, about: for lag, the
// end of the log matters only as far as own records are there.
func ownEnd(st *partitionState) rhumb.Offset { return min(st.OwnLast, st.Flushed-1) }

// lastOut grows whenever something may leave the region that could not before:
// records of any origin, since a watermark is to reach the end of its origin's log
// over those of others, too; and what other origins say of offsets without records,
// which is to reach whoever gets them from here. Beyond that it means nothing.
func lastOut(st *partitionState) rhumb.Offset {
	out := st.Flushed - 1
	for i := range st.Watermarks {
		out += st.Watermarks[i].Offset + 1
	}
	return out
}

func newWatcher(log Source, grew func(*source)) *watcher {
	w := &watcher{log: log, grew: grew, sources: map[rhumb.PartitionRef]*watched{}}
	for i := range w.buckets {
		w.buckets[i] = bucket{region.NewGatherer(), map[rhumb.PartitionRef]*watched{}}
	}
	return w
}

func (w *watcher) bucket(ref rhumb.PartitionRef) *bucket {
	h := (uint64(ref.ID) + uint64(ref.Shard)<<32) * 0x9e3779b97f4a7c15
	return &w.buckets[h>>32%watchBuckets]
}

// update makes sources the set that is watched.
func (w *watcher) update(sources map[rhumb.PartitionRef]*source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, old := range w.sources {
		if sources[ref] == nil {
			if old.holds == 0 {
				w.leave(ref)
			}
			delete(w.sources, ref)
		}
	}
	for ref, s := range sources {
		if old := w.sources[ref]; old != nil {
			old.source = s
			continue
		}
		w.sources[ref] = &watched{source: s, seen: rhumb.NoOffset}
		w.enter(ref)
	}
}

// add has more sources watched, which were not before.
func (w *watcher) add(sources map[sourceKey]*source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range sources {
		if w.sources[s.ref] == nil {
			w.sources[s.ref] = &watched{source: s, seen: rhumb.NoOffset}
			w.enter(s.ref)
		}
	}
}

func (w *watcher) enter(ref rhumb.PartitionRef) {
	b := w.bucket(ref)
	b.members[ref] = w.sources[ref]
	w.log.AddWaiter(ref, b.waiter)
}

func (w *watcher) leave(ref rhumb.PartitionRef) {
	b := w.bucket(ref)
	delete(b.members, ref)
	w.log.RemoveWaiter(ref, b.waiter)
}

// hold takes a partition out of its bucket until as many calls of unhold, and
// tells the end that was seen last. From here on the session that holds it tells
// other links what it sees grow: they may not hold it.
func (w *watcher) hold(ref rhumb.PartitionRef) (seen rhumb.Offset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sources[ref]
	if s == nil {
		return rhumb.NoOffset
	}
	if s.holds++; s.holds == 1 {
		w.leave(ref)
	}
	return s.seen
}

// unhold puts a partition back. seen is the end up to which its session has
// looked: what came after it is reported.
func (w *watcher) unhold(ref rhumb.PartitionRef, seen rhumb.Offset) {
	w.mu.Lock()
	s := w.sources[ref]
	if s == nil || s.holds == 0 {
		w.mu.Unlock()
		return
	}
	if s.holds--; s.holds == 0 {
		s.seen = seen
		w.enter(ref)
	}
	src := s.source // update changes it
	w.mu.Unlock()
	// What grew before the waiter was back would be signalled to nobody.
	if st, ok := w.log.Glance(ref); ok && lastOut(&st) > seen {
		w.grew(src)
	}
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range w.buckets {
		wg.Go(func() {
			b := &w.buckets[i]
			for {
				select {
				case <-ctx.Done():
					return
				case <-b.waiter.C:
					for _, s := range w.grown(b) {
						w.grew(s)
					}
				}
			}
		})
	}
	wg.Wait()
	w.update(nil)
}

// grown gives the members of a bucket whose end moved since it was last seen. It asks
// for ends before it takes the lock, which all buckets and all sessions share.
func (w *watcher) grown(b *bucket) []*source {
	changed := b.waiter.Changed()
	ends := make([]rhumb.Offset, len(changed))
	for i, ref := range changed {
		ends[i] = rhumb.NoOffset
		if st, ok := w.log.Glance(ref); ok {
			ends[i] = lastOut(&st)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var grown []*source
	for i, ref := range changed {
		// One that is no member any more left meanwhile.
		if s := b.members[ref]; s != nil && ends[i] > s.seen {
			s.seen = ends[i]
			grown = append(grown, s.source)
		}
	}
	return grown
}
