package replicator

import (
	"context"
	"errors"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
)

var errSteered = errors.New("replicator: an operator asked for another try")

// Retry has what waits for another try, of a link to a peer, tried at once: dialling,
// if there is no connection or the peer took no more of them, and the flows of one partition, or with nil of all. It
// gives the number of flows. Errors are of kind not found if there is no such link.
func (m *Manager) Retry(peer rhumb.RegionName, at *rhumb.Partition) (int, error) {
	l := m.link(peer)
	if l == nil {
		return 0, noLink(peer)
	}
	n := 0
	for _, f := range l.all() {
		if at == nil || f.source.topic == at.Topic && f.source.index == at.Index {
			f.nudge()
			n++
		}
	}
	l.mu.Lock()
	if l.conn == nil {
		l.signal()
	} else if at == nil {
		l.conn.pool.retry()
	}
	l.mu.Unlock()
	if at != nil && n == 0 {
		return 0, rhumb.Errorf(rhumb.KindNotFound, "no edge leads partition %d of %s to region %s", at.Index, at.Topic.Short(), peer)
	}
	return n, nil
}

// SkipRequest asks for own records to be left out on the way to a region, for good.
type SkipRequest struct {
	Peer      rhumb.RegionName
	Partition rhumb.Partition
	// To is the own offset with which the flow goes on: what lies before it, and the
	// destination has not, is skipped. Batches are not split.
	To rhumb.Offset
	By string
}

// SkipResult is what a skip leaves out, or would.
type SkipResult struct {
	Life     rhumb.Life
	From, To rhumb.Offset // of the origin, both inclusive; From > To: nothing is left to skip
	Done     bool         // the destination has stored it as a gap
}

// skipOrder is a skip that waits for the destination.
type skipOrder struct {
	to   dedup.ChainPoint
	by   string
	done chan struct{} // closed when the destination has confirmed it
}

// Skip leaves own records of a partition out on the way to one region: the
// destination stores a gap that says so and goes on behind it. It waits until the
// destination has confirmed. With dry it only says what it would do. Errors are of
// kind unavailable while the destination cannot be asked, invalid for a place that
// is none and an edge that is paused, timeout if it is not known whether it happened: to ask again harms
// nothing.
func (m *Manager) Skip(ctx context.Context, r SkipRequest, dry bool) (SkipResult, error) {
	f, err := m.flowOf(r.Peer, r.Partition)
	if err != nil {
		return SkipResult{}, err
	}
	to, after, err := f.place(r)
	if err != nil {
		return SkipResult{}, err
	}
	out := SkipResult{Life: f.source.life, From: after + 1, To: to.Offset}
	if dry || after >= to.Offset {
		return out, nil
	}
	o := &skipOrder{to: to, by: r.By, done: make(chan struct{})}
	if !f.give(o) {
		return out, rhumb.Errorf(rhumb.KindUnavailable, "another skip of this partition is under way")
	}
	m.log.Warn("an operator skips records", "peer_region", r.Peer, "topic", r.Partition.Topic.String(), "partition", r.Partition.Index,
		"from", int64(out.From), "to", int64(out.To), "by", r.By)
	select {
	case <-o.done:
		out.Done = true
		return out, nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	if f.order == o {
		f.order = nil
	}
	f.mu.Unlock()
	return out, rhumb.Errorf(rhumb.KindTimeout, "region %s has not confirmed the skip in time: it may or may not have happened, 'rhumb link show %s' tells; say it again", r.Peer, r.Peer)
}

// flowOf finds the flow of a partition to a peer that is next: an earlier life of the
// log comes before the one that it has now.
func (m *Manager) flowOf(peer rhumb.RegionName, at rhumb.Partition) (*flow, error) {
	l := m.link(peer)
	if l == nil {
		return nil, noLink(peer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found *flow
	for _, f := range l.flows {
		if f.source.topic != at.Topic || f.source.index != at.Index || f.forwards() { // who wrote the records decides
			continue
		}
		f.mu.Lock()
		settled := f.source.closed != nil && f.status.settledOn != nil
		f.mu.Unlock()
		if !settled && (found == nil || len(f.source.earlier) < len(found.source.earlier)) {
			found = f
		}
	}
	switch {
	case found == nil:
		return nil, rhumb.Errorf(rhumb.KindNotFound, "no edge leads partition %d of %s to region %s", at.Index, at.Topic.Short(), peer)
	case found.paused:
		return nil, rhumb.Errorf(rhumb.KindInvalid, "the edge to region %s is paused: 'rhumb link resume %s' first", peer, peer)
	case l.conn == nil:
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "there is no connection to region %s, which has to confirm a skip: see 'rhumb link check %s'", peer, peer)
	}
	return found, nil
}

// place finds where a skip ends, and what the destination is known to have.
func (f *flow) place(r SkipRequest) (to dedup.ChainPoint, after rhumb.Offset, err error) {
	log := sourceLog{flow: f}
	st, err := log.state()
	if err != nil {
		return to, 0, err
	}
	f.mu.Lock()
	known, after := f.status.known, f.status.confirmed
	f.mu.Unlock()
	if !known && f.refusedAt() == rhumb.NoOffset {
		return to, 0, rhumb.Errorf(rhumb.KindUnavailable, "region %s has not told yet what it has: try again in a moment", r.Peer)
	}
	after = max(after, f.refusedAt()-1, f.source.from-1)
	end := st.Flushed
	if past := f.source.closed; past != nil {
		end = min(end, past.Last+1)
	}
	if r.To <= 0 || r.To > end {
		return to, 0, rhumb.Errorf(rhumb.KindInvalid, "offset %d is no place to go on with: own records lie below %d", r.To, end)
	}
	b, ok, err := log.firstFrom(r.To, st.End)
	switch {
	case err != nil:
		return to, 0, err
	case !ok:
		return dedup.ChainPoint{Offset: r.To - 1, Chain: st.OwnChain}, after, nil
	case b.First < r.To:
		return to, 0, rhumb.Errorf(rhumb.KindInvalid, "offset %d lies inside the batch %d to %d, and batches are not split: go on with %d or %d", r.To, b.First, b.Last, b.First, b.Last+1)
	case b.Prev >= r.To:
		return to, 0, rhumb.Errorf(rhumb.KindInvalid, "compaction took what lay at offset %d: go on with %d", r.To, b.First)
	}
	return dedup.ChainPoint{Offset: r.To - 1, Chain: dedup.ChainBefore(b)}, after, nil
}

// refusedAt is where the destination stopped, NoOffset if it did not.
func (f *flow) refusedAt() rhumb.Offset {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status.refused == nil {
		return rhumb.NoOffset
	}
	return f.status.refused.At
}

// give has an order carried out by the next session, and begins that at once. It is
// false if there is one already.
func (f *flow) give(o *skipOrder) bool {
	f.mu.Lock()
	if f.order != nil {
		f.mu.Unlock()
		return false
	}
	f.order = o
	active := f.active
	f.mu.Unlock()
	if active != nil {
		active.cancel(errSteered)
	}
	f.nudge()
	f.link.mu.Lock()
	f.link.queue(f)
	f.link.mu.Unlock()
	return true
}

// ordered gives what the next session has to skip.
func (f *flow) ordered() *session.Order {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.order == nil {
		return nil
	}
	return &session.Order{To: f.order.to, By: f.order.by}
}
