package replicator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
)

// New data and backlog have lanes of their own: a batch cannot be cut on a lane, so who
// shares one with backlog waits for whole batches of it, minutes on a slow line. A
// session that falls behind, or catches up, goes on over a lane of its new class.
//
// What is old is a debt, not backlog, while the partition owes little: after an outage a topic
// of few records would else wait for its turn among large backlogs, and what is published
// meanwhile would wait with it. Debts have lanes, turns and a part of the budget of their own,
// as many turns as backlog has: so however many partitions owe a little, backlog keeps half of
// what new data leaves of a line, and the other way round. Among debts small ones go first, and none waits for
// smaller ones for ever: see seniority.

// errMoves ends a session that goes on over a lane of the other class.
var errMoves = errors.New("replicator: the session goes on over a lane of another class")

const (
	// freshFor is the age up to which records count as new, not as backlog.
	freshFor = 5 * time.Second
	// freshAgain is the age from which on those of a session that was behind do: less,
	// so that one at the border does not change lanes all the time.
	freshAgain = freshFor / 2

	// debtMost is how many bytes a partition owes at most whose old records are a debt. One whose
	// debt grows to debtOnce is behind; one that was becomes a debt again when it owes
	// no more than debtAgain, and others are behind as well: changing lanes costs two round trips.
	debtMost  = 4 << 20
	debtOnce  = 2 * debtMost
	debtAgain = debtMost / 4
	// debtBatch is the largest batch that goes as a debt: the others wait until it is through.
	debtBatch = groupBytes
	// debtRate says how long a debt is overtaken by smaller ones that come later: bytes for
	// each second, at most debtWait.
	debtRate = 16 << 10
	debtWait = 4 * time.Minute

	// turnRate is how much of a line's speed there is for each session that writes
	// backlog at once, and for each that writes a debt, in bytes per second: on a slow line one does, since all that do
	// share the line with new data, packet by packet.
	turnRate = 512 << 10

	// politePiece is how much backlog goes out at once before it looks whether new data
	// waits, where a large piece took more than quickPiece.
	politePiece = 16 << 10
	quickPiece  = 50 * time.Millisecond
	// yieldMost bounds one wait of backlog for new data.
	yieldMost = 2 * time.Second
)

// classOf gives the class of records of an age, of a partition that owes so many bytes, for a
// session that had a class. crowded: others are behind as well.
func classOf(age time.Duration, owed int64, had class, crowded bool) class {
	most := int64(debtMost)
	switch {
	case age <= freshAgain, age <= freshFor && had == fresh:
		return fresh
	case had == debt:
		most = debtOnce
	case had == backlog && crowded:
		most = debtAgain
	case had == backlog:
		return backlog
	}
	if owed <= most {
		return debt
	}
	return backlog
}

// classify gives the class of what the flow reads next over a connection, by the age of the
// first of it.
func (f *flow) classify(c *conn, age time.Duration) class {
	l := f.link
	return c.laneFor(classOf(age, f.owed, f.class, l.turns[backlog].crowded() || l.behind.queued.Load() > 0))
}

// laneFor gives the class of the lanes on which one goes over the connection.
func (c *conn) laneFor(of class) class {
	if of == debt && c.features&featureDebts == 0 {
		return backlog // the peer takes no lanes for them
	}
	return of
}

// seniority is the place of a debt among others: as if each had come the later the larger it
// is, by debtWait at most. It has that at all gates and for all its turns, or it would be
// overtaken anew at each.
type seniority struct {
	rank int64        // 0: none was given
	upTo rhumb.Offset // the log's head when it was given
}

// rank gives where the flow stands among debts, in a log that ends before head.
func (f *flow) rank(head rhumb.Offset) int64 {
	switch {
	case f.class != debt:
		f.senior = seniority{}
	case f.senior.rank == 0:
		late := min(float64(f.owed)/debtRate*float64(time.Second), float64(debtWait))
		f.senior = seniority{time.Now().UnixNano() + int64(late), head}
	}
	return f.senior.rank
}

// rankAfter gives it for what comes after an offset. What came since the rank was given is
// another debt: else one that is never paid would go before all others for ever.
func (f *flow) rankAfter(after, head rhumb.Offset) int64 {
	if after+1 >= f.senior.upTo {
		f.senior = seniority{}
	}
	return f.rank(head)
}

// weigh notes what the destination lacks, as far as a read tells.
func (f *flow) weigh(read *session.ReadResult, after, head rhumb.Offset) {
	n := len(read.Messages)
	if n == 0 {
		return
	}
	got, last := int64(bytesOf(read)), read.Messages[n-1].Envelope.Last
	// What others wrote lies in between, so the log's mean says little of what this life has.
	f.density = float64(got) / float64(last-after)
	f.owed = got + int64(f.machine.Status().InFlight)
	if !read.Complete {
		f.owed += int64(f.density * float64(max(0, head-1-last)))
	}
	for i := range read.Messages {
		if len(read.Messages[i].Batch) > debtBatch {
			f.owed = max(f.owed, debtOnce+1)
		}
	}
}

// backlogTurns is how many sessions may write backlog at once, where so many bytes per
// second go out.
func backlogTurns(goodput float64, lanes int) int64 {
	return max(1, min(int64(goodput/turnRate), int64(lanes)))
}

// regulate has as many sessions write backlog, and as many debts, at once as the line is fast.
func (l *link) regulate(goodput float64) {
	if lim := &l.m.cfg.Limits; lim.Rate == 0 {
		n := backlogTurns(goodput, lim.Lanes)
		l.turns[debt].resize(n)
		l.turns[backlog].resize(n)
	}
}

// foresee guesses the class of what a session will send, of a flow whose log ends before
// head, so that it begins on the right lane.
func (f *flow) foresee(c *conn, head rhumb.Offset) {
	f.mu.Lock()
	known, after := f.status.known, f.status.confirmed
	f.mu.Unlock()
	f.class = fresh
	if !known || after+1 >= head {
		return
	}
	if at := f.oldestAfter(&f.status.oldest, after, head); at > 0 {
		each := f.density
		if each == 0 {
			each = f.log().bytesPerOffset()
		}
		f.owed = int64(each * float64(head-1-after))
		f.class = f.classify(c, time.Since(time.UnixMilli(at)))
	}
}

// place decides of which class the session's lane is. A flow whose session moves knows it.
func (s *sending) place(head rhumb.Offset) {
	if !s.flow.placed {
		s.flow.foresee(s.conn, head)
	}
	s.flow.placed = false
	s.flow.class = s.conn.laneFor(s.flow.class) // it may have been for a peer of another version
	s.kind = s.flow.class
	s.ledger.budget = s.flow.link.allot(s.kind)
}

// judge notes of what class is what was read. It gives errMoves if that belongs on another
// lane, or errOlder if something else has to go first, as soon as the destination has all that was
// sent before: what a new session sends must not overtake it, or it would be sent twice.
func (s *sending) judge(ctx context.Context, read *session.ReadResult) error {
	if len(read.Messages) == 0 {
		return nil
	}
	at := read.Messages[0].Envelope.AppendTime
	s.flow.class = s.flow.classify(s.conn, time.Since(time.UnixMilli(at)))
	cause := errMoves
	switch {
	case s.outOfTurn(&read.Messages[0]):
		cause = errOlder
	case s.flow.class == s.kind:
		return nil
	}
	s.leaveLimiter()
	s.ledger.keep()
	began := s.flow.machine.Status().Round
	for {
		st := s.flow.machine.Status()
		if !st.State.Open() || st.Round != began {
			return nil // the session is over or begins anew: what was read is void
		}
		if st.InFlight == 0 {
			s.flow.placed = true
			if s.flow.turns.after != nil {
				s.flow.note(st) // there is no session soon that would: an operator may wait for this
			}
			return cause
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.inbox.ready:
			s.hear()
		}
	}
}

// precedence has backlog give way to new data that waits for the line.
type precedence struct {
	mu      sync.Mutex
	writing int           // sessions that write new data just now
	over    chan struct{} // closed when none does; nil: nobody waits for that
}

// begin says that a session writes new data, end that it has.
func (p *precedence) begin() {
	p.mu.Lock()
	p.writing++
	p.mu.Unlock()
}

func (p *precedence) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing--; p.writing == 0 && p.over != nil {
		close(p.over)
		p.over = nil
	}
}

// yield waits until nobody writes new data, at most for a time, or until gone is closed.
func (p *precedence) yield(most time.Duration, gone <-chan struct{}) {
	p.mu.Lock()
	if p.writing == 0 {
		p.mu.Unlock()
		return
	}
	if p.over == nil {
		p.over = make(chan struct{})
	}
	over := p.over
	p.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-over:
	case <-gone:
	case <-late.C:
	}
}

// allotment is what sessions of one class may take of a link's send budget.
type allotment struct {
	all  *gate
	part *gate // what the class may take of it; nil: all
}

// backlogPart is what backlog may take of n bytes: new data is never kept waiting for
// the room of batches that wait for a slow line themselves.
func backlogPart(n int64) int64 { return n - n/4 }

// debtPart is what debts may take of it. Together they leave an eighth to new data alone.
func debtPart(n int64) int64 { return n / 8 }

// allot gives what a class may take.
func (l *link) allot(c class) allotment {
	switch c {
	case debt:
		return allotment{l.send, l.owing}
	case backlog:
		return allotment{l.send, l.behind}
	}
	return allotment{all: l.send}
}

// most is how much a read takes at most. A few have room side by side: one that takes
// all keeps new data waiting until it is through.
func (a allotment) most() int {
	g := a.all
	if a.part != nil {
		g = a.part
	}
	return max(leastRead, int(g.limit.Load()/4))
}

func (a allotment) acquire(ctx context.Context, n int64, c class, rank int64) error {
	if a.part != nil {
		if err := a.part.acquireRanked(ctx, n, c, rank); err != nil {
			return err
		}
	}
	err := a.all.acquireRanked(ctx, n, c, rank)
	if err != nil && a.part != nil {
		a.part.release(n)
	}
	return err
}

func (a allotment) overdraw(n int64) {
	a.all.overdraw(n)
	if a.part != nil {
		a.part.overdraw(n)
	}
}

func (a allotment) release(n int64) {
	a.all.release(n)
	if a.part != nil {
		a.part.release(n)
	}
}
