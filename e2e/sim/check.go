package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// readBytes is how much of a log is read at once.
const readBytes = 64 << 10

// record is one record as a region stores it.
type record struct {
	offset rhumb.Offset // in the region's log
	origin rhumb.Origin
	value  string
}

// copyOf is one partition as one region has it.
type copyOf struct {
	region  int
	number  rhumb.RegionNumber
	topic   region.TopicInfo
	state   region.PartitionState
	gaps    []region.Gap
	records []record
}

// check reads every log and holds it against the invariants.
func (w *world) check() error {
	for t := range w.plan.topics {
		var copies []copyOf
		for i := range w.hosts {
			c, err := w.read(i, topicName(t))
			if err != nil {
				return err
			}
			copies = append(copies, c)
		}
		for _, rule := range []func([]copyOf) error{w.checkOffsets, w.checkNames, w.checkOrder, w.checkEdges, w.checkAcks, w.checkResolved, w.checkRelayed} {
			if err := rule(copies); err != nil {
				return fmt.Errorf("topic %s: %w", topicName(t).Name, err)
			}
		}
	}
	return w.checkRestart()
}

// read reads one region's copy of a topic's first partition.
func (w *world) read(i int, name rhumb.Topic) (copyOf, error) { return w.readPartition(i, name, 0) }

func (w *world) readPartition(i int, name rhumb.Topic, partition int) (copyOf, error) {
	r := w.hosts[i].region()
	t, _ := r.Topic(name)
	p := t.Partitions[partition]
	st, _ := r.State(p.Ref)
	c := copyOf{region: i, number: w.hosts[i].running.Self().Number, topic: t, state: st, gaps: r.Gaps(p.Ref)}
	w.truth.born(p.Life, birth{i, name, t.Deletions})
	for from := st.LogStart; from < st.End; {
		batches, err := r.Read(p.Ref, region.Query{From: from, Limit: math.MaxInt64, MaxBytes: readBytes})
		if err != nil {
			return c, fmt.Errorf("I1: r%d cannot read %s at %d: %w", i, name.Name, from, err)
		}
		if len(batches) == 0 {
			return c, fmt.Errorf("I1: r%d has nothing of %s from %d on, its end is %d", i, name.Name, from, st.End)
		}
		for _, b := range batches {
			values, err := decodeValues(b.Batch)
			if err != nil {
				return c, fmt.Errorf("I1: r%d: damaged batch of %s at %d: %w", i, name.Name, b.Base, err)
			}
			for k, v := range values {
				c.records = append(c.records, record{
					offset: b.Base + rhumb.Offset(k), value: v,
					origin: rhumb.Origin{Region: b.Envelope.Region, Life: b.Envelope.Life, Offset: b.Envelope.First + rhumb.Offset(k)},
				})
			}
			from = b.Base + rhumb.Offset(len(values))
		}
	}
	return c, nil
}

// checkOffsets: a log's offsets follow each other without a hole (nothing here
// is compacted), and its own records' origins are their offsets.
func (w *world) checkOffsets(copies []copyOf) error {
	for _, c := range copies {
		for i, r := range c.records {
			if i > 0 && r.offset != c.records[i-1].offset+1 {
				return fmt.Errorf("I2: r%d: offset %d follows %d", c.region, r.offset, c.records[i-1].offset)
			}
			if c.state.Owns(r.origin.Life) && (r.origin.Region != c.number || r.origin.Offset != r.offset) {
				return fmt.Errorf("I2: r%d: own record at %d says that it is %s", c.region, r.offset, r.origin)
			}
		}
	}
	return nil
}

// checkNames: no offset of a life names two different records, in any region
// (I2), and no region has a record that its origin forgot (I12).
func (w *world) checkNames(copies []copyOf) error {
	names := map[rhumb.Origin]record{}
	own := map[rhumb.Life]map[rhumb.Offset]bool{}
	for _, c := range copies {
		own[c.state.Life] = map[rhumb.Offset]bool{}
		for _, r := range c.records {
			if r.origin.Life == c.state.Life {
				own[c.state.Life][r.offset] = true
			}
			if w.truth.isTainted(r.origin.Life) {
				continue
			}
			if other, seen := names[r.origin]; seen && other.value != r.value {
				return fmt.Errorf("I2: %s is %q and %q", r.origin, other.value, r.value)
			}
			names[r.origin] = r
		}
	}
	for _, c := range copies {
		for _, r := range c.records {
			source := slices.IndexFunc(copies, func(o copyOf) bool { return o.state.Life == r.origin.Life })
			if source < 0 || w.truth.isTainted(r.origin.Life) || r.origin.Offset < copies[source].state.LogStart {
				continue
			}
			if !own[r.origin.Life][r.origin.Offset] {
				return fmt.Errorf("I12: r%d holds %s (%q), which its origin does not have", c.region, r.origin, r.value)
			}
		}
	}
	return nil
}

// checkOrder: at a destination, an origin's records stand in its order, once
// each, and none is missing between what both retain (I3).
func (w *world) checkOrder(copies []copyOf) error {
	for _, dest := range copies {
		last := map[rhumb.Life]rhumb.Offset{}
		have := map[rhumb.Origin]bool{}
		for _, r := range dest.records {
			if before, seen := last[r.origin.Life]; seen && r.origin.Offset <= before {
				return fmt.Errorf("I3: r%d: %s at %d comes after origin offset %d", dest.region, r.origin, r.offset, before)
			}
			last[r.origin.Life] = r.origin.Offset
			have[r.origin] = true
		}
		for _, source := range copies {
			if err := w.checkComplete(source, dest, have); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) checkComplete(source, dest copyOf, have map[rhumb.Origin]bool) error {
	life := source.state.Life
	if source.region == dest.region || w.truth.isTainted(life) || !w.shape.reaches(source.region)[dest.region] {
		return nil
	}
	mark, _ := watermarkOf(dest.state, life)
	for _, r := range source.records {
		if r.origin.Life != life || have[r.origin] || r.origin.Offset <= mark.Floor {
			continue
		}
		return fmt.Errorf("I3: r%d lacks %s (%q): watermark %d, floor %d, gaps %v", dest.region, r.origin, r.value, mark.Offset, mark.Floor, dest.gaps)
	}
	return nil
}

// checkEdges: every foreign record is of a life that began in another region, or in
// this one before it lost it with its disk, under the same name and deletion count (I4).
func (w *world) checkEdges(copies []copyOf) error {
	for _, c := range copies {
		for _, r := range c.records {
			if c.state.Owns(r.origin.Life) {
				continue
			}
			b, known := w.truth.birthOf(r.origin.Life)
			switch {
			case !known:
				return fmt.Errorf("I4: r%d holds %s of a life that nobody began", c.region, r.origin)
			case b.region == c.region && !w.truth.isTainted(r.origin.Life):
				return fmt.Errorf("I4: r%d: %s came back to where it was published", c.region, r.origin)
			case !w.may[b.region][c.region]:
				return fmt.Errorf("I4: r%d holds %s of r%d, whose records no topology so far brings there", c.region, r.origin, b.region)
			case b.topic != c.topic.Topic || b.deletions != c.topic.Deletions:
				return fmt.Errorf("I4: r%d: %s is of %s under deletion count %d, the topic is under %d", c.region, r.origin, b.topic, b.deletions, c.topic.Deletions)
			}
		}
	}
	return nil
}

// checkAcks: what a producer was told is stored is there, at that offset (I1),
// once: a retry did not store it again.
func (w *world) checkAcks(copies []copyOf) error {
	for _, c := range copies {
		at := map[rhumb.Offset]string{}
		times := map[string]int{}
		for _, r := range c.records {
			at[r.offset] = r.value
			if times[r.value]++; times[r.value] > 1 && !w.truth.isTainted(r.origin.Life) {
				return fmt.Errorf("I3: r%d holds %q twice", c.region, r.value)
			}
		}
		if w.truth.isTainted(c.state.Life) {
			continue
		}
		for _, a := range w.truth.acks {
			if a.life != c.state.Life {
				continue
			}
			for k, v := range a.values {
				if o := a.base + rhumb.Offset(k); o >= c.state.LogStart && at[o] != v {
					return fmt.Errorf("I1: r%d: offset %d was acknowledged as %q and is %q", c.region, o, v, at[o])
				}
			}
		}
	}
	return nil
}

// checkRestart: a region that stops and starts has the same tables (I11).
func (w *world) checkRestart() error {
	for i, h := range w.hosts {
		before := w.states(i)
		if err := w.switchOff(i, (*host).stop); err != nil {
			return fmt.Errorf("%s does not stop cleanly: %w", h.name, err)
		}
		if err := w.switchOn(i); err != nil {
			return fmt.Errorf("I11: %w", err)
		}
		if after := w.states(i); !slices.Equal(before, after) {
			return fmt.Errorf("I11: %s was\n%v\nand is after its restart\n%v", h.name, before, after)
		}
	}
	return nil
}

// states prints the tables of a region's partitions, without what a new term
// changes.
func (w *world) states(i int) []string {
	var out []string
	r := w.hosts[i].region()
	for t := range w.plan.topics {
		for _, p := range partitionsOf(r, topicName(t)) {
			st, _ := r.State(p.Ref)
			st.LeaderEpoch = 0
			st.Bytes = 0 // a settled file counts its share as a whole
			out = append(out, fmt.Sprintf("%+v", st))
		}
	}
	return out
}
