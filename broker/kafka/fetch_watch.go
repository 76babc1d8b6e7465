package kafka

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A fetch session of many partitions is watched as a whole, so that a fetch looks only
// at those that changed, that the client moved in, or that gave something last time.
// All are looked at once in wholeEvery: what a client may no longer read is not told by a
// change of its partition.
const (
	watchedFrom = 64
	wholeEvery  = 2 * time.Second
)

// watched is what a session knows of changes of its partitions. Its part of looks is
// used by who has the session's turn.
type watched struct {
	watch *broker.Watch
	whole time.Time      // when all were looked at last
	next  []*sessionPart // to be looked at by the next fetch, those that waited longest first

	mu     sync.Mutex
	parts  map[rhumb.PartitionRef]*sessionPart
	closed bool
}

func newWatched(b *broker.Broker) *watched {
	return &watched{watch: b.NewWatch(), parts: map[rhumb.PartitionRef]*sessionPart{}}
}

// add watches a partition before it is looked at.
func (w *watched) add(p *sessionPart, item *broker.FetchItem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if p.watched && item.Topic != nil && int(item.Partition) < len(item.Topic.Partitions) && item.Topic.Partitions[item.Partition].Ref == p.ref {
		return
	}
	w.drop(p)
	if ref, ok := w.watch.Add(item); ok {
		p.ref, p.watched = ref, true
		w.parts[ref] = p
	}
}

// drop ends the watch of a partition. The caller holds mu.
func (w *watched) drop(p *sessionPart) {
	if p.watched {
		w.watch.Remove(p.ref)
		delete(w.parts, p.ref)
		p.watched = false
	}
}

// forget is for a partition that left the session.
func (w *watched) forget(p *sessionPart) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(p)
	p.gone = true
}

// close ends the watch of all. A fetch that is under way looks at nothing new any more.
func (w *watched) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, p := range w.parts {
		w.drop(p)
	}
}

// look has the next fetch look at a partition.
func (w *watched) look(p *sessionPart) {
	if !p.looked {
		p.looked = true
		w.next = append(w.next, p)
	}
}

// take gives what is to be looked at now.
func (w *watched) take() []*sessionPart {
	changed := w.watch.Changed()
	w.mu.Lock()
	for _, ref := range changed {
		if p := w.parts[ref]; p != nil {
			w.look(p)
		}
	}
	w.mu.Unlock()
	now := w.next
	w.next = nil
	return slices.DeleteFunc(now, func(p *sessionPart) bool {
		p.looked = false
		return p.gone
	})
}

// watches reports whether a fetch of a session may look at what changed alone.
func (s *session) watches(limits *broker.FetchLimits) bool {
	return s.watched != nil && limits.MinBytes <= 1 && time.Since(s.watched.whole) < wholeEvery
}

// fetchChanged answers a fetch from what changed. It waits as long as the client lets it.
func (s *Server) fetchChanged(ctx context.Context, who *caller, sess *session, version int16, limits broker.FetchLimits) response {
	timer := time.NewTimer(limits.MaxWait)
	defer timer.Stop()
	limits.MaxWait = 0
	for {
		if parts := sess.watched.take(); len(parts) > 0 {
			looked := s.look(ctx, who, sess, parts, limits)
			if looked.news() {
				return s.answerFetch(sess, version, false, looked)
			}
			looked.settle(sess)
			looked.release()
		}
		select {
		case <-sess.watched.watch.C():
		case <-timer.C:
			return s.answerFetch(sess, version, false, looked{release: func() {}})
		case <-ctx.Done():
			return s.answerFetch(sess, version, false, looked{release: func() {}})
		}
	}
}
