package replicator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

var (
	errWatchdog = errors.New("replicator: no progress, session is built anew")
	errLane     = errors.New("replicator: the stream broke, session is built anew")
	errNoLane   = rhumb.Errorf(rhumb.KindUnavailable, "replicator: no stream could be opened yet")
)

const (
	// groupBytes is how much of a session goes out in one turn, so that others
	// that wait get theirs soon.
	groupBytes = 256 << 10
	// quietFor is how long nothing has to come before a skip brings the watermark
	// over the offsets of others at the end of the log; in a log that others always
	// fill, it does so every tailEvery.
	quietFor  = time.Second
	tailEvery = 5 * time.Second
)

// sending is one session of a flow: it does what the machine asks for.
type sending struct {
	// Fixed by newSending and pin.
	flow   *flow
	conn   *conn
	id     wire.SessionID
	kind   class // of its lane
	lane   *lane
	inbox  inbox
	ledger ledger
	waiter *waiter
	cancel context.CancelCauseFunc
	opened func() // called when it knows where to start, or failed to

	// For the watchdog.
	told    atomic.Int64  // progress of the log of which other links know
	moved   atomic.Int64  // Unix ns of the last progress
	waiting atomic.Bool   // for a budget or a turn
	writing atomic.Bool   // on the lane
	given   atomic.Uint64 // number of what the lane's carrier got last
	busy    atomic.Bool   // something is not confirmed, or the start not found

	// Owned by run.
	asks    int // bytes to take from the budget for the next read; see nextRead
	limiter *limiter
	slot    func() // gives back the right to have read, nil if there is none
	actions []session.Action
	frames  []wire.Frame
	seen    rhumb.Offset // progress of the log at the last look
	head    rhumb.Offset // the source's at the last look
	grown   time.Time    // when it last grew
	tailed  time.Time    // when OnQuiet was last said, or the session began
	quieted bool         // OnQuiet was said since it last grew
	said    bool         // it was said at all
	used    bool         // a batch was sent
	barren  bool         // see flow.barren, at the last look
	turned  bool         // it is its turn: see outOfTurn
}

func newSending(f *flow, c *conn, opened func()) *sending {
	s := &sending{flow: f, conn: c, opened: opened, inbox: newInbox(), waiter: region.NewWaiter(), asks: leastRead}
	s.limiter = f.limiter()
	s.turned, f.turns.next = f.turns.next == c, nil
	s.progress()
	s.busy.Store(true)
	return s
}

func (s *sending) progress() { s.moved.Store(time.Now().UnixNano()) }

// run opens the session and serves it until it is idle for long (nil, and the
// machine is closed), it ended (nil), or it cannot go on (an error).
func (s *sending) run(ctx context.Context) error {
	defer s.opened()
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	m, ref := s.flow.link.m, s.flow.source.ref
	s.seen, s.tailed = m.watcher.hold(ref), time.Now()
	s.told.Store(int64(s.seen))
	defer func() { m.watcher.unhold(ref, s.seen) }()
	m.cfg.Region.AddWaiter(ref, s.waiter)
	defer m.cfg.Region.RemoveWaiter(ref, s.waiter)
	src, err := s.look(ctx)
	if err != nil {
		return err
	}
	s.place(src.Head)
	if err := s.conn.lanes.pin(ctx, s); err != nil {
		return err
	}
	defer s.conn.lanes.unpin(s)
	s.flow.use(s)
	defer s.flow.use(nil)
	defer s.ledger.close()
	s.flow.machine.SkipTo(s.flow.ordered())
	s.flow.machine.Open(s.id, src)
	err = s.serve(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	s.leave(err)
	return err
}

// leave closes the session on the wire if it is still open there. How a session
// ended that is not open any more stays to be seen in the machine's status.
func (s *sending) leave(err error) {
	if !s.flow.machine.Status().State.Open() {
		return
	}
	code := wire.CodeShutdown
	if errors.Is(err, errWatchdog) {
		code = wire.CodeReplaced
	}
	if s.conn.ended() || s.lane.broken.Load() {
		s.flow.machine.Disconnected()
		s.flow.machine.Actions()
		return
	}
	s.flow.machine.Close(code, "")
	for _, a := range s.flow.machine.Actions() {
		if a.Do == session.DoSend {
			_, _ = s.lane.write(a.Frame) // a broken lane tells the peer as well
		}
	}
}

// look takes a snapshot of the source.
func (s *sending) look(ctx context.Context) (session.Source, error) {
	log := s.flow.log()
	src, err := log.snapshot(ctx)
	if err != nil {
		return src, err
	}
	if out := log.progress(); out > s.seen {
		s.seen = out
		s.told.Store(int64(out))
		s.flow.link.m.noticed(s.flow, src.OwnLast)
	}
	s.barren = s.flow.barren(src.OwnLast)
	if src.Head > s.head || s.grown.IsZero() {
		s.head, s.grown, s.quieted = src.Head, time.Now(), false
	}
	return src, nil
}

// serve runs the machine on answers, on growth of the log, and on time.
func (s *sending) serve(ctx context.Context) error {
	// Set anew only to be earlier: with a record a second it would be for each one, and
	// who is woken too early looks how long there is to go.
	timer, due := time.NewTimer(time.Hour), time.Now().Add(time.Hour)
	defer timer.Stop()
	machine := s.flow.machine
	for {
		if !s.busy.Load() {
			s.progress() // it was idle until now
			s.busy.Store(true)
		}
		if err := s.perform(ctx); err != nil {
			return err
		}
		st := machine.Status()
		s.flow.note(st)
		s.busy.Store(st.State != session.Idle)
		if !st.State.Open() {
			return nil
		}
		if st.State == session.Idle {
			if at := time.Now().Add(s.untilQuiet()); at.Before(due) {
				timer.Reset(time.Until(at))
				due = at
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.inbox.ready:
			s.hear()
		case <-s.waiter.C:
			src, err := s.look(ctx)
			if err != nil {
				return err
			}
			machine.OnSource(src)
		case <-timer.C:
			due = time.Now().Add(time.Hour)
			timer.Reset(time.Hour)
			if st.State == session.Idle {
				s.quiet()
			}
		}
	}
}

// hear takes answers to the machine, and reports whether there were any.
func (s *sending) hear() bool {
	machine := s.flow.machine
	frames := s.inbox.take()
	for _, f := range frames {
		before := machine.Status()
		machine.OnFrame(f)
		after := machine.Status()
		if after.Round != before.Round {
			s.ledger.rewind()
			s.flow.link.counters.rewinds.Add(1)
		}
		if after.Confirmed > before.Confirmed || after.State != before.State {
			s.progress()
			s.conn.confirms.Add(1)
		}
		if after.State != session.Opening {
			s.opened()
		}
	}
	return len(frames) > 0
}

// untilQuiet is the time until quiet has something to do. A session that found
// nothing to send does not stay: after a connection is made, every partition
// asks where it stands, and most have nothing new.
func (s *sending) untilQuiet() time.Duration {
	if s.barren && s.said {
		return 0
	}
	idle := quietFor
	if s.quieted && s.used {
		idle = max(quietFor, s.conn.m.cfg.Limits.Idle)
	}
	idle -= time.Since(s.grown)
	if !s.quieted {
		idle = min(idle, tailEvery-time.Since(s.tailed))
	}
	return max(0, idle)
}

// quiet is called when nothing came for a while: first it brings the watermark to
// the end of the log, then it closes the session.
func (s *sending) quiet() {
	switch {
	case s.untilQuiet() > 0:
	case !s.quieted && !(s.barren && s.said):
		s.quieted, s.said, s.tailed = true, true, time.Now()
		s.flow.machine.OnQuiet()
	case s.flow.machine.Status().State == session.Idle:
		s.flow.machine.Close(wire.CodeIdle, "")
	}
}

// perform does what the machine asks for until it asks for nothing more.
func (s *sending) perform(ctx context.Context) error {
	defer s.ledger.keep()
	defer s.leaveLimiter()
	for {
		if err := s.glance(ctx); err != nil {
			return err
		}
		s.actions = append(s.actions[:0], s.flow.machine.Actions()...)
		if len(s.actions) == 0 {
			return nil
		}
		asked := s.flow.machine.Status()
		for i := 0; i < len(s.actions) && !s.interrupted(&asked); {
			var err error
			n := 1
			switch a := &s.actions[i]; a.Do {
			case session.DoSend:
				n, err = s.write(ctx, s.actions[i:])
			case session.DoRead:
				err = s.read(ctx, a.Read)
			case session.DoSearch:
				var borders []rhumb.Offset
				if borders, err = s.flow.log().borders(a.From, a.To); err == nil {
					s.flow.machine.OnBorders(a.Gen, borders)
				}
			case session.DoCheck:
				var answers []session.ChainAnswer
				if answers, err = s.flow.log().chains(a.Points); err == nil {
					s.flow.machine.OnChains(a.Gen, answers)
				}
			}
			if err != nil {
				return err
			}
			i += n
		}
		clear(s.actions) // of batches
	}
}

// interrupted takes answers that came meanwhile to the machine, and reports
// whether what it asked for when its status was another is void: the session is over, or
// rewound.
func (s *sending) interrupted(asked *session.Status) bool {
	heard := s.hear()
	st := s.flow.machine.Status()
	if heard {
		s.flow.note(st)
	}
	return asked.State.Open() && !st.State.Open() || st.Round != asked.Round
}

// write sends the frames at the head of actions, as many as make a group, when
// it is this session's turn. It tells how many they were.
func (s *sending) write(ctx context.Context, actions []session.Action) (n int, err error) {
	s.frames = s.frames[:0]
	size, batches, records := 0, 0, uint64(0)
	for n < len(actions) && actions[n].Do == session.DoSend && size < groupBytes {
		if d, ok := actions[n].Frame.(*wire.Data); ok {
			d.Shrink = &s.flow.shrink
			size += d.Size()
			batches++
			records += uint64(d.Envelope.Count)
		}
		s.frames = append(s.frames, actions[n].Frame)
		n++
	}
	if batches > 0 {
		done, err := s.turn(ctx, size)
		if err != nil {
			return 0, err
		}
		defer done()
	}
	s.used = s.used || batches > 0
	s.account()
	s.writing.Store(true)
	number, err := s.lane.write(s.frames...)
	s.writing.Store(false)
	if number > 0 {
		s.given.Store(number)
	}
	clear(s.frames)
	if err != nil {
		return 0, err
	}
	s.flow.link.counters.sentBytes.Add(uint64(size))
	s.flow.link.counters.sentBatches.Add(uint64(batches))
	s.flow.link.counters.sentRecords.Add(records)
	return n, nil
}

// account enters the frames in the ledger, before a confirmation can come.
func (s *sending) account() {
	if !s.ledger.holds() {
		s.progress() // the watchdog's time runs from here
	}
	for _, f := range s.frames {
		if d, ok := f.(*wire.Data); ok {
			s.ledger.send(d)
		}
	}
}

// turn waits until the link is this session's; done says that it is another's. Little
// of new data needs no turn: it waits for nobody (see carry.go), unless the link has a rate.
func (s *sending) turn(ctx context.Context, size int) (done func(), err error) {
	l := s.flow.link
	gate := l.turns[s.kind]
	free := s.kind == fresh && size <= carriedGroup && l.m.cfg.Limits.Rate == 0
	if free && s.limiter.limit.Load() == 0 {
		return func() {}, nil
	}
	err = s.wait(func() error {
		if err := s.flow.atLimit(func() (bool, error) { return s.limiter.wait(ctx, int64(size)) }); err != nil || free {
			return err
		}
		if err := gate.acquireRanked(ctx, 1, s.flow.class, s.flow.rank(s.head)); err != nil {
			return err
		}
		if _, err := l.pace.wait(ctx, int64(size)); err != nil {
			gate.release(1)
			return err
		}
		return nil
	})
	if free {
		return func() {}, err
	}
	return func() { gate.release(1) }, err
}

// wait marks a time in which the session cannot be expected to send.
func (s *sending) wait(blocked func() error) error {
	s.waiting.Store(true)
	err := blocked()
	if !s.ledger.holds() {
		s.progress() // none of it counts for the watchdog
	}
	s.waiting.Store(false)
	return err
}

// stuck reports whether the session has something to do and made no progress
// for a while. Waiting for a budget or a turn excuses one that has nothing under
// way; one that has would hold, while it waits, what others wait for. lane tells
// that it is writing: the stream takes nothing.
func (s *sending) stuck(now time.Time, after time.Duration) (stuck, lane bool) {
	last := s.moved.Load()
	lane = s.writing.Load() || s.given.Load() > s.lane.carried.gone.Load()
	if lane {
		last = max(last, s.lane.moved.Load())
	}
	excused := s.waiting.Load() && !s.ledger.holds()
	return s.busy.Load() && !excused && now.Sub(time.Unix(0, last)) > after, lane
}
