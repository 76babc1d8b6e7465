package sim

import (
	"fmt"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// checkRelayed holds each two regions between which an edge leads against each other:
// what the one has, of any origin that the edge carries, the other one has too,
// unless it dropped that itself. What it has as a gap nobody may still have who was
// on a path all the time (I3).
func (w *world) checkRelayed(copies []copyOf) error {
	if len(w.plan.shapes) == 0 {
		return nil
	}
	have := make([]map[rhumb.Origin]bool, len(copies))
	for i, c := range copies {
		have[i] = map[rhumb.Origin]bool{}
		for _, r := range c.records {
			have[i][r.origin] = true
		}
		if len(c.gaps) > 0 && !w.truth.trimmed(c.topic.Topic) {
			return fmt.Errorf("I3: r%d has gaps %v, although no region ever dropped anything", i, c.gaps)
		}
	}
	for _, e := range w.shape.edges {
		source, dest := copies[placeOf(e.From)], copies[placeOf(e.To)]
		for _, r := range source.records {
			own := r.origin.Region == source.number
			if !own && !e.Forward || have[dest.region][r.origin] || w.truth.isTainted(r.origin.Life) || dest.state.Owns(r.origin.Life) {
				continue
			}
			if err := w.excuse(source, dest, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// excuse says why a region may lack a record that another one has for it.
func (w *world) excuse(source, dest copyOf, r record) error {
	mark, _ := watermarkOf(dest.state, r.origin.Life)
	g, gap := gapOver(dest.gaps, r.origin)
	switch {
	case r.origin.Offset > mark.Floor:
		return fmt.Errorf("I3: r%d has %s (%q), r%d lacks it: watermark %d, floor %d", source.region, r.origin, r.value, dest.region, mark.Offset, mark.Floor)
	case gap && w.changes == 1:
		return fmt.Errorf("I3: r%d has %s, which r%d gave up as a gap from %d to %d (%s)", source.region, r.origin, dest.region, g.From, g.To, g.Reason)
	case !gap && dest.state.LogStart == 0:
		return fmt.Errorf("I3: r%d has %s, r%d lacks it below its floor %d, without a gap and without having dropped anything", source.region, r.origin, dest.region, mark.Floor)
	}
	return nil
}

func gapOver(gaps []region.Gap, o rhumb.Origin) (region.Gap, bool) {
	for _, g := range gaps {
		if g.Region == o.Region && g.Life == o.Life && g.From <= o.Offset && o.Offset <= g.To {
			return g, true
		}
	}
	return region.Gap{}, false
}
