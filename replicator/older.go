package replicator

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
	"weak"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// Lives of one origin are sessions of their own, and a region that joins, or that was
// behind when the origin was rebuilt, may lack something of several. What was published
// later would then overtake what was published before: on a compacted topic the old value
// of a key would be its last one. So a life begins at a destination where that has what
// this region had of the lives before it, when their turn came.
//
// A session opens all the same, since only then it is known whether there is something to
// send, and whether the life has begun there. The first batch of a life that has not is held
// back: the session is closed, and the flow looks now and then how far the former lives
// are. Meanwhile it has no session, no room and no right to open one; nothing that runs is
// ended for it, and nobody wakes it. What this region gets of those lives later it does not
// wait for, and a life that has begun never waits again: what is published now is late for
// nobody while a region gets its own back from others, or where patience ran out.

const (
	// olderLook is how long a flow waits until it looks again how far former lives are, at first.
	olderLook     = 200 * time.Millisecond
	olderLookMost = 5 * time.Second
	// olderPatience is how long it waits while none of them gets on (I13). overtakesTold
	// limits how often a link logs that it did not.
	olderPatience = time.Minute
	overtakesTold = time.Minute
	// olderAsk is how long it waits until the peer is asked what it has of them, which answers soon.
	olderAsk = 2 * time.Second
)

var (
	errOlder    = rhumb.Errorf(rhumb.KindUnavailable, "what its origin wrote in a former life goes first, and is on its way")
	errOvertook = rhumb.Errorf(rhumb.KindUnavailable, "what its origin wrote in a former life does not get on, so this goes before it")
)

// unheardOf is where the peer is in a life, if it has not said that.
const unheardOf = rhumb.NoOffset - 1

// ancestor is a former life that a flow waits for.
type ancestor struct {
	flow *flow
	goal rhumb.Offset // what this region had of it when the wait began
	at   rhumb.Offset // where the peer was at the last look
	// asked is since when the peer does not say where it is.
	asked time.Time
	// Of a life that no edge leads to in the peer's view, which may be behind this region's:
	// when it said so last, and how often while it was waited for.
	forbidden  time.Time
	forbidding int
}

// forbiddenMost is how often a peer has to say anew that no edge leads there until its word is
// taken: the first answer may be older than that which let the later life begin.
const forbiddenMost = 2

// place is where a peer was in a life when patience with that ran out.
type place struct {
	at   rhumb.Offset
	era  int                // see flowStatus: a peer that lost its disk begins anew
	flow weak.Pointer[flow] // that was waited for: one that has ended is not kept for this
}

// turns is what a flow knows of its turn among the lives of its origin. Owned by the
// goroutine that works on it.
type turns struct {
	after []ancestor // what its session found to be first
	held  int64      // append time of the batch that was held back for that
	next  *conn      // over which its next session sends, whatever there is
	// Where the peer was in lives that no longer got on: they are waited for again once
	// they have moved. That it did not answer holds for one connection.
	spent   map[rhumb.Life]place
	spentOn *conn
	begins  map[rhumb.Life]int64 // see begunAt
}

// outOfTurn reports whether what was read is the first of a life at the destination, and
// lives before it are on their way there. Once a session has sent something it is not
// asked again.
func (s *sending) outOfTurn(first *session.Message) bool {
	f := s.flow
	if s.turned || !f.link.passes.Load() { // no lives but those of the logs are sent here
		return false
	}
	f.turns.after = f.ancestors(s.conn, first.Envelope.First)
	f.turns.held = first.Envelope.AppendTime
	s.turned = len(f.turns.after) == 0
	return !s.turned
}

// ancestors lists the former lives of the flow's origin that this region sends and of which
// the peer lacks something, or has not said so; none if the flow's own life began at the peer
// before an offset.
func (f *flow) ancestors(c *conn, next rhumb.Offset) (all []ancestor) {
	st, ok := f.link.m.cfg.Region.State(f.source.ref)
	if !ok {
		return nil
	}
	for i := range st.Watermarks {
		w := &st.Watermarks[i]
		if w.Region != f.source.origin || w.Life == f.source.life || st.Owns(w.Life) {
			continue
		}
		if g, _ := f.link.goes(sourceKey{f.source.ref, w.Life}, c); g != nil {
			a := ancestor{flow: g, goal: w.Offset, at: rhumb.NoOffset}
			if a.look(c) && !f.despairs(&a, c) {
				all = append(all, a)
			}
		}
	}
	if len(all) == 0 || f.hasBegun(next) {
		return nil
	}
	return slices.DeleteFunc(all, func(a ancestor) bool { return !f.follows(a.flow.source.life) })
}

// goes gives the flow of a life if it is one that goes over a connection, else nil, and
// whether it was begun with there.
func (l *link) goes(key sourceKey, c *conn) (f *flow, begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f = l.flows[key]
	if f == nil || f.over != nil || f.paused || l.unheard(f, c) != nil {
		return nil, false
	}
	return f, f.begun == c
}

// look notes where the peer is, and reports whether it lacks something, or has not said
// so, that will come: over this link or, if it takes the life over another path, over that.
func (a *ancestor) look(c *conn) bool {
	f := a.flow
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &f.status
	switch {
	case st.settledOn == c, st.apart != nil:
		return false
	case st.refused != nil && st.refused.Code == wire.CodeForbidden:
		return a.isForbidden(st.errAt)
	case st.refused != nil, st.state == SessionRefused:
		return false
	case !st.known || st.doubted || st.leftOut != nil: // the peer takes the partition, or nobody would ask
		if !a.unheard() {
			a.at, a.asked = unheardOf, time.Now()
		}
		return true
	}
	a.at = st.confirmed
	return a.at < a.goal
}

// isForbidden notes that the peer knew no edge for the life at some time, and reports whether that
// may be so no more: it took the later one. The flow, which rests long then, asks it again.
func (a *ancestor) isForbidden(at time.Time) bool {
	if !a.unheard() {
		a.at, a.asked = unheardOf, time.Now()
	}
	if at.Equal(a.forbidden) {
		return true
	}
	if a.forbidden.IsZero() {
		a.forbidding = -1 // said before it was waited for
	}
	a.forbidden = at
	a.forbidding++
	if a.forbidding >= forbiddenMost {
		return false
	}
	a.flow.nudge()
	return true
}

// hasBegun reports whether the peer has something of the flow's life, of which it was
// found to lack what lies from an offset on.
func (f *flow) hasBegun(next rhumb.Offset) bool {
	has := f.machine.Status().Confirmed
	if has == rhumb.NoOffset {
		return false
	}
	found, err := f.readFirst(f.source.life) // what has none of them may be over foreign offsets
	return err == nil && len(found) > 0 && found[0].Envelope.First < next && found[0].Envelope.First <= has
}

// follows reports whether a life of the flow's origin began before the flow's. What links
// brought here of this region is from before its log; of another origin's lives the
// times at which their first records were stored tell.
func (f *flow) follows(life rhumb.Life) bool {
	if !f.forwards() {
		return true
	}
	other := f.begunAt(life)
	return other > 0 && f.begunAt(f.source.life) > other
}

// begunAt gives the append time of the first record here of a life of the flow's origin,
// in ms since 1970; 0 if there is none.
func (f *flow) begunAt(life rhumb.Life) int64 {
	if at, known := f.turns.begins[life]; known {
		return at
	}
	found, err := f.readFirst(life)
	if err != nil || len(found) == 0 {
		return 0
	}
	if f.turns.begins == nil {
		f.turns.begins = map[rhumb.Life]int64{}
	}
	at := found[0].Envelope.AppendTime
	f.turns.begins[life] = at
	return at
}

// readFirst reads the first batch here of a life of the flow's origin.
func (f *flow) readFirst(life rhumb.Life) ([]stored, error) {
	s := f.source
	return f.link.m.cfg.Region.ReadOrigin(s.ref, originQuery{Partition: s.ref.ID, Region: s.origin, Life: life, Limit: math.MaxInt64, MaxBytes: 1})
}

// despairs reports whether the flow has waited for a life in vain, which has not moved since.
func (f *flow) despairs(a *ancestor, c *conn) bool {
	was, spent := f.turns.spent[a.flow.source.life]
	return spent && was == a.place() && (!a.unheard() || f.turns.spentOn == c)
}

// despair has the flow not wait for a life any more, as it is.
func (f *flow) despair(a *ancestor, c *conn) {
	if f.turns.spent == nil {
		f.turns.spent = map[rhumb.Life]place{}
	}
	f.turns.spent[a.flow.source.life], f.turns.spentOn = a.place(), c
}

// place is where the peer was at the last look.
func (a *ancestor) place() place {
	a.flow.mu.Lock()
	defer a.flow.mu.Unlock()
	return place{a.at, a.flow.status.era, weak.Make(a.flow)}
}

// awaitOlder waits until the peer has what the former lives are to bring, or these do not
// get on, and gives the right to open the next session. Nothing wakes it but time: who
// waits and who is waited for cannot keep each other busy.
func (f *flow) awaitOlder(ctx context.Context, c *conn) (opened func(), err error) {
	left, ordered := f.turns.after, f.hasOrder()
	f.turns.after = nil
	f.stalls(errOlder)
	for i := range left {
		f.link.askOf(left[i].flow, c)
	}
	pause := backoff{least: olderLook, most: olderLookMost}
	for moved := time.Now(); ; {
		wait := pause.next()
		for i := range left {
			if rest := olderAsk - time.Since(left[i].asked); left[i].unheard() && rest > 0 {
				wait = min(wait, max(olderLook, rest))
			}
		}
		if !sleep(ctx, wait, nil) {
			return nil, context.Cause(ctx)
		}
		now, on := time.Now(), false
		if left, on = f.stillOlder(left, c); on {
			moved = now
		}
		next := true
		switch {
		case len(left) == 0:
		case now.Sub(moved) > olderPatience:
			f.overtake(left, c)
		case ordered || !f.hasOrder(): // what an operator wants skipped waits for nobody
			continue
		default:
			next = false
		}
		f.class, f.placed = f.classify(c, now.Sub(time.UnixMilli(f.turns.held))), true
		opened, err = f.openAgain(ctx, c)
		if next && err == nil {
			f.turns.next = c
		}
		return opened, err
	}
}

// stillOlder looks at former lives again, gives those that are to be waited for longer, and
// reports whether any got on.
func (f *flow) stillOlder(all []ancestor, c *conn) (left []ancestor, on bool) {
	f.link.counters.olderLooks.Add(1)
	for _, a := range all {
		before := a.at
		g, begun := f.link.goes(a.flow.source.key(), c)
		if g != a.flow || !a.look(c) {
			on = true
			continue
		}
		if a.unheard() && !begun && time.Since(a.asked) >= olderAsk {
			f.despair(&a, c)
			continue
		}
		on = on || a.at > before || a.flow.getsOn(time.Now()) || a.flow.waitsForOlder()
		left = append(left, a)
	}
	return left, on
}

func (a *ancestor) unheard() bool { return a.at == unheardOf }

// getsOn reports whether the flow has a session that sends, or waits for its turn to, and
// none that failed lately: a large batch, or many other topics, may take longer than patience.
func (f *flow) getsOn(now time.Time) bool {
	f.mu.Lock()
	s, st := f.active, &f.status
	calm := st.err == nil || now.Sub(st.errAt) > olderPatience
	flowing := st.state == SessionFlowing
	f.mu.Unlock()
	if s == nil || !flowing || !calm {
		return false
	}
	stuck, _ := s.stuck(now, f.link.m.cfg.Limits.Watchdog)
	return !stuck
}

// waitsForOlder reports whether the flow waits for former lives itself: it has patience of its own.
func (f *flow) waitsForOlder() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status.state == SessionStalled && errors.Is(f.status.err, errOlder)
}

// overtake has the flow go before lives that do not get on.
func (f *flow) overtake(left []ancestor, c *conn) {
	for i := range left {
		f.despair(&left[i], c)
	}
	f.stalls(errOvertook)
	l := f.link
	l.mu.Lock()
	tell := time.Since(l.toldOlder) > overtakesTold
	if tell {
		l.toldOlder = time.Now()
	}
	l.mu.Unlock()
	if tell {
		l.m.log.Warn("what a region wrote in a former life does not get on, and what it wrote since goes before it", "peer_region", l.name,
			"topic", f.source.topic.String(), "partition", f.source.index, "origin", f.source.origin, "former", left[0].flow.source.life.String())
	}
}

// askOf has the peer asked what it has of a flow's life before flows of which nothing is known to
// wait, if it was not asked over the connection.
func (l *link) askOf(f *flow, c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == c && f.begun != c && f.wanted != c && !f.running {
		f.wanted = c
		c.due.first = append(c.due.first, f)
		c.due.signal()
	}
}

// hasOrder reports whether an operator wants something skipped.
func (f *flow) hasOrder() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.order != nil
}
