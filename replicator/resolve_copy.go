package replicator

import (
	"cmp"
	"context"
	"slices"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Two copies of one life may differ, since its origin was restored from an old copy of
// its directory, and that region may be removed before anybody resolved it. No log is
// left to which a new life could be given. Both copies stay as they are: the one that
// reaches less far gets a gap up to where the other one ends, with that one's chain, so
// that from there on they agree and nothing of the life is owed between them.

// orphan reports whether no region has the log any more that a flow carries a copy of:
// its origin was removed, or the life is an earlier one of this region or of the peer,
// of a directory that is gone.
func (l *link) orphan(f *flow) bool {
	o := f.source.origin
	return o == l.m.cfg.Self.Number || o == l.number || l.m.isGone(o)
}

// ResolveCopy leaves diverged copies of a life, of which no log is left, as they are, or
// says which regions' copies differ. Other regions that have to store a gap are asked
// over their links, and it waits for them: asked again, it goes on with what is left.
// Errors are of kind not found if no copy differs, as far as is known here, unavailable
// without a link that is needed, and timeout.
func (m *Manager) ResolveCopy(ctx context.Context, at rhumb.Partition, life rhumb.Life, by string, dry bool) (Resolution, error) {
	all := m.Diverged()
	i := slices.IndexFunc(all, func(p DivergedPartition) bool {
		return p.Topic == at.Topic && p.Partition == at.Index && p.Copy && p.Life == life
	})
	if i < 0 {
		return Resolution{}, rhumb.Errorf(rhumb.KindNotFound, "no copy of life %s in partition %d of %s is diverged, as far as links of this region have found since it started", life, at.Index, at.Topic.Short())
	}
	r := Resolution{DivergedPartition: all[i]}
	common, exact := r.Common()
	r.Last, r.Exact = common.Offset, exact
	if dry {
		return r, nil
	}
	// The one that reaches furthest first: then this copy is the furthest of all.
	slices.SortStableFunc(r.Destinations, func(a, b DivergedDestination) int { return cmp.Compare(b.Watermark, a.Watermark) })
	for _, d := range r.Destinations {
		if err := m.leaveApart(ctx, &r.DivergedPartition, d, by); err != nil {
			return r, err
		}
	}
	r.Done = true
	return r, nil
}

// leaveApart brings this copy and a destination's to one end.
func (m *Manager) leaveApart(ctx context.Context, p *DivergedPartition, d DivergedDestination, by string) error {
	st, ok := m.cfg.Region.State(p.ref)
	w, have := markOf(&st, p.Origin, p.Life)
	l := m.link(d.Region)
	if !ok || !have || l == nil {
		return rhumb.Errorf(rhumb.KindUnavailable, "partition %d of %s is changing", p.Partition, p.Topic.Short())
	}
	m.log.Warn("an operator leaves diverged copies as they are", "peer_region", d.Region, "topic", p.Topic.String(), "partition", p.Partition,
		"origin", p.Origin, "life", p.Life.String(), "last_common_offset", int64(d.Common.Offset), "here", int64(w.Offset), "there", int64(d.Watermark), "by", by)
	switch {
	case d.Watermark == w.Offset && d.Chain == w.Chain:
		return nil // it was left apart a moment ago
	case d.Watermark > w.Offset:
		return m.skipHere(ctx, p, dedup.Skip{From: min(d.Common.Offset, w.Offset), To: d.Watermark, Chain: d.Chain, Reason: rhumb.ReasonDiverged, By: by})
	case d.Watermark == w.Offset: // one of them has to reach further: nothing was published there
		if err := m.skipHere(ctx, p, dedup.Skip{From: w.Offset, To: w.Offset + 1, Chain: w.Chain, Reason: rhumb.ReasonForeign}); err != nil {
			return err
		}
		w.Offset++
	}
	l.mu.Lock()
	f, conn := l.flows[sourceKey{p.ref, p.Life}], l.conn
	l.mu.Unlock()
	if f == nil || conn == nil {
		return rhumb.Errorf(rhumb.KindUnavailable, "there is no connection to region %s, which has to confirm it: see 'rhumb link check %s --region %s'", d.Region, d.Region, m.cfg.Self.Name)
	}
	return f.carryOut(ctx, &skipOrder{to: dedup.ChainPoint{Offset: w.Offset, Chain: w.Chain}, by: by, from: &d.Common, done: make(chan struct{})})
}

// skipHere moves this region's watermark of a life, and has the links see it.
func (m *Manager) skipHere(ctx context.Context, p *DivergedPartition, s dedup.Skip) error {
	answer := make(chan linkResult, 1)
	m.cfg.Region.SkipLink(p.ref, region.LinkSkip{Region: p.Origin, Life: p.Life, Skip: s}, func(r linkResult) { answer <- r })
	select {
	case <-ctx.Done():
		return rhumb.Errorf(rhumb.KindTimeout, "it is not known whether it happened: say it again")
	case r := <-answer:
		if r.Err == nil && r.Verdict != dedup.Accept {
			r.Err = rhumb.Errorf(rhumb.KindUnavailable, "partition %d of %s is changing (%s): look again", p.Partition, p.Topic.Short(), r.Verdict)
		}
		if r.Err != nil {
			return r.Err
		}
	}
	m.mu.Lock()
	links := m.sorted()
	m.mu.Unlock()
	for _, l := range links {
		l.mu.Lock()
		if f := l.flows[sourceKey{p.ref, p.Life}]; f != nil {
			f.mu.Lock()
			f.status.apart = nil // where they part, they parted from what was here
			f.mu.Unlock()
			f.nudge()
			l.queue(f)
		}
		l.mu.Unlock()
	}
	return nil
}
