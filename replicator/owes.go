package replicator

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// leftOut notes that a destination takes nothing of a partition, since its topic was
// deleted there: nothing is owed to it until it is created there again.
type leftOut struct {
	on    *conn // over which the peer said so last
	since time.Time
}

// leaveOut reports whether the end of a session says that the topic was deleted at
// the destination.
func leaveOut(st session.Status) bool {
	return st.State == session.Refused && st.Code == wire.CodeDeleted
}

// left notes that the peer said over a connection that it leaves the partition out.
// The caller holds mu.
func (st *flowStatus) left(c *conn) {
	if st.leftOut == nil {
		st.leftOut = &leftOut{since: time.Now()}
	}
	st.leftOut = &leftOut{c, st.leftOut.since}
	st.refused, st.apart = nil, nil
}

// owesNothing reports whether nothing of a flow's life is due to its destination,
// whatever that has confirmed: it leaves the topic out, or will get no more of a past
// life, or of one that is its own. It stays while the link is down. The caller holds mu.
func (f *flow) owesNothing() bool {
	st := &f.status
	return st.leftOut != nil || st.settledOn != nil && (f.source.closed != nil || f.forwards())
}

// owesNothingOver is the same, as far as the peer said it over connection c: what
// would be dropped here for ever goes by that alone. The caller holds mu.
func (f *flow) owesNothingOver(c *conn) bool {
	if f.status.settledOn != nil {
		return true
	}
	return c != nil && f.status.leftOut != nil && f.status.leftOut.on == c
}

// earlierLeftOut reports whether the peer said over connection c that it leaves out
// what an earlier life of a flow's log names: then it does so with all of the log.
func (l *link) earlierLeftOut(f *flow, c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, life := range f.source.earlier {
		g := l.flows[sourceKey{f.source.ref, life}]
		if g == nil {
			continue
		}
		g.mu.Lock()
		left := g.status.leftOut != nil && g.status.leftOut.on == c
		g.mu.Unlock()
		if left {
			return true
		}
	}
	return false
}

var errLeftOut = rhumb.Errorf(rhumb.KindUnavailable, "the topic was deleted there, and links leave it out: create it there to have it again")
