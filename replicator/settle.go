package replicator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// maxAnnounced bounds the topics that one connection may announce.
const maxAnnounced = 200_000

// Pauses between tries to bring a topic in line with an announce.
const (
	settlePause     = 200 * time.Millisecond
	settlePauseMost = 5 * time.Second
)

// settler brings this region's topics in line with what a peer announces: it
// creates what is missing and grows what is smaller. What fails for now, or
// what this side's view of the policy does not allow yet, is tried again.
type settler struct {
	conn *conn
	wake chan struct{} // capacity 1: there may be something to do

	mu      sync.Mutex
	pending map[rhumb.Topic]*wire.Topic
	denied  map[rhumb.Topic]*wire.Topic // by policy, as far as it is known here
	heard   map[rhumb.Topic]bool        // announced since the flows were last woken; true: not for the first time
	known   map[rhumb.Topic]bool        // announced over this connection, the first maxAnnounced of them

	failures map[rhumb.Topic]failure // of what is pending or denied
}

func (s *settler) init(c *conn) {
	s.conn, s.wake = c, make(chan struct{}, 1)
	s.pending, s.denied, s.failures = map[rhumb.Topic]*wire.Topic{}, map[rhumb.Topic]*wire.Topic{}, map[rhumb.Topic]failure{}
	s.heard, s.known = map[rhumb.Topic]bool{}, map[rhumb.Topic]bool{}
}

// take remembers an announce. A later one of the same topic replaces it.
func (s *settler) take(t *wire.Topic) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending)+len(s.denied) >= maxAnnounced {
		return brokenf("more than %d topics announced that could not be settled", maxAnnounced)
	}
	delete(s.denied, t.Topic)
	full := len(s.known) >= maxAnnounced // names come and go for as long as the connection lives
	s.pending[t.Topic], s.heard[t.Topic] = t, s.heard[t.Topic] || s.known[t.Topic] || full
	if !full {
		s.known[t.Topic] = true
	}
	s.signal()
	return nil
}

func (s *settler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// policyChanged has what was denied tried again.
func (s *settler) policyChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.denied {
		s.pending[name] = t
	}
	clear(s.denied)
	s.signal()
}

// run settles until the context ends.
func (s *settler) run(ctx context.Context) error {
	pause := backoff{least: settlePause, most: settlePauseMost}
	for {
		var retry <-chan time.Time
		if s.settleAll(ctx) {
			pause.reset()
		} else {
			t := time.NewTimer(pause.next())
			defer t.Stop()
			retry = t.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-retry:
		}
	}
}

// settleAll tries everything that is pending once, and reports whether nothing
// is left to try again.
func (s *settler) settleAll(ctx context.Context) bool {
	s.mu.Lock()
	work := make([]*wire.Topic, 0, len(s.pending))
	for _, t := range s.pending {
		work = append(work, t)
	}
	heard := s.heard
	s.heard = map[rhumb.Topic]bool{}
	s.mu.Unlock()
	s.conn.link.announced(heard)
	var wg sync.WaitGroup
	var next, left atomic.Int64
	for range min(len(work), settleTogether) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(work) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if !s.settleOne(ctx, work[i]) {
					left.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return left.Load() == 0 || ctx.Err() != nil
}

// settleTogether is how many topics are brought in line at the same time. Each waits
// for flushes of the log, which all that wait share.
const settleTogether = 256

// settleOne tries one topic, and reports whether nothing is left to try again.
func (s *settler) settleOne(ctx context.Context, t *wire.Topic) bool {
	done := s.settled(t, s.conn.m.settle(ctx, s.conn.link, t))
	if have, ok := s.conn.m.cfg.Region.Topic(t.Topic); ok && have.Deletions == t.Deletions && len(have.Partitions) > int(t.Partitions) {
		s.conn.control.tellAgain(t.Topic)
	}
	return done
}

// settled notes the result of a try and reports whether it was the last one.
func (s *settler) settled(t *wire.Topic, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[t.Topic] != t {
		return true // announced anew meanwhile, and woken for it
	}
	if err == nil {
		delete(s.pending, t.Topic)
		delete(s.failures, t.Topic)
		return true
	}
	switch kind := rhumb.KindOf(err); kind {
	case rhumb.KindForbidden, rhumb.KindFenced, rhumb.KindInvalid:
		delete(s.pending, t.Topic)
		s.denied[t.Topic] = t
	case rhumb.KindExists:
		return false
	}
	if s.failed(t.Topic, err) {
		s.conn.m.log.Warn("an announced topic is not made", "peer_region", s.conn.link.name, "topic", t.Topic.String(), "err", err)
	}
	return s.pending[t.Topic] == nil
}

// settle brings one topic in line with what a peer has. Deletion counts come
// from the configuration store: what the peer says of them is never a reason to
// delete, only a reason to wait for this region's own view. A lower count never
// fills a topic again. Kinds: forbidden and fenced wait for the policy, others
// are worth a retry.
func (m *Manager) settle(ctx context.Context, l *link, t *wire.Topic) error {
	doc, _ := m.cfg.Policy.TopicDoc(t.Topic)
	count := max(doc.Deletions, m.cfg.Region.Deletions(t.Topic))
	switch {
	case !l.shares(t.Topic):
		return rhumb.Errorf(rhumb.KindForbidden, "its namespace has no edge between this region and region %s", l.name)
	case t.Deletions < count:
		return rhumb.Errorf(rhumb.KindFenced, "it was deleted under count %d, the peer's was born under %d", count, t.Deletions)
	case t.Deletions > count:
		return rhumb.Errorf(rhumb.KindFenced, "the peer knows of a deletion, count %d, %w", t.Deletions, errUnheardDeletion)
	}
	have, ok := m.cfg.Region.Topic(t.Topic)
	if ok && have.Deletions < count {
		if err := m.cfg.Region.DeleteTopic(ctx, t.Topic, count); err != nil {
			return err
		}
		ok = false
	}
	switch {
	case !ok && m.cfg.Region.DeletedHere(t.Topic, t.Deletions):
		return rhumb.Errorf(rhumb.KindForbidden, "it was deleted in this region alone: create it here to have it again")
	case !ok:
		spec := topicSpec{Topic: t.Topic, Partitions: t.Partitions, Configs: t.Configs, Deletions: t.Deletions}
		_, err := m.cfg.Region.CreateTopic(ctx, spec)
		return err // exists, if somebody else was faster: the retry compares again
	case int(t.Partitions) > len(have.Partitions):
		_, err := m.cfg.Region.GrowTopic(ctx, t.Topic, t.Partitions)
		return err
	}
	return nil
}
