package sim

import (
	"fmt"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator"
)

func partitionsOf(r *region.Region, name rhumb.Topic) []region.PartitionInfo {
	t, ok := r.Topic(name)
	if !ok {
		return nil
	}
	return t.Partitions
}

func watermarkOf(st region.PartitionState, life rhumb.Life) (dedup.Watermark, bool) {
	for _, w := range st.Watermarks {
		if w.Life == life {
			return w, true
		}
	}
	return dedup.Watermark{}, false
}

// unsettled says what a healed mesh still lacks: a topic, a record of an origin
// (the end of I3), or a figure that says so (I8). Tainted lives owe nothing.
func (w *world) unsettled() error {
	for t := range w.plan.topics {
		for from := range w.hosts {
			for to := range w.hosts {
				if from == to || !w.shape.reaches(from)[to] {
					continue
				}
				if err := w.behind(topicName(t), from, to); err != nil {
					return err
				}
			}
		}
	}
	for _, h := range w.hosts {
		if err := w.lagging(h); err != nil {
			return err
		}
	}
	return nil
}

// behind compares what region from published in a topic with what region to
// accounts for.
func (w *world) behind(name rhumb.Topic, from, to int) error {
	source, dest := w.hosts[from].region(), w.hosts[to].region()
	theirs, ours := partitionsOf(source, name), partitionsOf(dest, name)
	if len(theirs) == 0 || len(theirs) != len(ours) {
		return fmt.Errorf("I3: %s has %d partitions in r%d, %d in r%d", name.Name, len(theirs), from, len(ours), to)
	}
	for i := range theirs {
		life := theirs[i].Life
		if w.truth.isTainted(life) {
			continue
		}
		st, ok := source.State(theirs[i].Ref)
		have, ok2 := dest.State(ours[i].Ref)
		if !ok || !ok2 {
			return fmt.Errorf("%s is not ready in r%d or r%d", name.Name, from, to)
		}
		at, known := watermarkOf(have, life)
		if st.OwnLast != rhumb.NoOffset && (!known || at.Offset < st.OwnLast) {
			return fmt.Errorf("I3: %s: r%d published up to %d, r%d accounts for %d (known: %v)", name.Name, from, st.OwnLast, to, at.Offset, known)
		}
	}
	return nil
}

// lagging asks the links of a region: in a settled mesh all say that nothing is
// missing.
func (w *world) lagging(h *host) error {
	for _, l := range h.running.Links().Status().Links {
		if !w.shape.linked(placeOf(h.name), placeOf(l.Peer)) {
			continue
		}
		if l.State != replicator.LinkConnected {
			return fmt.Errorf("%s: link to %s is %s: %s", h.name, l.Peer, l.State, l.LastError)
		}
		for _, p := range l.Partitions {
			if w.truth.isTainted(p.Life) {
				continue
			}
			switch {
			case p.State == replicator.SessionDiverged:
				return fmt.Errorf("I3: %s: %s to %s diverged: %s", h.name, p.Topic.Name, l.Peer, p.LastError)
			case p.State == replicator.SessionClosed:
			case p.State != replicator.SessionIdle && p.State != replicator.SessionFlowing && p.State != replicator.SessionStandby:
				return fmt.Errorf("%s: %s to %s is %s: %s", h.name, p.Topic.Name, l.Peer, p.State, p.LastError)
			case p.Lag.Records != 0 || !p.Lag.Known:
				return fmt.Errorf("I8: %s: %s to %s: nothing is missing, but the lag says %+v", h.name, p.Topic.Name, l.Peer, p.Lag)
			}
		}
	}
	return nil
}
