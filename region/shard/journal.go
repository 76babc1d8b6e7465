package shard

import "github.com/rhumbmq/rhumb/internal/rhumb"

// journalKept bounds how many changes of topics are remembered one by one. Who
// asks later than that looks at all topics.
const journalKept = 1 << 16

// journal remembers which topics changed, so that who follows them need not look
// at all of them after each change.
//
// Invariant: ids[i] changed as number first+i; the next change has the number
// first+len(ids). A zero id stands for something that concerns no topic alone.
type journal struct {
	first uint64
	ids   []rhumb.UUID
}

func (j *journal) next() uint64 { return j.first + uint64(len(j.ids)) }

// note adds a change.
func (j *journal) note(id rhumb.UUID) {
	if len(j.ids) >= journalKept {
		half := len(j.ids) / 2
		j.first += uint64(half)
		j.ids = append(j.ids[:0], j.ids[half:]...)
	}
	j.ids = append(j.ids, id)
}

// forget makes all that was noted too old to be told: who asks looks at everything.
func (j *journal) forget() { j.first, j.ids = j.next()+1, nil }

// since gives the ids of the changes from a number on, false if it is too long ago
// or one of them concerns no topic alone.
func (j *journal) since(n uint64) (ids []rhumb.UUID, ok bool) {
	if n < j.first || n > j.next() {
		return nil, false
	}
	ids = j.ids[n-j.first:]
	for _, id := range ids {
		if id.IsZero() {
			return nil, false
		}
	}
	return ids, true
}

// TopicChanges is what happened to topics since a moment.
type TopicChanges struct {
	Next uint64 // where the next question starts
	// Whole: it cannot be told which topics changed, so all are to be looked at.
	Whole   bool
	Changed []*Topic // that are there, in no order
	Gone    int      // topics that are not there any more
}

// TopicsSince gives what happened to topics since an earlier answer's Next; 0 is
// before everything.
func (s *Shard) TopicsSince(from uint64) TopicChanges {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	c := TopicChanges{Next: s.m.journal.next()}
	ids, ok := s.m.journal.since(from)
	if !ok {
		c.Whole = true
		return c
	}
	seen := make(map[rhumb.UUID]struct{}, len(ids))
	for _, id := range ids {
		if _, twice := seen[id]; twice {
			continue
		}
		seen[id] = struct{}{}
		if t := s.m.topics[id]; t != nil {
			c.Changed = append(c.Changed, t)
		} else {
			c.Gone++
		}
	}
	return c
}

// topicsChanged notes a change: of a topic, or of something that concerns no topic
// alone (the zero id). The caller holds mu.
func (m *machine) topicsChanged(id rhumb.UUID) {
	m.topicsSeen++
	m.journal.note(id)
}
