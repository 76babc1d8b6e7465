package replicator

import (
	"context"
	"time"
)

// strikes is how many times the watchdog rebuilds sessions of a connection, with
// no progress of any session between, before it gives the connection up.
const strikes = 3

// tellEvery limits how often the watchdog logs for one connection. The counters
// tell the rest.
const tellEvery = time.Minute

// watch rebuilds sessions that have something to do and make no progress. A
// stream that takes nothing is given up with all its sessions; a connection on
// which nothing ever moves again is replaced.
func (c *conn) watch(ctx context.Context) error {
	after := c.m.cfg.Limits.Watchdog
	tick := time.NewTicker(after / 8)
	defer tick.Stop()
	hits, progress := 0, c.confirms.Load()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if p := c.confirms.Load(); p != progress {
				hits, progress = 0, p
			}
			if c.rebuild(now, after) == 0 {
				continue
			}
			if hits++; hits >= strikes {
				return errStuck
			}
		}
	}
}

// rebuild has sessions that wait tell of growth, and ends stuck ones, which makes their flows open new ones, and tells
// how many they were.
func (c *conn) rebuild(now time.Time, after time.Duration) int {
	n := 0
	for _, s := range c.lanes.all() {
		s.tell()
		stuck, lane := s.stuck(now, after)
		if !stuck {
			continue
		}
		n++
		s.flow.rebuilt()
		s.cancel(errWatchdog)
		if lane {
			c.lanes.giveUp(s.lane)
		}
	}
	if n += c.lanes.late(now, after); n == 0 {
		return 0
	}
	c.link.counters.rebuilds.Add(uint64(n))
	if now.Sub(c.told) > tellEvery {
		c.told = now
		c.m.log.Warn("sessions made no progress and are built anew", "peer_region", c.link.name, "sessions", n)
	}
	return n
}

// tell has flows on other links started where they sleep, if the partition grew while the
// session waits for room, a turn or the line, and so does not look: it holds the partition.
func (s *sending) tell() {
	if !s.waiting.Load() && !s.writing.Load() {
		return
	}
	m, ref := s.flow.link.m, s.flow.source.ref
	st, ok := m.cfg.Region.State(ref)
	if !ok {
		return
	}
	if out := int64(lastOut(&st)); out > s.told.Load() {
		s.told.Store(out)
		m.wakeFlows(ref, s.flow, false)
	}
}

func (ls *lanes) all() []*sending {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	all := make([]*sending, 0, len(ls.sessions))
	for _, s := range ls.sessions {
		all = append(all, s)
	}
	return all
}

func (f *flow) rebuilt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.rebuilds++
}
