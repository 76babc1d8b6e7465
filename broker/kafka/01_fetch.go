package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// Fetch (API 1): reads record batches, waiting for new ones.
//
// Versions 4 to 18:
//   - 5: log start
//   - 7: fetch sessions
//   - 9: leader epoch of the client
//   - 11: preferred replica (none)
//   - 12: flexible
//   - 13: topic ids only
//   - 15, 17, 18: fields of replicas, which are ignored
//   - 16: leader hint (none is given)
//
// There are no transactions, so the last stable offset is the high watermark
// and read_committed reads the same.
const fetchKey int16 = 1

// fetchWithIDs is the first version that names topics by id.
const fetchWithIDs = 13

// maxFetchWait bounds how long a fetch may ask to wait.
const maxFetchWait = 5 * time.Minute

func init() { register(api{key: fetchKey, min: 4, max: 18, handle: fetch}) }

// fetch runs in a goroutine of its own, after the fetch before it on the same
// connection; the reader goes on meanwhile.
func fetch(_ context.Context, r *request) (reply, error) {
	req, err := decode[kmsg.FetchRequest](r)
	if err != nil {
		return nil, err
	}
	c := r.conn
	before, done := c.lastFetch, make(chan struct{})
	c.lastFetch = done
	var resp response
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		resp = c.fetch(r.caller, req)
	}()
	return func(context.Context) response {
		<-done // soon after polls ends, which is at the latest when ctx does
		return resp
	}, nil
}

// fetch answers by place where the connection can send from files, but not while
// another such answer of it is on its way: what a slow reader keeps of removed files is
// bounded by one answer.
func (c *conn) fetch(who *caller, req *kmsg.FetchRequest) response {
	limits := c.server.fetchLimits(req)
	limits.ByPlace = c.sendsFiles && c.placed.CompareAndSwap(false, true)
	resp := c.server.fetch(c.polls, who, req, limits)
	if !limits.ByPlace {
		return resp
	}
	if len(resp.placed) == 0 {
		c.placed.Store(false)
		return resp
	}
	release := resp.release
	resp.release = func() {
		release()
		c.placed.Store(false)
	}
	return resp
}

func (s *Server) fetch(ctx context.Context, who *caller, req *kmsg.FetchRequest, limits broker.FetchLimits) response {
	sess, full, err := s.sessions.open(ctx, who, req)
	if err != nil {
		bufs, _ := encodeFetch(fetchAnswer{version: req.Version, code: codeOf(scopeRead, err)})
		return response{bufs: bufs}
	}
	defer sess.done()
	if !full && sess.watches(&limits) {
		return s.fetchChanged(ctx, who, sess, req.Version, limits)
	}
	parts := make([]*sessionPart, 0, sess.order.Len())
	for e := sess.order.Front(); e != nil; e = e.Next() {
		parts = append(parts, e.Value.(*sessionPart))
	}
	if sess.id == 0 || len(parts) < watchedFrom || full && sess.watched == nil {
		return s.answerFetch(sess, req.Version, full, s.look(ctx, who, sess, parts, limits))
	}
	if sess.watched == nil {
		s.sessions.watch(sess, s.broker)
	}
	sess.watched.begin(sess)
	sess.watched.take() // all are looked at
	wait := limits.MaxWait
	if limits.MinBytes <= 1 {
		limits.MaxWait = 0
	}
	found := s.look(ctx, who, sess, parts, limits)
	if limits.MinBytes > 1 || wait <= 0 || found.news() {
		return s.answerFetch(sess, req.Version, false, found)
	}
	found.settle(sess)
	found.release()
	limits.MaxWait = wait
	return s.fetchChanged(ctx, who, sess, req.Version, limits)
}

// looked is what a look at partitions of a session gave.
type looked struct {
	parts   []*sessionPart
	answers []broker.FetchAnswer
	release func()
}

// look reads partitions.
func (s *Server) look(ctx context.Context, who *caller, sess *session, parts []*sessionPart, limits broker.FetchLimits) looked {
	items := make([]broker.FetchItem, len(parts))
	topics := map[partKey]*found{}
	for i, p := range parts {
		items[i] = fetchItem(who, topics, sess.byID, p)
		if sess.watched != nil {
			sess.watched.add(p, &items[i])
		}
	}
	answers, release := s.broker.Fetch(ctx, items, limits)
	return looked{parts, answers, release}
}

// news reports whether a client that waits for records is to have the answer now.
func (l *looked) news() bool {
	for i, p := range l.parts {
		if a := &l.answers[i]; p.unread(a) || len(a.Batches) > 0 || !p.told || a.State.LogStart != p.logStart {
			return true
		}
	}
	return false
}

// unread reports whether a partition has more than an answer gives: an error, or
// records that did not fit.
func (p *sessionPart) unread(a *broker.FetchAnswer) bool {
	return a.Err != nil || len(a.Batches) == 0 && p.offset < a.State.End
}

// settle notes what the next fetch has to look at again: first what did not fit, then
// what gave something, as the client may not have taken it, or there may be more.
func (l *looked) settle(sess *session) {
	if sess.watched == nil {
		return
	}
	for i, p := range l.parts {
		if p.unread(&l.answers[i]) {
			sess.watched.look(p)
		}
	}
	for i, p := range l.parts {
		if len(l.answers[i].Batches) > 0 {
			sess.watched.look(p)
		}
	}
}

func (s *Server) answerFetch(sess *session, version int16, full bool, l looked) response {
	out := fetchAnswer{version: version, session: sess.id}
	for i, p := range l.parts {
		a := &l.answers[i]
		if sess.byID && errors.Is(a.Err, broker.ErrDeleted) {
			a.Err = errTopicID
		}
		if p.changed(a) || full {
			out.parts = append(out.parts, fetchPart{part: p, answer: a, code: codeOf(scopeRead, a.Err)})
		}
		if e := sess.index[p.key]; e != nil && len(a.Batches) > 0 {
			sess.order.MoveToBack(e) // the others come first next time
		}
	}
	l.settle(sess)
	bufs, placed := encodeFetch(out)
	for i := range l.answers {
		s.stats.fetched.Add(int64(l.answers[i].Bytes))
	}
	for i := range placed {
		s.stats.placed.Add(int64(placed[i].place.Size()))
	}
	return response{bufs: bufs, placed: placed, release: l.release}
}

type found struct {
	topic *broker.TopicInfo
	err   error
}

// fetchItem looks each topic up once per fetch.
func fetchItem(who *caller, topics map[partKey]*found, byID bool, p *sessionPart) broker.FetchItem {
	key := p.key
	key.partition = 0
	f := topics[key]
	if f == nil {
		topic, err := who.findTopic(byID, key.topic, key.id)
		f = &found{topic, err}
		topics[key] = f
	}
	return broker.FetchItem{Topic: f.topic, Err: f.err, Partition: p.key.partition, Offset: p.offset,
		MaxBytes: int(max(p.maxBytes, 0)), LeaderEpoch: p.leaderEpoch}
}

func (s *Server) fetchLimits(req *kmsg.FetchRequest) broker.FetchLimits {
	most := min(int(max(req.MaxBytes, 0)), s.cfg.FetchMaxBytes)
	return broker.FetchLimits{
		MinBytes: min(int(req.MinBytes), most),
		MaxBytes: most,
		MaxWait:  min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait),
		Budget:   s.fetches,
		Whole:    s.cfg.FetchBudget,
		Reserve:  s.spare,
	}
}

// changed reports whether an answer within a session has to name the partition,
// and remembers what it says.
func (p *sessionPart) changed(a *broker.FetchAnswer) bool {
	news := !p.told || len(a.Batches) > 0 || a.Err != nil || a.State.End != p.end || a.State.LogStart != p.logStart
	p.told, p.end, p.logStart = a.Err == nil, a.State.End, a.State.LogStart
	return news
}
