package region

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
	"github.com/rhumbmq/rhumb/region/shard"
)

var (
	confDeleteRetention = topicconf.Topic(topicconf.DeleteRetention)
	confMinCompaction   = topicconf.Topic(topicconf.MinCompaction)
	confMaxCompaction   = topicconf.Topic(topicconf.MaxCompaction)
	confDirtyRatio      = topicconf.Topic(topicconf.DirtyRatio)
)

// compact tells the store from time to time how this node's partitions are to be
// compacted. Each node compacts for itself, whether it leads or not.
func (r *Region) compact(ctx context.Context) {
	t := time.NewTicker(r.cfg.CompactionInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		var shipped map[rhumb.PartitionRef]Shipped
		for _, topic := range r.Topics() {
			layers := r.Layers(topic)
			if !layers.Has(confCleanupPolicy, topicconf.Compact) {
				r.compactTopic(topic, nil)
				continue
			}
			if shipped == nil {
				shipped = r.shipped()
			}
			c := &shard.Compaction{}
			c.DeleteRetention = milliseconds(layers.Number(confDeleteRetention))
			c.MinLag = milliseconds(layers.Number(confMinCompaction))
			c.MaxLag = milliseconds(layers.Number(confMaxCompaction))
			c.DirtyRatio = layers.Ratio(confDirtyRatio)
			for _, p := range topic.Partitions {
				var carried *Shipped
				if s, known := shipped[p.Ref]; known {
					carried = &s
				}
				r.compactPartition(p, c, carried)
			}
		}
	}
}

// compactTopic sets how all partitions of a topic are compacted.
func (r *Region) compactTopic(t TopicInfo, c *shard.Compaction) {
	for _, p := range t.Partitions {
		if s := r.shard(p.Ref.Shard); s != nil && p.Ready {
			s.Storage().SetCompaction(p.Ref.ID, c)
		}
	}
}

// compactPartition sets how a partition is compacted. shipped is what edges have
// carried of it, nil if that is not known; a node that does not lead does not know.
func (r *Region) compactPartition(p PartitionInfo, c *shard.Compaction, shipped *Shipped) {
	s := r.shard(p.Ref.Shard)
	if s == nil || !p.Ready {
		return
	}
	st, ok := s.State(p.Ref.ID)
	if !ok {
		return
	}
	policy := *c
	policy.Limit, policy.Held = st.Flushed, r.held(&st, shipped)
	s.Storage().SetCompaction(p.Ref.ID, &policy)
}

// held lists the lives of which edges may still have something to carry.
func (r *Region) held(st *shard.PartitionState, shipped *Shipped) (all []shard.Held) {
	none := rhumb.Offset(rhumb.NoOffset)
	hold := func(region rhumb.RegionNumber, life rhumb.Life, after, here rhumb.Offset) {
		if !st.Leading {
			after, here = none, none
		}
		all = append(all, shard.Held{Source: shard.Source{Region: region, Life: life}, After: after, Here: here})
	}
	own := none
	if shipped != nil {
		own = shipped.Own
	}
	hold(r.cfg.Number, st.Life, own, own)
	for i := range st.Past { // batches are stored under the life that they came in
		hold(r.cfg.Number, st.Past[i].Life, own, own)
	}
	if shipped == nil { // every copy may have to be forwarded
		for i := range st.Watermarks {
			if w := &st.Watermarks[i]; !st.Owns(w.Life) {
				hold(w.Region, w.Life, none, none)
			}
		}
		return all
	}
	for _, c := range shipped.Copies {
		hold(c.Region, c.Life, c.After, c.Here)
	}
	return all
}

// Shipped is what all edges that lead from a partition have carried of it: confirmed,
// so flushed at their destinations.
type Shipped struct {
	// Own is the offset up to which they have carried the region's own records.
	Own rhumb.Offset
	// Copies are the lives of other logs that an edge forwards. Those that are not
	// named go nowhere.
	Copies []ShippedCopy
}

// ShippedCopy is what was carried of one life that the partition has a copy of.
type ShippedCopy struct {
	Region rhumb.RegionNumber
	Life   rhumb.Life
	After  rhumb.Offset // at the origin: up to it everything was carried
	Here   rhumb.Offset // in this log, the same
}

// SetShipped sets what tells how far all edges that lead from a partition have carried
// it; one that is not named has edges of which nothing is known yet. Until it is set,
// nothing is known of any.
func (r *Region) SetShipped(fn func() map[rhumb.PartitionRef]Shipped) { r.shippedFn.Store(&fn) }

// shipped asks for it; the map is never nil.
func (r *Region) shipped() map[rhumb.PartitionRef]Shipped {
	if fn := r.shippedFn.Load(); fn != nil {
		if m := (*fn)(); m != nil {
			return m
		}
	}
	return map[rhumb.PartitionRef]Shipped{}
}

// milliseconds gives a setting's time; more than a duration holds is for ever.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if n <= 0 {
		return 0
	}
	return time.Duration(min(n, most)) * time.Millisecond
}
