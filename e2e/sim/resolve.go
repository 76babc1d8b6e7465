package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// resolved is a partition that an operator gave a new life.
type resolved struct {
	region int
	topic  rhumb.Topic
}

// resolve does what an operator does about regions that came back with an old
// copy: each diverged partition gets a new life, and is written to. It reports
// whether any was.
func (w *world) resolve() (any bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i, h := range w.hosts {
		for _, d := range h.running.Links().Diverged() {
			if d.Copy { // of a directory that is gone
				if _, err := h.running.Links().ResolveCopy(ctx, rhumb.Partition{Topic: d.Topic, Index: d.Partition}, d.Life, "operator", false); err != nil {
					return any, fmt.Errorf("resolve a copy of %s in r%d: %w", d.Topic.Name, i, err)
				}
				w.note("FAULT r%d: copies of %s's life %s are left apart", i, d.Topic.Name, d.Life)
				any = true
				continue
			}
			r, err := h.running.Links().Resolve(ctx, rhumb.Partition{Topic: d.Topic, Index: d.Partition}, d.Life, false)
			if err != nil {
				return any, fmt.Errorf("resolve %s in r%d: %w", d.Topic.Name, i, err)
			}
			w.note("FAULT r%d: %s goes on under life %s behind %d", i, d.Topic.Name, r.New, r.Last)
			any = true
			w.resolutions = append(w.resolutions, resolved{i, d.Topic})
			if err := w.write(ctx, i, d.Topic); err != nil {
				return any, err
			}
		}
	}
	return any, nil
}

// write stores some records in a topic.
func (w *world) write(ctx context.Context, i int, name rhumb.Topic) error {
	return w.use(i, func(r *region.Region) error {
		producer, err := r.ProducerID(ctx)
		if err != nil {
			return err
		}
		for k := range 3 {
			values := []string{fmt.Sprintf("r%d/%s/resolved/%d/%d", i, name.Name, len(w.resolutions), k)}
			raw, header := encodeBatch(producer, int32(k), values)
			done := make(chan region.AppendResult, 1)
			r.Append(partitionsOf(r, name)[0].Ref, region.AppendRequest{Batch: raw, Header: header}, func(a region.AppendResult) { done <- a })
			if a := <-done; a.Err != nil {
				return a.Err
			}
		}
		return nil
	})
}

// checkResolved: every record that a region whose partition got a new life has of
// its own is in every other region, whatever life names it there (I3).
func (w *world) checkResolved(copies []copyOf) error {
	for _, r := range w.resolutions {
		source := copies[r.region]
		if source.topic.Topic != r.topic {
			continue
		}
		for _, dest := range copies {
			if dest.region == r.region {
				continue
			}
			have := map[string]bool{}
			for _, rec := range dest.records {
				if rec.origin.Region == source.number && source.state.Owns(rec.origin.Life) {
					have[fmt.Sprint(rec.origin.Offset, rec.value)] = true
				}
			}
			for _, rec := range source.records {
				if source.state.Owns(rec.origin.Life) && !have[fmt.Sprint(rec.offset, rec.value)] {
					return fmt.Errorf("I3: r%d lacks %s (%q) after a new life was given: gaps %v", dest.region, rec.origin, rec.value, dest.gaps)
				}
			}
		}
	}
	return nil
}
