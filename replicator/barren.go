package replicator

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A log in which nothing was ever published here grows by what links bring, and its
// own life's watermark elsewhere is to reach its end all the same. That is said of each
// such log once in barrenEvery at most, over a session that ends right after it: with
// tens of thousands of topics that are written in one region only, a session back for
// each batch that arrives would cost as much as the batch. barrenAtOnce bounds how many
// begin to say it in a second.
const (
	barrenEvery  = 30 * time.Second
	barrenAtOnce = 500
)

// barren reports whether nothing was ever published here in the log of the flow, as far as
// the last own offset says. A log that has, or whose edge begins at the latest record, says at once what is
// new in it; and so does each when its link begins: the peer may have what it has lost.
func (f *flow) barren(ownLast rhumb.Offset) bool {
	s := f.source
	return ownLast == rhumb.NoOffset && !f.latest && s.closed == nil && !s.copied && len(s.earlier) == 0
}

// trailing is a barren flow that has something to say from a time on.
type trailing struct {
	flow *flow
	from time.Time
}

// trail has a barren flow work later. The caller holds mu.
func (l *link) trail(f *flow) {
	if l.conn == nil || f.trails == l.conn {
		return
	}
	f.trails = l.conn
	l.conn.trailing = append(l.conn.trailing, trailing{f, time.Now().Add(barrenEvery)})
}

// followUp queues the barren flows of a connection whose time has come.
func (l *link) followUp(c *conn, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := 0; n < barrenAtOnce && len(c.trailing) > 0 && !now.Before(c.trailing[0].from); n++ {
		f := c.trailing[0].flow
		c.trailing[0].flow = nil
		c.trailing = c.trailing[1:]
		f.trails = nil
		if l.flows[f.source.key()] == f && !f.running && !f.standby.on && !f.settledOver(c) && f.behind() {
			l.queue(f)
		}
	}
	if len(c.trailing) == 0 {
		c.trailing = nil
	}
}
