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
// Each is looked at once in wholeEvery: what a client may no longer read is not told by a
// change of its partition. Each fetch looks at some of them for that: a look at ten
// thousand takes so long that all records that come meanwhile are late.
const (
	watchedFrom = 64
	wholeEvery  = 2 * time.Second
)

// watched is what a session knows of changes of its partitions. Its part of looks is
// used by who has the session's turn.
type watched struct {
	watch *broker.Watch
	next  []*sessionPart // to be looked at by the next fetch, those that waited longest first

	// A round goes through all partitions in wholeEvery.
	began  time.Time
	round  []*sessionPart
	passed int // of these, how many were looked at

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

// gather has the next fetch look at what changed.
func (w *watched) gather() {
	changed := w.watch.Changed()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ref := range changed {
		if p := w.parts[ref]; p != nil {
			w.look(p)
		}
	}
}

// take gives what is to be looked at now.
func (w *watched) take() []*sessionPart {
	w.gather()
	now := w.next
	w.next = nil
	return slices.DeleteFunc(now, func(p *sessionPart) bool {
		p.looked = false
		return p.gone
	})
}

// begin begins a round.
func (w *watched) begin(sess *session) {
	w.began, w.round, w.passed = time.Now(), w.round[:0], 0
	for e := sess.order.Front(); e != nil; e = e.Next() {
		w.round = append(w.round, e.Value.(*sessionPart))
	}
}

// goOn has the next fetch look at what is due of the round, behind what changed: all of
// the rest if no fetch came for so long.
func (w *watched) goOn(sess *session) {
	elapsed := min(time.Since(w.began), wholeEvery)
	due := int(int64(len(w.round)) * int64(elapsed) / int64(wholeEvery))
	for ; w.passed < due; w.passed++ {
		if p := w.round[w.passed]; !p.gone {
			w.look(p)
		}
	}
	if elapsed == wholeEvery {
		w.begin(sess)
	}
}

// watches reports whether a fetch of a session may look at some of its partitions.
func (s *session) watches(limits *broker.FetchLimits) bool {
	return s.watched != nil && limits.MinBytes <= 1
}

// fetchChanged answers a fetch from what changed. It waits as long as the client lets it.
func (s *Server) fetchChanged(ctx context.Context, who *caller, sess *session, version int16, limits broker.FetchLimits) response {
	timer := time.NewTimer(limits.MaxWait)
	defer timer.Stop()
	limits.MaxWait = 0
	sess.watched.gather()
	sess.watched.goOn(sess)
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
