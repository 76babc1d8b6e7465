package region

import (
	"context"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
)

// Settings of a topic that retention reads; names and meanings are Kafka's.
const (
	configRetentionMs    = "retention.ms"
	configRetentionBytes = "retention.bytes"
	configCleanupPolicy  = "cleanup.policy"
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
	ms, bytes := r.retentionOf(t)
	keep := shard.Retention{MaxBytes: bytes}
	if ms >= 0 {
		keep.BeforeMs = time.Now().UnixMilli() - ms
	}
	for _, p := range t.Partitions {
		s := r.shard(p.Ref.Shard)
		if !p.Ready || s == nil || !s.Leading() {
			continue
		}
		if err := r.retainPartition(ctx, s, p.Ref.ID, keep, t.Configs[configCleanupPolicy] != "compact"); err != nil {
			return err
		}
	}
	return nil
}

// retentionOf is what the topic says, else its namespace, else the region.
func (r *Region) retentionOf(t TopicInfo) (ms, bytes int64) {
	ms, bytes = r.cfg.RetentionMs, r.cfg.RetentionBytes
	if r.cfg.NamespaceRetention != nil {
		nsMs, nsBytes := r.cfg.NamespaceRetention(t.Topic)
		if nsMs != nil {
			ms = *nsMs
		}
		if nsBytes != nil {
			bytes = *nsBytes
		}
	}
	return setting(t, configRetentionMs, ms), setting(t, configRetentionBytes, bytes)
}

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

// setting reads a topic's number. One that is not a number counts as not set: it
// was checked when it was set.
func setting(t TopicInfo, name string, otherwise int64) int64 {
	if v, err := strconv.ParseInt(t.Configs[name], 10, 64); err == nil {
		return v
	}
	return otherwise
}
