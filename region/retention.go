package region

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
	"github.com/rhumbmq/rhumb/region/shard"
)

// retain looks at the partitions that this node leads from time to time, and has
// the log start of those that hold too much moved: deleting is a decision of the
// leader, and an entry.
func (r *Region) retain(ctx context.Context) {
	t := time.NewTicker(r.cfg.RetentionInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, topic := range r.Topics() {
			if err := r.retainTopic(ctx, topic); err != nil && ctx.Err() == nil {
				r.log.Warn("retention failed and is tried again", "topic", topic.Topic.String(), "err", err)
			}
		}
		for _, s := range r.shards[1:] {
			if !s.Leading() {
				continue
			}
			if err := s.ExpireProducers(ctx, time.Now().Add(-r.cfg.ProducerExpiry).UnixMilli()); err != nil && ctx.Err() == nil {
				r.log.Warn("forgetting producers failed and is tried again", "shard", s.ID(), "err", err)
			}
		}
		if err := r.sweep(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("sweeping deleted topics failed and is tried again", "err", err)
		}
	}
}

func (r *Region) retainTopic(ctx context.Context, t TopicInfo) error {
	layers := r.Layers(t)
	keep := shard.Retention{MaxBytes: layers.Number(confRetentionBytes)}
	if ms := layers.Number(confRetentionMs); ms >= 0 {
		keep.BeforeMs = time.Now().UnixMilli() - ms
	}
	deletes := layers.Has(confCleanupPolicy, topicconf.Delete)
	for _, p := range t.Partitions {
		s := r.shard(p.Ref.Shard)
		if !p.Ready || s == nil || !s.Leading() {
			continue
		}
		if err := r.retainPartition(ctx, s, p.Ref.ID, keep, deletes); err != nil {
			return err
		}
	}
	return nil
}

var (
	confRetentionMs    = topicconf.Topic(topicconf.RetentionMs)
	confRetentionBytes = topicconf.Topic(topicconf.RetentionBytes)
	confCleanupPolicy  = topicconf.Topic(topicconf.CleanupPolicy)
)

func (r *Region) retainPartition(ctx context.Context, s *shard.Shard, id rhumb.PartitionID, keep shard.Retention, deletes bool) error {
	st, ok := s.State(id)
	if !ok || !deletes || st.LogStart >= st.Flushed {
		return nil
	}
	keep.Limit = st.Flushed
	start := s.Storage().RetentionStart(id, keep)
	if start <= st.LogStart {
		return nil
	}
	_, err := s.MoveLogStart(ctx, id, start, rhumb.ReasonRetention)
	return err
}
