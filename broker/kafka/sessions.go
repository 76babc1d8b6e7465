package kafka

import (
	"container/list"
	"context"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Fetch sessions (KIP-227): the server remembers what a consumer fetches, so
// that requests and answers name only what changed.

// Special epochs of a fetch request.
const (
	sessionless    = -1
	sessionInitial = 0
)

// maxSessionParts bounds the partitions that all sessions remember; a session
// above it is not made, which clients accept.
const maxSessionParts = 500_000

var (
	errNoSession    = withCode(codeFetchSessionNotFound, "no such fetch session")
	errSessionEpoch = withCode(codeInvalidFetchSessionEpoch, "fetch session is at another epoch")
	errSessionIDs   = withCode(codeFetchSessionTopicIDError, "fetch session mixes topic names and ids")
)

// sessions are the fetch sessions of a node, the longest unused first to go.
type sessions struct {
	mu    sync.Mutex
	max   int
	byID  map[int32]*list.Element // of *session
	lru   *list.List              // front: used last
	parts int
}

func newSessions(max int) *sessions {
	return &sessions{max: max, byID: map[int32]*list.Element{}, lru: list.New()}
}

// partKey names a partition in a session: by id if the session has ids.
type partKey struct {
	topic     string
	id        [16]byte
	partition int32
}

// sessionPart is what a session knows of a partition.
type sessionPart struct {
	key         partKey
	offset      rhumb.Offset
	maxBytes    int32
	leaderEpoch int32

	// As the last answer said.
	told     bool
	end      rhumb.Offset
	logStart rhumb.Offset

	// In a session that is watched: under what name, and whether the next fetch looks at it.
	ref     rhumb.PartitionRef // guarded by watched.mu
	watched bool               // same
	looked  bool
	gone    bool // it left the session
}

// session is one fetch session. A client has one fetch of it under way at a
// time, which holds the turn; one more waits.
type session struct {
	id    int32 // 0: lives for one request
	owner owner
	byID  bool
	turn  chan struct{} // has a token while a fetch uses what follows
	epoch int32         // of the next request
	index map[partKey]*list.Element
	order *list.List // of *sessionPart; what gave records goes to the back
	count int        // of parts, as the owner's total has it; owned by sessions

	watched *watched // nil as long as it is not watched; set by who has the turn and holds sessions.mu
}

func newSession(byID bool) *session {
	return &session{byID: byID, turn: make(chan struct{}, 1), index: map[partKey]*list.Element{}, order: list.New()}
}

// done gives the turn to the next fetch of the session.
func (s *session) done() { <-s.turn }

// open finds or makes the session of a request and takes its changes over. The
// caller has the turn until it calls done.
func (s *sessions) open(ctx context.Context, who *caller, req *kmsg.FetchRequest) (sess *session, full bool, err error) {
	byID := req.Version >= fetchWithIDs
	if req.SessionEpoch == sessionless || req.SessionEpoch == sessionInitial {
		s.close(req.SessionID, who.owner())
		sess = newSession(byID)
		sess.owner = who.owner()
		sess.turn <- struct{}{}
		sess.update(req)
		if req.SessionEpoch == sessionInitial {
			s.add(sess)
		}
		return sess, true, nil
	}
	sess = s.find(req.SessionID, who.owner())
	if sess == nil {
		return nil, false, errNoSession
	}
	select {
	case sess.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, errNoSession
	}
	switch {
	case sess.byID != byID:
		err = errSessionIDs
	case sess.epoch != req.SessionEpoch:
		err = errSessionEpoch
	}
	if err != nil {
		sess.done()
		return nil, false, err
	}
	sess.epoch = nextEpoch(sess.epoch)
	sess.update(req)
	s.recount(sess)
	return sess, false, nil
}

// nextEpoch counts from 1 to the largest and begins again at 1.
func nextEpoch(epoch int32) int32 {
	if epoch == 1<<31-1 {
		return 1
	}
	return epoch + 1
}

// find gives a session to its owner. To others it is not there: ids are no
// secrets.
func (s *sessions) find(id int32, who owner) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil || e.Value.(*session).owner != who {
		return nil
	}
	s.lru.MoveToFront(e)
	return e.Value.(*session)
}

// add gives the session an id if there is room for it. The caller has the turn.
func (s *sessions) add(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.order.Len() > maxSessionParts {
		return
	}
	for s.lru.Len() > 0 && (s.lru.Len() >= s.max || s.parts+sess.order.Len() > maxSessionParts) {
		s.remove(s.lru.Back())
	}
	for sess.id == 0 || s.byID[sess.id] != nil {
		sess.id = rand.Int32N(1<<31-1) + 1
	}
	sess.epoch = 1
	sess.count = sess.order.Len()
	s.parts += sess.count
	s.byID[sess.id] = s.lru.PushFront(sess)
}

// recount takes over that a session has more or fewer partitions.
func (s *sessions) recount(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[sess.id]
	if e == nil || e.Value != sess {
		return
	}
	s.parts += sess.order.Len() - sess.count
	sess.count = sess.order.Len()
	if s.parts > maxSessionParts {
		s.remove(e) // its next request is told that there is no such session
	}
}

func (s *sessions) close(id int32, who owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil && e.Value.(*session).owner == who {
		s.remove(e)
	}
}

func (s *sessions) remove(e *list.Element) {
	sess := e.Value.(*session)
	s.lru.Remove(e)
	delete(s.byID, sess.id)
	s.parts -= sess.count
	if sess.watched != nil {
		sess.watched.close()
	}
}

// watch has a session watched from now on, unless it was dropped meanwhile. The caller
// has its turn.
func (s *sessions) watch(sess *session, b *broker.Broker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := newWatched(b)
	if e := s.byID[sess.id]; e == nil || e.Value != sess {
		w.close()
	}
	sess.watched = w
}

// update takes over what the request names; the caller has the turn.
func (s *session) update(req *kmsg.FetchRequest) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := s.part(s.key(t.Topic, t.TopicID, p.Partition))
			part.offset = rhumb.Offset(p.FetchOffset)
			part.maxBytes = p.PartitionMaxBytes
			part.leaderEpoch = p.CurrentLeaderEpoch
			if s.watched != nil {
				s.watched.look(part)
			}
		}
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			k := s.key(t.Topic, t.TopicID, p)
			if e := s.index[k]; e != nil {
				s.order.Remove(e)
				delete(s.index, k)
				if s.watched != nil {
					s.watched.forget(e.Value.(*sessionPart))
				}
			}
		}
	}
}

func (s *session) key(topic string, id [16]byte, partition int32) partKey {
	if s.byID {
		return partKey{id: id, partition: partition}
	}
	return partKey{topic: topic, partition: partition}
}

func (s *session) part(k partKey) *sessionPart {
	if e := s.index[k]; e != nil {
		return e.Value.(*sessionPart)
	}
	p := &sessionPart{key: k}
	s.index[k] = s.order.PushBack(p)
	return p
}
