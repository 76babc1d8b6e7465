package replicator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Two processes that say they are the same region: a copy of a data directory
// was started beside the original. Their certificate, number and data directory
// are the same; what tells them apart is the boot id of the hello.
const (
	// probeTime, and two round trips, is how long the process that has the link
	// may take to show that it lives, when another one wants its place. A process
	// that was killed and started again waits for that at most, and mostly not at
	// all: what is sent to its former connection is answered by a reset.
	probeTime = time.Second
	// probeTimeMost is less than idleTimeout, after which the link is free anyway.
	probeTimeMost = 2 * time.Second
	// probeMark is in the numbers of pings that are such probes.
	probeMark uint64 = 1 << 63
	// twicePause and twicePauseMost are between attempts of a process whose peer
	// is linked to another one of the same region: it waits for the other's end.
	twicePause     = 2 * time.Second
	twicePauseMost = 20 * time.Second
	// It is shown until nothing more was heard of the refused process for twice as
	// long as lay between two of its attempts, and twiceSlack: a pause at most
	// doubles, and an attempt takes its time. Processes of older versions try once a
	// minute at last; what lies further apart than twiceGapMost is not one row.
	twiceSlack   = 10 * time.Second
	twiceGapMost = 90 * time.Second
	// twiceTold limits how often it is logged.
	twiceTold = 10 * time.Minute
	// maxBoots bounds the processes of a peer that are remembered.
	maxBoots = 16
)

// rivals is what a link knows of processes that say they are its peer. Guarded
// by link.mu.
type rivals struct {
	boots []rhumb.UUID  // processes that had the link, in that order
	text  string        // the last finding that two live at once
	at    time.Time     // of text
	gap   time.Duration // the longest between two findings of this row
	until time.Time     // when it is shown no more
	told  time.Time
}

// note remembers a process that got the link.
func (r *rivals) note(boot rhumb.UUID) {
	if boot.IsZero() || slices.Contains(r.boots, boot) {
		return
	}
	if len(r.boots) == maxBoots {
		r.boots = slices.Delete(r.boots, 0, 1)
	}
	r.boots = append(r.boots, boot)
}

// found notes that two live at once, and how long that is to be believed.
func (r *rivals) found(text string, now time.Time) {
	switch gap := now.Sub(r.at); {
	case r.at.IsZero() || gap > twiceGapMost:
		r.gap = twicePauseMost
	default:
		r.gap = max(r.gap, gap) // attempts may come in pairs
	}
	r.text, r.at, r.until = text, now, now.Add(2*r.gap+twiceSlack)
}

// before reports whether process a had the link earlier than process b.
func (r *rivals) before(a, b rhumb.UUID) bool {
	i := slices.Index(r.boots, a)
	return i >= 0 && i < slices.Index(r.boots, b)
}

// settleRivals decides whether c may take the place of the connection that the
// link has, if another process is at the other end of that. One that lives keeps
// its place, and c is refused; unless c's process had the link before it: then
// the later one was the intruder. So every peer keeps the process that it knew
// first, and an operator's copy takes nothing from a region that runs.
func (l *link) settleRivals(ctx context.Context, c *conn) error {
	if err := l.judging.acquire(ctx, 1, fresh); err != nil {
		return err
	}
	defer l.judging.release(1)
	l.mu.Lock()
	old := l.conn
	l.mu.Unlock()
	if old == nil || old.boot == c.boot || old.boot.IsZero() || c.boot.IsZero() {
		return nil
	}
	lives, err := old.answers(ctx)
	switch {
	case err != nil:
		return err
	case !lives:
		old.end(errSuperseded)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept, refused := old, c
	if l.rivals.before(c.boot, old.boot) {
		kept, refused = c, old
	}
	err = l.runsTwice(kept, refused)
	if refused == old {
		old.end(err)
		return nil
	}
	return err
}

// runsTwice notes that two processes live at once. The caller holds mu.
func (l *link) runsTwice(kept, refused *conn) error {
	r := &refusal{twice: true, told: true, reason: "region " + string(l.name) + " runs twice: the process at " + kept.place() +
		" has the link and lives, the one at " + refused.place() + " is refused; stop one of them: was a copy of the data directory started?"}
	now := time.Now()
	l.health.err, l.health.errAt = r, now
	l.rivals.found(r.reason, now)
	if now.Sub(l.rivals.told) >= twiceTold {
		l.rivals.told = now
		l.m.log.Error("a region runs twice", "peer_region", l.name, "err", r.reason)
	}
	return r
}

// place says where a peer's process is, and which it is.
func (c *conn) place() string {
	return c.qc.RemoteAddr().String() + " (boot " + c.boot.String()[:8] + ")"
}

// twice gives the finding while it is fresh. The caller holds mu.
func (l *link) twice(now time.Time) string {
	if now.After(l.rivals.until) {
		return ""
	}
	return l.rivals.text
}

// second reports whether the peer is linked to another process of this region.
// The caller holds mu.
func (l *link) second() bool {
	var r *refusal
	return l.conn == nil && errors.As(l.health.err, &r) && r.twice && !r.told
}

// answers asks the other end whether it lives, and waits for its pong.
func (c *conn) answers(ctx context.Context) (bool, error) {
	number := probeMark | c.control.probes.Add(1)
	within := time.NewTimer(min(probeTime+2*c.qc.ConnectionStats().SmoothedRTT, probeTimeMost))
	defer within.Stop()
	ask := c.control.probe
	for {
		select {
		case ask <- number:
			ask = nil
		case got := <-c.control.answered:
			if got == number {
				return true, nil
			}
		case <-within.C:
			return false, nil
		case <-c.stopped:
			return false, nil
		case <-c.qc.Context().Done():
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// answer takes the pong of a probe.
func (c *control) answer(number uint64) {
	select {
	case <-c.answered: // of a probe that nobody waits for any more
	default:
	}
	select {
	case c.answered <- number:
	default:
	}
}
