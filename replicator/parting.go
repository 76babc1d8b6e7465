package replicator

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
)

// parting is what was said of a flow whose logs have parted. Such a flow is tried again
// and again, over any connection, and where another path leads to the destination in
// turns with that; each try finds the same, with other ends of the logs. It outlives the
// tries and what they make of the flow's status, so that the log has one line of it.
type parting struct {
	said   bool
	exact  bool
	common rhumb.Offset
}

// found reports whether a try says something new: that the logs have parted at all, or
// where exactly. A point that is only known to be common moves with the logs' ends.
func (p *parting) found(st session.Status) bool {
	if p.said && (!st.Exact || p.exact && p.common == st.Common.Offset) {
		return false
	}
	*p = parting{said: true, exact: st.Exact, common: st.Common.Offset}
	return true
}

// part notes where the logs part, and reports whether that is news; the caller holds the lock.
func (f *flow) part(st session.Status) (news bool) {
	f.link.counters.diverged.Add(1)
	f.status.apart = &Divergence{Common: st.Common, Exact: st.Exact, Watermark: st.Has.Offset, Chain: st.Has.Chain, At: time.Now()}
	return f.parted.found(st)
}
