package replicator

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// The first batch of a log, if it is small and all that there is, goes out without a
// goroutine and without asking first: open and batch follow each other, and the
// destination says once where it stands. Tens of thousands of topics that get a batch
// each cost a message each way. The accept rule decides as always: who has the batch
// says so, and whatever else the answer is, or if none comes, the flow gets a session
// that asks. So nothing goes by this but that the destination said that it has the
// batch, with its chain.

// aloneMost is the largest batch that goes alone, and agedMost how many bytes of batches
// that are not new may be under way so: they go before backlog, and before what is new.
//
// aloneTrip is the longest round trip of a line on which they do: what comes next in the
// log waits for the answer, and for that to a session's open.
const (
	aloneMost = carriedGroup / 2
	agedMost  = 64 << 10
	aloneTrip = 20 * time.Millisecond
)

// alone is such a batch under way. Its flow counts as worked on meanwhile.
type alone struct {
	// Fixed before it is sent.
	flow   *flow
	conn   *conn
	lane   *lane
	id     wire.SessionID
	size   int64 // of the batch, taken from the budget
	last   dedup.ChainPoint
	aged   bool // it is not new
	sentAt time.Time

	// Guarded by lanes.mu.
	number   uint64 // of the group for the lane's carrier
	edge     bool   // the edge's start is being fixed
	answered bool   // by the destination, or it never will
	has      bool   // it has the batch
	started  bool   // the edge's start is fixed
	over     bool   // nothing more is waited for
}

// lonely is what a connection has of them. Guarded by lanes.mu.
type lonely struct {
	batches map[wire.SessionID]*alone
	aged    int64         // bytes of those that are not new
	ended   []*alone      // for settleAlone
	wake    chan struct{} // capacity 1: there are some
}

func newLonely() lonely {
	return lonely{batches: map[wire.SessionID]*alone{}, wake: make(chan struct{}, 1)}
}

// mayGoAlone reports whether all that a flow has for the peer may be one small batch that
// nothing goes before. The caller works on the flow.
func (f *flow) mayGoAlone(c *conn) bool {
	l, s := f.link, f.source
	if c.features&featureAlone == 0 || c.far || l.passes.Load() || l.m.cfg.Limits.Rate > 0 || f.machine != nil ||
		s.copied || s.closed != nil || len(s.earlier) > 0 || f.latest || f.limiter().limit.Load() > 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &f.status
	return (!st.known || st.confirmed == rhumb.NoOffset) && st.err == nil && st.refused == nil && st.apart == nil &&
		st.leftOut == nil && f.order == nil
}

// lonelyBatch reads the batch of a flow, nil if it has none that may go alone.
func (f *flow) lonelyBatch() (d *wire.Data, edge bool) {
	m, s := f.link.m, f.source
	st, ok := m.cfg.Region.Glance(s.ref)
	if !ok || !st.Leading || st.Life != s.life || len(st.Past) > 0 || st.LogStart > 0 || st.OwnLast == rhumb.NoOffset ||
		st.End != st.OwnLast+1 || st.Flushed != st.End {
		return nil, false
	}
	found, err := m.cfg.Region.ReadOrigin(s.ref, originQuery{Partition: s.ref.ID, Region: m.cfg.Self.Number, Life: s.life,
		From: 0, Limit: st.Flushed, MaxBytes: aloneMost})
	if err != nil || len(found) != 1 {
		return nil, false
	}
	e := &found[0].Envelope
	if e.Prev != rhumb.NoOffset || e.Last != st.OwnLast || codec.EnvelopeSize+len(found[0].Batch) > aloneMost {
		return nil, false
	}
	start, fixed := st.Edges[f.link.number]
	if start > 0 {
		return nil, false
	}
	return &wire.Data{Head: st.Flushed, Envelope: *e, Batch: found[0].Batch}, !fixed
}

// sendAlone sends what a flow has if that may go alone, and reports whether it did. The
// caller has the right to open a session, which goes back with the answer. It never waits:
// whoever waits here keeps all flows of the link from their turn.
func (l *link) sendAlone(c *conn, f *flow) bool {
	if !f.mayGoAlone(c) {
		return false
	}
	d, edge := f.lonelyBatch()
	if d == nil || !f.goesOn(c) || !l.send.try(int64(d.Size())) {
		return false
	}
	x := &alone{flow: f, conn: c, size: int64(d.Size()), edge: edge, started: !edge, sentAt: time.Now(),
		aged: classOf(time.Since(time.UnixMilli(d.Envelope.AppendTime)), 0, fresh, false) != fresh,
		last: dedup.ChainPoint{Offset: d.Envelope.Last, Chain: d.Envelope.Chain}}
	if !c.lanes.take(x) {
		l.send.release(x.size)
		return false
	}
	cfg, s := &l.m.cfg, f.source
	d.Session, d.Shrink = x.id, &f.shrink
	open := &wire.Open{Session: x.id, Partition: rhumb.Partition{Topic: s.topic, Index: s.index}, Region: s.origin, Life: s.life,
		Deletions: s.deletions, Head: d.Head, Producer: producerName(cfg.Self.Name, l.name), Alone: true}
	f.become(SessionFlowing)
	number, sent := x.lane.gather([]wire.Frame{open, d})
	if c.lanes.untake(x, number, sent) {
		l.send.release(x.size)
		return false
	}
	if !sent {
		return true // the lane broke just now, and settleAlone has the batch
	}
	n := &l.counters
	n.sentBytes.Add(uint64(d.Size()))
	n.sentBatches.Add(1)
	n.alone.Add(1)
	n.sentRecords.Add(uint64(d.Envelope.Count))
	if edge {
		cfg.Region.StartEdge(s.ref, l.number, func(start rhumb.Offset, err error) { c.lanes.edgeStarted(x, err == nil && start == 0) })
	}
	return true
}

// producerName is what a link's sessions call themselves.
func producerName(from, to rhumb.RegionName) string {
	return "rhumb.repl." + string(from) + "." + string(to)
}

// goesOn reports whether the flow is to be carried still, and no batch of it went alone over
// the connection that was not taken. The right to send may have been waited for for long.
func (f *flow) goesOn(c *conn) bool {
	l := f.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.over == nil && !f.paused && f.shuns != c && l.flows[f.source.key()] == f
}

// take pins a batch to the emptiest lane of new data. It is false while more of these are
// to be opened, which sessions do.
func (ls *lanes) take(x *alone) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, open := ls.emptiest(fresh)
	if l == nil || l.broken.Load() || l.sessions > 0 && open+ls.opening[fresh] < ls.conn.m.cfg.Limits.Lanes {
		return false
	}
	if x.aged {
		if ls.alone.aged+x.size > agedMost {
			return false
		}
		ls.alone.aged += x.size
	}
	ls.lastID++
	l.sessions++
	x.id, x.lane = ls.lastID, l
	ls.alone.batches[x.id] = x
	return true
}

// untake undoes take if the lane did not take the batch: a session that can wait for the lane
// brings it. It is false if the batch is on its way, or if the lane broke, which ends it.
func (ls *lanes) untake(x *alone, number uint64, sent bool) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch x.number = number; {
	case sent:
		return false
	case x.answered: // by loseAlone
		x.edge = false
		ls.endAlone(x)
		return false
	}
	x.lane.sessions--
	if x.aged {
		ls.alone.aged -= x.size
	}
	delete(ls.alone.batches, x.id)
	return true
}

// hearAlone takes an answer to a batch that went alone, if it is one.
func (ls *lanes) hearAlone(id wire.SessionID, f wire.Frame) {
	ls.mu.Lock()
	x := ls.alone.batches[id]
	ls.mu.Unlock()
	if x == nil {
		return
	}
	c, ok := f.(*wire.Confirm)
	ls.answerAlone(x, ok && c.Watermark == x.last.Offset && c.Chain == x.last.Chain)
}

// answerAlone notes that the destination answered, or never will; has: it has the batch.
func (ls *lanes) answerAlone(x *alone, has bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if x.answered {
		return
	}
	x.answered, x.has = true, has
	x.lane.sessions--
	if x.aged {
		ls.alone.aged -= x.size
	}
	ls.endAlone(x)
}

// edgeStarted notes that the start of a batch's edge is fixed, or cannot be. The region may
// tell so when nobody waits for it any more.
func (ls *lanes) edgeStarted(x *alone, ok bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if x.over {
		return
	}
	x.edge, x.started = false, ok
	ls.endAlone(x)
}

// endAlone hands a batch of which nothing is under way any more to settleAlone. The caller
// holds mu.
func (ls *lanes) endAlone(x *alone) {
	if !x.answered || x.edge || x.over {
		return
	}
	x.over = true
	delete(ls.alone.batches, x.id)
	ls.alone.ended = append(ls.alone.ended, x)
	select {
	case ls.alone.wake <- struct{}{}:
	default:
	}
}

// settleAlone takes what became of batches that went alone to their flows.
func (c *conn) settleAlone(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.lanes.alone.wake:
			c.settled()
		}
	}
}

// settled does so once.
func (c *conn) settled() {
	c.lanes.mu.Lock()
	ended := c.lanes.alone.ended
	c.lanes.alone.ended = nil
	c.lanes.mu.Unlock()
	l := c.link
	l.mu.Lock()
	for _, x := range ended {
		l.settleOne(c, x)
	}
	l.mu.Unlock()
	for _, x := range ended {
		l.send.release(x.size)
		c.opening.release(1)
	}
}

// settleOne has a flow sleep whose batch the destination has, or else asked by a session.
// The caller holds mu.
func (l *link) settleOne(c *conn, x *alone) {
	f := x.flow
	again := f.again
	f.running, f.again = false, false
	if x.has && l.conn == c { // else the peer may be another one by now
		c.confirms.Add(1)
		l.counters.confirmedBytes.Add(uint64(x.size))
		st := session.Status{State: session.Idle, Confirmed: x.last.Offset, Sent: x.last.Offset, Heard: true}
		if f.paused {
			st.State = session.Closed // it stays what it is
		}
		f.note(st)
	}
	switch {
	case f.paused:
		f.become(SessionPaused)
	case !x.has && c.ended():
		f.become(SessionDisconnected)
	}
	if !x.has || !x.started {
		again, f.shuns = true, c
	}
	if again && l.flows[f.source.key()] == f && !f.standby.on && !f.paused {
		l.queue(f)
	}
}

// loseAlone has the batches on a lane that broke end without an answer; nil: all that are
// left of a connection, whatever they wait for.
func (ls *lanes) loseAlone(l *lane) {
	ls.mu.Lock()
	var all []*alone
	for _, x := range ls.alone.batches {
		if l == nil || x.lane == l {
			all = append(all, x)
		}
	}
	ls.mu.Unlock()
	for _, x := range all {
		ls.answerAlone(x, false)
		if l == nil {
			ls.edgeStarted(x, false)
		}
	}
}

// late ends batches that wait for their answer for longer than a time, and tells how many
// they were. Their lane is given up only if they are still on it and it takes nothing: else
// the answer for one partition does not come, and its flow asks.
func (ls *lanes) late(now time.Time, after time.Duration) int {
	ls.mu.Lock()
	var late []*alone
	stuck := map[*lane]bool{}
	for _, x := range ls.alone.batches {
		if x.answered || now.Sub(x.sentAt) <= after {
			continue
		}
		if x.number > x.lane.carried.gone.Load() {
			if now.Sub(time.Unix(0, x.lane.moved.Load())) <= after {
				continue // others go before it
			}
			stuck[x.lane] = true
		}
		late = append(late, x)
	}
	ls.mu.Unlock()
	for l := range stuck {
		ls.giveUp(l)
	}
	for _, x := range late {
		ls.answerAlone(x, false)
	}
	return len(late)
}

// aloneShare is which part of a link's receive budget batches that came alone may hold
// until the region answers for them. No window bounds them: nobody asked before they were sent.
const aloneShare = 8

// weigh counts a batch that came alone, and refuses it if too much of these is unanswered: its
// flow gets a session then, which asks first. perform takes it from the count. The caller
// holds mu.
func (r *receiver) weigh(d *wire.Data) {
	l := r.lane.in.conn.link
	if l.cameAlone.Add(int64(d.Size())) > l.receive.limit.Load()/aloneShare {
		r.machine.Fail(wire.CodeUnavailable, "too many batches that came without a session are not answered yet")
	}
}

// openAlone serves a session of one batch, which comes next on the lane. The region is not
// asked first: it judges the batch by what it has.
func (l *inLane) openAlone(r *receiver) {
	m := l.in.conn.m
	take, leave, why := m.origins.offer(r, m.markHere(r.ref, r.open.Region, r.open.Life), time.Now())
	if leave != nil {
		leave.leave("region " + string(l.in.conn.link.name) + " brings this origin")
	}
	if take {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machine.Fail(wire.CodeElsewhere, why)
	r.perform()
}
