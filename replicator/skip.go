package replicator

import (
	"context"
	"fmt"
	"slices"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
)

// SkipRequest asks for records to be left out on the way to a region, for good.
type SkipRequest struct {
	Peer      rhumb.RegionName
	Partition rhumb.Partition
	// Origin is who published them: this region, or one whose records it forwards.
	// Empty: this region, unless another one's records are what the peer refuses.
	Origin rhumb.RegionName
	// To is the origin's offset with which the flow goes on: what lies before it, and the
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
	from *dedup.ChainPoint // where the copies part, nil: they do not
	done chan struct{}     // closed when the destination has confirmed it, or will not have it
	why  string            // why it will not have it: set before done is closed
	said bool              // a session was opened with it
}

// Skip leaves records of a partition out on the way to one region: the
// destination stores a gap that says so and goes on behind it. It waits until the
// destination has confirmed. What others published is left out where no edge leads to
// the destination straight from its origin, and only if no other path may have it. With dry it only says what it would do. Errors are of
// kind unavailable while the destination cannot be asked, invalid for a place that
// is none and an edge that is paused, timeout if it is not known whether it happened: to ask again harms
// nothing.
func (m *Manager) Skip(ctx context.Context, r SkipRequest, dry bool) (SkipResult, error) {
	f, err := m.flowOf(r)
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
	m.log.Warn("an operator skips records", "peer_region", r.Peer, "topic", r.Partition.Topic.String(), "partition", r.Partition.Index,
		"origin", f.source.origin, "from", int64(out.From), "to", int64(out.To), "by", r.By)
	err = f.carryOut(ctx, &skipOrder{to: to, by: r.By, done: make(chan struct{})})
	out.Done = err == nil
	return out, err
}

// carryOut gives an order and waits until the destination has confirmed it.
func (f *flow) carryOut(ctx context.Context, o *skipOrder) error {
	peer := f.link.name
	if !f.give(o) {
		return rhumb.Errorf(rhumb.KindUnavailable, "another skip of this partition is under way")
	}
	select {
	case <-o.done:
		if o.why != "" {
			return rhumb.Errorf(rhumb.KindInvalid, "region %s does not take the skip from here: %s; what another path brings is skipped there, too", peer, o.why)
		}
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	if f.order == o {
		f.order = nil
	}
	f.mu.Unlock()
	return rhumb.Errorf(rhumb.KindTimeout, "region %s has not confirmed the skip in time: it may or may not have happened, 'rhumb link show %s --region %s' tells; say it again", peer, peer, f.link.m.cfg.Self.Name)
}

// flowOf finds the flow that a skip is about: of own records that of the life that is
// next, an earlier one of the log before the one that it has now; of others' the one
// that is refused, or the only one.
func (m *Manager) flowOf(r SkipRequest) (*flow, error) {
	l := m.link(r.Peer)
	if l == nil {
		return nil, m.noLink(r.Peer)
	}
	forwards := r.Origin != "" && r.Origin != m.cfg.Self.Name
	if forwards {
		if err := m.maySkipHere(r); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found *flow
	if forwards {
		var err error
		if found, err = m.copyToSkip(l, r); err != nil {
			return nil, err
		}
	} else {
		found = l.ownToSkip(r.Partition)
	}
	if by := m.refusedOf(l, r); r.Origin == "" && by != "" && (found == nil || found.refusedAt() == rhumb.NoOffset) {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "what region %s refuses was published by region %s: say --origin %s, or --origin %s to leave out this region's own", r.Peer, by, by, m.cfg.Self.Name)
	}
	switch {
	case found == nil && !forwards:
		return nil, rhumb.Errorf(rhumb.KindNotFound, "no edge leads partition %d of %s to region %s%s", r.Partition.Index, r.Partition.Topic.Short(), r.Peer, m.relaysTo(r))
	case found == nil:
		return nil, rhumb.Errorf(rhumb.KindNotFound, "nothing that region %s published goes from here to region %s in partition %d of %s: see 'rhumb link show %s --region %s'", r.Origin, r.Peer, r.Partition.Index, r.Partition.Topic.Short(), r.Peer, m.cfg.Self.Name)
	case found.paused:
		return nil, rhumb.Errorf(rhumb.KindInvalid, "the edge to region %s is paused: 'rhumb link resume %s%s --region %s' first", r.Peer, r.Peer, l.pausedOnly(r.Partition.Topic), m.cfg.Self.Name)
	case l.conn == nil:
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "there is no connection to region %s, which has to confirm a skip: see 'rhumb link check %s --region %s'", r.Peer, r.Peer, m.cfg.Self.Name)
	}
	return found, nil
}

// pausedOnly gives the flag with which just what pauses a topic here is resumed: none
// where the link is paused as a whole. The caller holds mu.
func (l *link) pausedOnly(t rhumb.Topic) string {
	space := rhumb.Space{Tenant: t.Tenant, Namespace: t.Namespace}
	if slices.ContainsFunc(l.pauses, func(p Pause) bool { return p.Space.IsZero() }) {
		return ""
	}
	return " --namespace " + space.String()
}

// maySkipHere refuses a skip of others' records where their origin can do it.
func (m *Manager) maySkipHere(r SkipRequest) error {
	at := m.scopeOf(r.Partition.Topic)
	for _, e := range m.cfg.Policy.Edges() {
		if (scope{e.Tenant, e.Namespace, e.Topic}) == at && e.From == r.Origin && e.To == r.Peer {
			return rhumb.Errorf(rhumb.KindInvalid, "an edge leads from region %s straight to region %s: skip it there, 'rhumb link skip %s %s --partition %d --to %d --region %s'",
				r.Origin, r.Peer, r.Peer, r.Partition.Topic.Short(), r.Partition.Index, r.To, r.Origin)
		}
	}
	return nil
}

// relaysTo says where what this region published is skipped on the way to one that
// only others forward it to.
func (m *Manager) relaysTo(r SkipRequest) string {
	at := m.scopeOf(r.Partition.Topic)
	for _, e := range m.cfg.Policy.Edges() {
		if (scope{e.Tenant, e.Namespace, e.Topic}) == at && e.To == r.Peer && e.Forward {
			return fmt.Sprintf(": region %s forwards it, so say it there: 'rhumb link skip %s %s --origin %s --partition %d --to %d --region %s'",
				e.From, r.Peer, r.Partition.Topic.Short(), m.cfg.Self.Name, r.Partition.Index, r.To, e.From)
		}
	}
	return ""
}

// ownToSkip finds the flow of own records. The caller holds mu.
func (l *link) ownToSkip(at rhumb.Partition) (found *flow) {
	for _, f := range l.flows {
		if f.source.topic != at.Topic || f.source.index != at.Index || f.forwards() {
			continue
		}
		f.mu.Lock()
		settled := f.source.closed != nil && f.status.settledOn != nil
		f.mu.Unlock()
		if !settled && (found == nil || len(f.source.earlier) < len(found.source.earlier)) {
			found = f
		}
	}
	return found
}

// refusedOf names the region whose records the peer refuses of those that are
// forwarded, empty if it refuses none. The caller holds the link's mu.
func (m *Manager) refusedOf(l *link, r SkipRequest) rhumb.RegionName {
	for _, f := range l.flows {
		if f.source.topic != r.Partition.Topic || f.source.index != r.Partition.Index || !f.forwards() || f.refusedAt() == rhumb.NoOffset {
			continue
		}
		if owner, ok := m.cfg.Policy.Owner(f.source.origin); ok {
			return owner.Name
		}
	}
	return ""
}

// copyToSkip finds the flow of records that are forwarded, nil if there is none. The
// caller holds the link's mu.
func (m *Manager) copyToSkip(l *link, r SkipRequest) (found *flow, err error) {
	several := false
	for _, f := range l.flows {
		if f.source.topic != r.Partition.Topic || f.source.index != r.Partition.Index || !f.forwards() {
			continue
		}
		owner, ok := m.cfg.Policy.Owner(f.source.origin)
		if !ok || owner.Name != r.Origin {
			continue
		}
		f.mu.Lock()
		settled, refused := f.status.settledOn != nil, f.status.refused != nil
		f.mu.Unlock()
		switch {
		case refused:
			return f, nil
		case settled:
		case found != nil:
			several = true
		default:
			found = f
		}
	}
	if several {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "several lives of region %s are forwarded to region %s, and of none of them a batch is refused: see 'rhumb link show %s --region %s'", r.Origin, r.Peer, r.Peer, m.cfg.Self.Name)
	}
	return found, nil
}

// place finds where a skip ends, and what the destination is known to have.
func (f *flow) place(r SkipRequest) (to dedup.ChainPoint, after rhumb.Offset, err error) {
	if f.forwards() {
		return f.placeOfCopy(r)
	}
	log := sourceLog{flow: f}
	st, err := log.state()
	if err != nil {
		return to, 0, err
	}
	if after, err = f.past(r.Peer); err != nil {
		return to, 0, err
	}
	after = max(after, f.source.from-1)
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

// past gives up to where the destination is known to have everything, or refuses what
// comes next.
func (f *flow) past(peer rhumb.RegionName) (rhumb.Offset, error) {
	f.mu.Lock()
	known, after := f.status.known, f.status.confirmed
	f.mu.Unlock()
	refused := f.refusedAt()
	if !known && refused == rhumb.NoOffset {
		return 0, rhumb.Errorf(rhumb.KindUnavailable, "region %s has not told yet what it has: try again in a moment", peer)
	}
	return max(after, refused-1), nil
}

// placeOfCopy is place for a life that this region holds a copy of: all offsets are
// its origin's.
func (f *flow) placeOfCopy(r SkipRequest) (to dedup.ChainPoint, after rhumb.Offset, err error) {
	log := newRelayLog(f)
	_, w, err := log.state()
	if err != nil {
		return to, 0, err
	}
	if after, err = f.past(r.Peer); err != nil {
		return to, 0, err
	}
	if r.To <= 0 || r.To > w.Offset+1 {
		return to, 0, rhumb.Errorf(rhumb.KindInvalid, "offset %d is no place to go on with: what this region has of region %s lies below %d", r.To, r.Origin, w.Offset+1)
	}
	b, ok, err := log.firstFrom(r.To)
	switch {
	case err != nil:
		return to, 0, err
	case !ok && r.To <= w.Offset:
		return to, 0, rhumb.Errorf(rhumb.KindInvalid, "this region has nothing at offset %d of region %s: go on with %d", r.To, r.Origin, w.Offset+1)
	case !ok:
		return dedup.ChainPoint{Offset: w.Offset, Chain: w.Chain}, after, nil
	case b.First < r.To:
		return to, 0, rhumb.Errorf(rhumb.KindInvalid, "offset %d lies inside the batch %d to %d, and batches are not split: go on with %d or %d", r.To, b.First, b.Last, b.First, b.Last+1)
	case b.Prev >= r.To:
		return to, 0, rhumb.Errorf(rhumb.KindInvalid, "this region has nothing at offset %d of region %s: go on with %d", r.To, r.Origin, b.First)
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
	f.order.said = true
	o := session.Order{To: f.order.to, By: f.order.by}
	if from := f.order.from; from != nil {
		o.Apart, o.Common = true, from.Offset
	}
	return &o
}
