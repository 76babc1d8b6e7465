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
	again := time.NewTicker(refusedInterval)
	defer again.Stop()
	var debts []debt
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			if r.backlog.refused.Load() != nil { // producers wait: look whether they may go on
				debts = r.retainTopics(ctx, debtors(debts))
			}
			continue
		case <-t.C:
		}
		debts = r.retainTopics(ctx, r.Topics())
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

// refusedInterval is how often it is looked whether refused producers may go on.
const refusedInterval = time.Second

// retainTopics looks at topics. What other regions lack stays, within limits: it
// gives the partitions that keep something for them.
func (r *Region) retainTopics(ctx context.Context, topics []TopicInfo) []debt {
	var debts []debt
	owed := r.backlog.owed()
	for _, topic := range topics {
		more, err := r.retainTopic(ctx, topic, owed)
		debts = append(debts, more...)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("retention failed and is tried again", "topic", topic.Topic.String(), "err", err)
		}
	}
	left, err := r.collect(ctx, debts)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("retention of what other regions lack failed and is tried again", "err", err)
	}
	return left
}

func (r *Region) retainTopic(ctx context.Context, t TopicInfo, owed func(rhumb.PartitionRef) (Owed, bool)) ([]debt, error) {
	layers := r.Layers(t)
	keep := shard.Retention{MaxBytes: layers.Number(confRetentionBytes)}
	if ms := layers.Number(confRetentionMs); ms >= 0 {
		keep.BeforeMs = time.Now().UnixMilli() - ms
	}
	if !layers.Has(confCleanupPolicy, topicconf.Delete) {
		return nil, nil
	}
	var debts []debt
	for _, p := range t.Partitions {
		s := r.shard(p.Ref.Shard)
		if !p.Ready || s == nil || !s.Leading() {
			continue
		}
		d := debt{topic: t.Topic, info: t, index: p.Index, ref: p.Ref, shard: s}
		held, err := r.retainPartition(ctx, &d, keep, owed)
		if err != nil {
			return debts, err
		}
		if held {
			debts = append(debts, d)
		}
	}
	return debts, nil
}

var (
	confRetentionMs    = topicconf.Topic(topicconf.RetentionMs)
	confRetentionBytes = topicconf.Topic(topicconf.RetentionBytes)
	confCleanupPolicy  = topicconf.Topic(topicconf.CleanupPolicy)
)

// retainPartition drops what retention says, but for what other regions lack. It
// reports whether something stays for them.
func (r *Region) retainPartition(ctx context.Context, d *debt, keep shard.Retention, owed func(rhumb.PartitionRef) (Owed, bool)) (held bool, err error) {
	st, ok := d.shard.State(d.ref.ID)
	if !ok || st.LogStart >= st.Flushed {
		return false, nil
	}
	keep.Limit = st.Flushed
	d.due = d.shard.Storage().RetentionStart(d.ref.ID, keep)
	if d.due <= st.LogStart {
		return false, nil
	}
	d.free = d.due
	var owes bool
	if d.owed, owes = owed(d.ref); owes {
		if held, err = r.borrow(d, keep, &st); err != nil {
			return false, err
		}
	}
	if d.free > st.LogStart {
		_, err = d.shard.MoveLogStart(ctx, d.ref.ID, d.free, rhumb.ReasonRetention)
	}
	return held, err
}
