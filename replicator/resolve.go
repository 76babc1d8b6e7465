package replicator

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// DivergedPartition is a partition of this region whose copy in some other region
// differs from it, where it must not.
type DivergedPartition struct {
	Topic     rhumb.Topic
	Partition int32
	// Origin is this region; or, of a copy, one that was removed, or whose directory is
	// gone: there is no log any more that could say which copy is right.
	Origin       rhumb.RegionNumber
	Copy         bool
	Life         rhumb.Life   // that the log has now; of a copy, that differs
	End          rhumb.Offset // next offset to be given; of a copy, the first that it does not account for
	Destinations []DivergedDestination

	ref rhumb.PartitionRef
}

// DivergedDestination is a region whose copy differs.
type DivergedDestination struct {
	Region rhumb.RegionName
	Life   rhumb.Life // that differs: the log's, or one that it had before
	Divergence
}

// Common gives the last offset that the log has in common with all destinations
// that differ, and whether that is exact for all of them.
func (p *DivergedPartition) Common() (at dedup.ChainPoint, exact bool) {
	at, exact = p.Destinations[0].Common, true
	for _, d := range p.Destinations {
		exact = exact && d.Exact
		if d.Common.Offset < at.Offset {
			at = d.Common
		}
	}
	return at, exact
}

// Diverged lists the diverged partitions of this region, as far as links have
// found them since the process started.
func (m *Manager) Diverged() []DivergedPartition {
	m.mu.Lock()
	links := m.sorted()
	m.mu.Unlock()
	found := map[sourceKey]*DivergedPartition{}
	for _, l := range links {
		for _, f := range l.all() {
			f.mu.Lock()
			apart := f.status.apart
			f.mu.Unlock()
			if apart == nil || f.forwards() && !l.orphan(f) {
				continue // else the origin's own log decides
			}
			p := DivergedPartition{Topic: f.source.topic, Partition: f.source.index, ref: f.source.ref, Origin: f.source.origin}
			if f.forwards() {
				p.Copy, p.Life = true, f.source.life
			}
			key := sourceKey{p.ref, p.Life}
			if found[key] == nil {
				found[key] = &p
			}
			found[key].Destinations = append(found[key].Destinations, DivergedDestination{l.name, f.source.life, *apart})
		}
	}
	var all []DivergedPartition
	for _, p := range found {
		st, ok := m.cfg.Region.State(p.ref)
		if !ok {
			continue
		}
		if p.Copy {
			w, _ := markOf(&st, p.Origin, p.Life)
			p.End = w.Offset + 1
		} else {
			p.Life, p.End = st.Life, st.End
		}
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b DivergedPartition) int {
		return cmp.Or(cmp.Compare(a.Topic.String(), b.Topic.String()), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Origin, b.Origin), bytes.Compare(a.Life[:], b.Life[:]))
	})
	return all
}

// all gives the link's flows, in no order.
func (l *link) all() []*flow {
	l.mu.Lock()
	defer l.mu.Unlock()
	flows := make([]*flow, 0, len(l.flows))
	for _, f := range l.flows {
		flows = append(flows, f)
	}
	return flows
}

// Resolution is what giving a diverged partition a new life does, or did.
type Resolution struct {
	DivergedPartition
	Last  rhumb.Offset // the last offset that the old life keeps, NoOffset: none
	Exact bool         // if not, records behind Last may come to a destination twice
	// Done says that it happened; then New is the log's life, and Closed when the
	// old one was closed.
	Done   bool
	New    rhumb.Life
	Closed time.Time
}

// Resolve gives a diverged partition a new life from the last offset on that it
// has in common with all regions that differ, or says what it would do. life is
// that which the log has, as whoever decides saw it; zero: whatever it is. Errors
// are of kind not found if the partition is not diverged, as far as is known
// here, and fenced if its log has another life by now.
func (m *Manager) Resolve(ctx context.Context, at rhumb.Partition, life rhumb.Life, dry bool) (Resolution, error) {
	all := m.Diverged()
	i := slices.IndexFunc(all, func(p DivergedPartition) bool { return p.Topic == at.Topic && p.Partition == at.Index && !p.Copy })
	if i < 0 {
		return Resolution{}, rhumb.Errorf(rhumb.KindNotFound, "partition %d of %s is not diverged, as far as links of this region have found since it started", at.Index, at.Topic.Short())
	}
	r := Resolution{DivergedPartition: all[i]}
	if !life.IsZero() && life != r.Life {
		return r, rhumb.Errorf(rhumb.KindFenced, "partition %d of %s has life %s by now, not %s: look again", at.Index, at.Topic.Short(), r.Life, life)
	}
	common, exact := r.Common()
	st, ok := m.cfg.Region.State(r.ref)
	if !ok || st.Life != r.Life {
		return r, rhumb.Errorf(rhumb.KindUnavailable, "partition %d of %s is changing", at.Index, at.Topic.Short())
	}
	floor, err := m.floorOf(&st, r.ref)
	if err != nil {
		return r, err
	}
	if common.Offset < floor.Offset { // what lies below is gone here: nothing can be sent of it
		common = floor
	}
	r.Last, r.Exact = common.Offset, exact
	if dry {
		return r, nil
	}
	past, now, err := m.cfg.Region.NewLife(ctx, r.ref, region.LifeChange{Old: r.Life, Last: common.Offset, Chain: common.Chain})
	if err != nil {
		return r, err
	}
	r.Done, r.Last, r.New, r.Closed = true, past.Last, now, time.UnixMilli(past.At)
	m.log.Warn("diverged partition got a new life", "topic", r.Topic.String(), "partition", r.Partition,
		"old_life", r.Life.String(), "life", now.String(), "last_common_offset", int64(past.Last), "end", int64(past.End))
	return r, nil
}

// floorOf gives the last own offset of a partition that is gone, with its chain.
func (m *Manager) floorOf(st *partitionState, ref rhumb.PartitionRef) (dedup.ChainPoint, error) {
	if st.LogStart == 0 {
		return dedup.ChainPoint{Offset: rhumb.NoOffset}, nil
	}
	l := sourceLog{flow: &flow{link: &link{m: m}, source: &source{ref: ref}}}
	floor, _, err := l.floorAt(st)
	return floor, err
}
