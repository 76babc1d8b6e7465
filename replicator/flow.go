package replicator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// flow is one partition's way to the link's peer, for as long as partition and
// edge exist. Sessions come and go beneath it: one goroutine works on it while
// there is something to send, to ask or to retry, and none while it is idle.
type flow struct {
	// Fixed at construction.
	link   *link
	source *source
	latest bool          // where the edge starts if its start is not fixed yet
	poke   chan struct{} // capacity 1: something outside changed, try again now

	// Owned by the goroutine that works on it.
	machine *session.Sender // nil while nobody works on it and nothing of it counts
	own     sourceLog       // read if the life is this region's own
	relay   *relayLog       // else
	class   class           // of what was read last
	owed    int64           // about what the destination lacked then, in bytes
	density float64         // bytes that an offset of what was read last takes; 0: nothing was
	senior  seniority       // among other debts
	placed  bool            // class is known to be that of what comes next
	shrink  wire.Shrink
	turns   turns

	// Guarded by link.mu.
	running, again bool
	begun          *conn // over which it was worked on last
	wanted         *conn // over which a later life of its origin had it asked first
	trails         *conn // in whose trailing it is
	shuns          *conn // over which a batch of it was not taken that went alone
	standby        standby
	paused         bool
	over           error                   // why it ended, nil while it goes on
	stop           context.CancelCauseFunc // of who works on it, nil if nobody does

	limited      atomic.Int64 // when it last had to wait for its edge's rate limit, Unix ns
	atLimitSince atomic.Int64 // since when it waits for that, Unix ns; 0: it does not

	mu     sync.Mutex
	status flowStatus
	parted parting
	ledger *ledger // of the session, nil if there is none
	active *sending
	order  *skipOrder // what an operator wants skipped, nil if nothing
}

// flowStatus is what Status says of a flow.
type flowStatus struct {
	state       SessionState
	since       time.Time
	known       bool
	doubted     bool // the peer may have made the partition anew since
	lacks       bool // it said that it has no such partition, and has told no watermark
	confirmed   rhumb.Offset
	confirmedAt time.Time
	sent        rhumb.Offset
	rebuilds    uint64
	era         int    // how often what was known of the peer was forgotten
	served      bool   // a session was taken since the peer last refused one for another path
	via         string // what the peer said of that path
	err         error
	errAt       time.Time

	apart *Divergence // where the logs part, nil while they are not known to

	refused *Refusal // nil unless the destination will not have what comes next

	// Of a past life, or one that is the destination's own: the connection over which
	// it was settled, and up to where the destination's copy agrees with this log.
	settledOn *conn
	agreed    dedup.ChainPoint

	leftOut *leftOut // nil unless the topic was deleted at the destination

	oldest oldest
	least  least
}

func newFlow(l *link, s *source, e configstore.Edge) *flow {
	f := &flow{link: l, source: s, latest: e.Start == configstore.StartLatest, poke: make(chan struct{}, 1)}
	f.forget()
	f.status = flowStatus{state: SessionDisconnected, since: time.Now(), confirmed: rhumb.NoOffset, sent: rhumb.NoOffset}
	if ends, ok := l.m.cfg.Region.Ends(s.ref); ok {
		f.status.least.start(ends.OwnLast)
	}
	return f
}

// forget has the flow begin anew, with what knows nothing of the destination.
func (f *flow) forget() {
	f.machine, f.own = nil, sourceLog{flow: f}
	if f.forwards() {
		f.relay = newRelayLog(f)
	}
}

// begin makes a sender if there is none.
func (f *flow) begin() {
	if f.machine != nil {
		return
	}
	cfg, s := &f.link.m.cfg, f.source
	f.machine = session.NewSender(session.Config{
		Partition: rhumb.Partition{Topic: s.topic, Index: s.index},
		Region:    s.origin, Life: s.life, Deletions: s.deletions,
		Producer: producerName(cfg.Self.Name, f.link.name),
		Window:   int(cfg.Limits.Window), ReadBytes: cfg.Limits.Read,
	})
}

// work gives what ends when the flow does, is paused, or cancel is called.
func (f *flow) work(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, stop := context.WithCancelCause(ctx)
	mu := &f.link.mu
	mu.Lock()
	defer mu.Unlock()
	switch f.stop = stop; {
	case f.over != nil:
		stop(f.over)
	case f.paused:
		stop(errPaused)
	}
	return ctx, func() {
		mu.Lock()
		f.stop = nil
		mu.Unlock()
		stop(nil)
	}
}

// end ends the flow. The caller holds link.mu.
func (f *flow) end(cause error) {
	if f.over == nil {
		f.over = cause
	}
	f.interrupt(cause)
}

// interrupt ends the work on the flow, if somebody works on it. The caller holds link.mu.
func (f *flow) interrupt(cause error) {
	if f.stop != nil {
		f.stop(cause)
	}
}

// forwards reports whether the flow carries a copy of another log's life.
func (f *flow) forwards() bool { return f.source.copied }

// log gives what the flow reads.
func (f *flow) log() originLog {
	if f.forwards() {
		return f.relay
	}
	return &f.own
}

// Pauses between sessions that do not work.
const (
	retryPause     = 200 * time.Millisecond
	retryPauseMost = 5 * time.Second
	// refusedRetryMost is for what only a change of policy or topic can mend, whose
	// arrival on the other side is not seen here, and for what the watchdog ended.
	refusedRetryMost = 30 * time.Second
)

// run works on the flow over a connection until it is idle, the connection
// ends, or the flow does. opened is called once when the first session knows
// where to start, or failed to.
func (f *flow) run(ctx context.Context, c *conn, opened func()) {
	ctx, cancel := f.work(ctx)
	defer cancel()
	pause := backoff{least: retryPause, most: retryPauseMost}
	opened, err := f.awaitEarlier(ctx, c, opened)
	if err != nil {
		f.leave(ctx)
		return
	}
	defer func() { giveUp(opened) }() // it may have been got just when the work ended
	f.begin()
	for ctx.Err() == nil {
		before := f.machine.Status().Confirmed
		err = newSending(f, c, opened).run(ctx)
		after := f.machine.Status()
		if after.Confirmed > before || errors.Is(err, errLane) {
			pause.reset()
		}
		if err == nil && after.State == session.Closed {
			f.machine = nil // tens of thousands of flows sleep
			f.become(SessionIdle)
			return // the watcher wakes it
		}
		if err == nil && after.State == session.Settled {
			f.settle(c, after.Common)
			return
		}
		if err == nil && after.State == session.Standby {
			f.stand(after)
			return
		}
		if err == nil && after.State == session.Refused && after.Code == wire.CodeOwn {
			f.settle(c, dedup.ChainPoint{Offset: after.Confirmed})
			return
		}
		if err == nil && after.State == session.Searching {
			if opened, err = f.openAgain(ctx, c); err != nil {
				break
			}
			continue
		}
		if errors.Is(err, errMoves) || errors.Is(err, errOlder) {
			if opened, err = f.goOn(ctx, c, err); err != nil {
				break
			}
			continue
		}
		f.failed(ctx, c, after, err)
		if ctx.Err() != nil {
			break
		}
		pause.most = retryPauseMost
		if after.State == session.Refused || after.State == session.Diverged || errors.Is(err, errWatchdog) {
			pause.most = refusedRetryMost
		}
		f.rest(ctx, pause.next())
		if opened, err = f.openAgain(ctx, c); err != nil {
			break
		}
	}
	f.leave(ctx)
}

// awaitEarlier waits until what earlier lives of the log name is at the
// destination, so that the order of the log is kept and it is known where this
// life begins there. It gives the right to open a session back meanwhile.
func (f *flow) awaitEarlier(ctx context.Context, c *conn, opened func()) (func(), error) {
	if len(f.source.earlier) == 0 {
		return opened, nil
	}
	f.forget() // the destination may be another than it was
	for {
		at, ok := f.link.agreed(f, c)
		if ok {
			f.own.agreed = at
			return opened, nil
		}
		opened()
		f.waits(c)
		f.rest(ctx, retryPauseMost)
		if ctx.Err() != nil {
			return opened, context.Cause(ctx)
		}
		var err error
		if opened, err = f.openAgain(ctx, c); err != nil {
			return func() {}, err
		}
	}
}

// goOn waits for what has to come before the next session of a flow whose last one ended
// for that, and for the right to open it.
func (f *flow) goOn(ctx context.Context, c *conn, why error) (opened func(), err error) {
	if errors.Is(why, errOlder) {
		return f.awaitOlder(ctx, c)
	}
	return f.openAgain(ctx, c)
}

// stalls notes why the flow sends nothing.
func (f *flow) stalls(err error) {
	f.mu.Lock()
	f.status.err, f.status.errAt = err, time.Now()
	f.mu.Unlock()
	f.become(SessionStalled)
}

var errEarlier = rhumb.Errorf(rhumb.KindUnavailable, "what the log's earlier life names has to be there first")

// waits notes that an earlier life of the log is not at the destination yet.
func (f *flow) waits(c *conn) {
	left := f.link.earlierLeftOut(f, c)
	f.mu.Lock()
	f.status.err, f.status.errAt = errEarlier, time.Now()
	if left {
		f.status.err = errLeftOut
		f.status.left(c)
	}
	f.mu.Unlock()
	if left {
		f.become(SessionLeftOut)
		return
	}
	f.become(SessionStalled)
}

// settle notes that nothing more of a past life goes to the destination, which
// agrees with this log up to a point.
func (f *flow) settle(c *conn, at dedup.ChainPoint) {
	f.mu.Lock()
	f.status.settledOn, f.status.agreed, f.status.err, f.status.apart, f.status.leftOut = c, at, nil, nil, nil
	f.mu.Unlock()
	f.become(SessionClosed)
	f.link.settled(f)
}

// openAgain waits for the right to open another session.
func (f *flow) openAgain(ctx context.Context, c *conn) (opened func(), err error) {
	waits := backlog
	if f.placed {
		waits = f.class
	}
	if err := c.opening.acquire(ctx, 1, waits); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { c.opening.release(1) }), nil
}

// rest waits out a pause, or until something outside changed.
func (f *flow) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-f.poke:
	}
}

// nudge has a flow that rests between two tries go on at once.
func (f *flow) nudge() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// failed notes why a session over connection c ended.
func (f *flow) failed(ctx context.Context, c *conn, st session.Status, err error) {
	state, answered := SessionStalled, err == nil
	switch {
	case ctx.Err() != nil || errors.Is(err, errSteered):
		return
	case err != nil:
	case st.State == session.Diverged:
		state, err = SessionDiverged, rhumb.Errorf(rhumb.KindDiverged, "%s", st.Text)
	case st.State == session.Held:
		state, err = SessionHeld, rhumb.Errorf(rhumb.KindNoSpace, "the destination has no room: %s", st.Text)
	case leaveOut(st):
		state, err = SessionLeftOut, rhumb.Errorf(rhumb.KindUnavailable, "%s", st.Text)
	case st.State == session.Refused:
		state, err = SessionRefused, rhumb.Errorf(rhumb.KindUnavailable, "refused at offset %d, %s: %s", st.Confirmed+1, st.Code, st.Text)
	default:
		err = rhumb.Errorf(rhumb.KindUnavailable, "%s: %s", st.Code, st.Text)
	}
	f.mu.Lock()
	news := f.status.err == nil || f.status.err.Error() != err.Error()
	f.status.err, f.status.errAt = err, time.Now()
	switch {
	case state == SessionLeftOut:
		f.status.left(c)
	case answered && (st.Code == wire.CodeNotFound || !st.Code.Retriable()):
		f.status.leftOut = nil // else it says nothing of the topic
	}
	if answered {
		f.status.lacks = st.Code == wire.CodeNotFound && !f.status.known
	}
	if state == SessionRefused && (f.status.refused == nil || f.status.refused.At != st.Confirmed+1 || f.status.refused.Code != st.Code) {
		f.status.refused = &Refusal{At: st.Confirmed + 1, Code: st.Code, Text: st.Text, Since: time.Now()}
	}
	if state == SessionDiverged {
		news = f.part(st)
	}
	f.mu.Unlock()
	f.become(state)
	if !news || errors.Is(err, errWatchdog) { // the watchdog speaks for all of a link at once
		return
	}
	log := f.link.m.log.With("peer_region", f.link.name, "topic", f.source.topic.String(), "partition", f.source.index)
	switch {
	case state == SessionLeftOut:
		log.Info("the destination leaves the partition out", "err", err)
	case state == SessionDiverged:
		log.Error("logs have diverged, nothing flows", "life", f.source.life.String(), "common", int64(st.Common.Offset), "exact", st.Exact, "err", err)
	case errors.Is(err, errLane):
		log.Debug("session is interrupted", "err", err) // the link says what broke, once
	case st.Code == wire.CodeNotFound:
		log.Debug("partition is not there yet", "err", err) // normal for a moment after a topic is created
	default:
		log.Warn("session is interrupted", "err", err)
	}
}

func (f *flow) become(s SessionState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status.state != s {
		f.status.state, f.status.since = s, time.Now()
	}
}

// unlearn forgets what a destination told that is there no more.
func (f *flow) unlearn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := flowStatus{state: f.status.state, since: f.status.since, confirmed: rhumb.NoOffset, sent: rhumb.NoOffset,
		rebuilds: f.status.rebuilds, era: f.status.era + 1}
	if now.state != SessionPaused {
		now.state, now.since = SessionDisconnected, time.Now()
	}
	f.status = now
}

// note takes over what the machine knows.
func (f *flow) note(st session.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.sent = st.Sent
	state := f.status.state
	switch st.State {
	case session.Idle:
		state = SessionIdle
		f.status.err, f.status.served = nil, true
	case session.Flowing:
		state = SessionFlowing
		f.status.served = true
	case session.Opening:
		if state == SessionDisconnected || state == SessionPaused {
			state = SessionFlowing
		}
	}
	if state != f.status.state {
		f.status.state, f.status.since = state, time.Now()
	}
	if st.State == session.Idle && st.Heard {
		f.parted = parting{}
	}
	if st.State == session.Flowing || st.State == session.Idle {
		f.status.apart, f.status.leftOut = nil, nil
		if f.forwards() {
			f.status.settledOn = nil // it is the peer's own no more: that was rebuilt
		}
	}
	f.status.doubted = f.status.doubted && !st.Heard && st.State != session.Standby
	if (st.Heard || st.State == session.Standby) && (!f.status.known || st.Confirmed != f.status.confirmed) {
		f.status.known, f.status.lacks, f.status.confirmed, f.status.confirmedAt = true, false, st.Confirmed, time.Now()
	}
	if r := f.status.refused; r != nil && (st.State == session.Idle || st.State == session.Flowing && st.Confirmed >= r.At) {
		f.status.refused = nil
	}
	if o := f.order; o != nil && f.status.known && f.status.confirmed >= o.to.Offset {
		f.order = nil
		close(o.done)
	}
}

// use makes a session the one that Status and operators look at, nil: there is none.
func (f *flow) use(s *sending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active, f.ledger = s, nil
	if s != nil {
		f.ledger = &s.ledger
	}
}

// giveUp gives back the right to open a session, if there is one.
func giveUp(opened func()) {
	if opened != nil {
		opened()
	}
}
