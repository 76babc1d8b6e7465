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
		var shipped map[rhumb.PartitionRef]rhumb.Offset
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
				after, known := shipped[p.Ref]
				if !known {
					after = rhumb.NoOffset
				}
				r.compactPartition(p, c, after)
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

// compactPartition sets how a partition is compacted. Edges have carried its own
// records up to shipped; a node that does not lead knows nothing of that.
func (r *Region) compactPartition(p PartitionInfo, c *shard.Compaction, shipped rhumb.Offset) {
	s := r.shard(p.Ref.Shard)
	if s == nil || !p.Ready {
		return
	}
	st, ok := s.State(p.Ref.ID)
	if !ok {
		return
	}
	if !st.Leading {
		shipped = rhumb.NoOffset
	}
	own := *c
	own.Limit = st.Flushed
	hold := func(life rhumb.Life) {
		own.Held = append(own.Held, shard.Held{Source: shard.Source{Region: r.cfg.Number, Life: life}, After: shipped})
	}
	hold(st.Life)
	for i := range st.Past { // batches are stored under the life that they came in
		hold(st.Past[i].Life)
	}
	s.Storage().SetCompaction(p.Ref.ID, &own)
}

// SetShipped sets what tells up to which own offset all edges that lead from a
// partition have carried it; one that is not named has edges of which nothing is known
// yet. Until it is set, nothing is known of any.
func (r *Region) SetShipped(fn func() map[rhumb.PartitionRef]rhumb.Offset) { r.shippedFn.Store(&fn) }

// shipped asks for it; the map is never nil.
func (r *Region) shipped() map[rhumb.PartitionRef]rhumb.Offset {
	if fn := r.shippedFn.Load(); fn != nil {
		if m := (*fn)(); m != nil {
			return m
		}
	}
	return map[rhumb.PartitionRef]rhumb.Offset{}
}

// milliseconds gives a setting's time; more than a duration holds is for ever.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if n <= 0 {
		return 0
	}
	return time.Duration(min(n, most)) * time.Millisecond
}
