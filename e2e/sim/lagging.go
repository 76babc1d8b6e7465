package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator"
)

// lagEvery is the mean time between two looks at the figures of lag.
const lagEvery = 20 * time.Second

// sleepUntil waits for a moment of the run, and meanwhile holds, at random moments,
// what links say of lag against the truth (I8).
func (w *world) sleepUntil(at time.Time, rng *rand.Rand) error {
	for {
		next := time.Now().Add(time.Duration(rng.ExpFloat64() * float64(lagEvery)))
		if next.After(at) {
			time.Sleep(time.Until(at))
			return nil
		}
		time.Sleep(time.Until(next))
		if err := w.checkLag(); err != nil {
			return err
		}
	}
}

// forgets reports whether regions of the plan lose what they have confirmed: then a
// source cannot know how far they are before they are back.
func (p plan) forgets() bool {
	return p.weights[actBackup]+p.weights[actRestore]+p.weights[actRebuild] > 0
}

// checkLag asks every running region what its links say, and every destination what
// it has.
func (w *world) checkLag() error {
	if w.plan.forgets() {
		return nil
	}
	w.take(1)
	defer w.power.Release(1)
	for _, h := range w.hosts {
		if h.running == nil {
			continue
		}
		before := h.ends()
		status := h.running.Links().Status()
		for _, l := range status.Links {
			dest := w.hostOf(l.Peer)
			if dest == nil || dest.running == nil {
				continue
			}
			for _, p := range l.Partitions {
				if err := h.checkFlow(dest, p, before, status.At); err != nil {
					return fmt.Errorf("I8: %s to %s: %s: %w", h.name, l.Peer, p.Topic.Name, err)
				}
				w.lagChecks++
			}
		}
	}
	return nil
}

func (w *world) hostOf(name rhumb.RegionName) *host {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// ends gives, for each life of the region's logs, the last own offset that may leave.
func (h *host) ends() map[rhumb.Life]rhumb.Offset {
	out := map[rhumb.Life]rhumb.Offset{}
	for _, t := range h.region().Topics() {
		for _, p := range t.Partitions {
			if st, ok := h.region().State(p.Ref); ok && p.Ready {
				out[st.Life] = min(st.OwnLast, st.Flushed-1)
			}
		}
	}
	return out
}

// checkFlow holds one flow's figures against what its destination has now, and what
// the source had before it was asked: both only grow.
func (h *host) checkFlow(dest *host, p replicator.PartitionStatus, before map[rhumb.Life]rhumb.Offset, at time.Time) error {
	end, own := before[p.Life]
	if !own || p.Forwarded {
		return nil
	}
	have := rhumb.NoOffset
	for _, there := range partitionsOf(dest.region(), p.Topic) {
		if there.Index != p.Partition {
			continue
		}
		if st, ok := dest.region().State(there.Ref); ok {
			mark, _ := watermarkOf(st, p.Life)
			have = mark.Offset
			if mark.Life != p.Life {
				have = rhumb.NoOffset
			}
		}
	}
	if !p.Lag.Known && p.Lag.Records == 0 && end > max(have, h.floor(p)) {
		return fmt.Errorf("nothing is known, and the lag says %+v", p.Lag)
	}
	missing, oldest, err := h.missing(p, have, end)
	switch {
	case err != nil || missing == 0:
		return err
	case p.Lag.Known && p.Confirmed > have:
		return fmt.Errorf("%d counts as confirmed, the destination has %d", p.Confirmed, have)
	case p.Lag.Records < missing:
		return fmt.Errorf("%d records are missing behind %d, the lag says %+v", missing, have, p.Lag)
	case p.State == replicator.SessionIdle:
		return fmt.Errorf("it says idle, %d records are missing behind %d", missing, have)
	case p.Lag.Age+time.Millisecond < at.Sub(oldest):
		return fmt.Errorf("the oldest missing record is %s old, the lag says %+v", at.Sub(oldest), p.Lag)
	}
	return nil
}

// floor is the last own offset that a trim has taken from a partition here: nothing up
// to it is missing anywhere.
func (h *host) floor(p replicator.PartitionStatus) rhumb.Offset {
	for _, here := range partitionsOf(h.region(), p.Topic) {
		if st, ok := h.region().State(here.Ref); ok && here.Index == p.Partition && st.Life == p.Life {
			return st.OwnFloor
		}
	}
	return rhumb.NoOffset
}

// missing counts own records of the source behind an offset, up to another one, of
// those that one read gives: at least so many are missing.
func (h *host) missing(p replicator.PartitionStatus, after, end rhumb.Offset) (n int64, oldest time.Time, err error) {
	if after >= end {
		return 0, oldest, nil
	}
	for _, here := range partitionsOf(h.region(), p.Topic) {
		if here.Index != p.Partition || here.Life != p.Life {
			continue
		}
		found, err := h.region().ReadOrigin(here.Ref, region.OriginQuery{Region: h.running.Self().Number, Life: p.Life,
			From: after + 1, Limit: math.MaxInt64, MaxBytes: readBytes})
		if err != nil {
			return 0, oldest, err
		}
		st, _ := h.region().State(here.Ref)
		for _, b := range found {
			if e := b.Envelope; e.First > after && e.Last <= end {
				// A trim may end inside a batch: what it took is not missing anywhere.
				trimmed := min(max(0, int64(st.OwnFloor-e.First)+1), int64(e.Count))
				if n += int64(e.Count) - trimmed; oldest.IsZero() {
					oldest = time.UnixMilli(e.AppendTime)
				}
			}
		}
	}
	return n, oldest, nil
}
