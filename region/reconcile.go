package region

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
)

// retryPause is how long the reconciler waits after something did not work.
const retryPause = 500 * time.Millisecond

func (r *Region) wakeReconciler() {
	select {
	case r.work <- struct{}{}:
	default: // it will look anyway
	}
}

// reconcile makes the data shards agree with what shard 0 says of topics: it
// starts the logs of new partitions and removes those of deleted topics. Every
// step can be repeated, so it only compares, and starts again after an error.
func (r *Region) reconcile(ctx context.Context) {
	swept := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.work:
		}
		if !r.allLeading() {
			continue
		}
		err := r.reconcileOnce(ctx, !swept)
		if err == nil {
			if !swept {
				swept = true
				close(r.ready)
				r.log.Info("region is ready", "shards", len(r.shards))
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.log.Warn("reconciling topics failed and is tried again", "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPause):
			r.wakeReconciler()
		}
	}
}

func (r *Region) allLeading() bool {
	for _, s := range r.shards {
		if !s.Leading() {
			return false
		}
	}
	return true
}

func (r *Region) reconcileOnce(ctx context.Context, first bool) error {
	if first && r.ClusterID().IsZero() {
		if _, err := r.shards[0].InitRegion(ctx, rhumb.NewUUID()); err != nil {
			return err
		}
	}
	unready, doomed := r.shards[0].Unsettled()
	if err := r.startPartitions(ctx, unready); err != nil {
		return err
	}
	for _, t := range doomed {
		if err := r.dropTopic(ctx, t.ID, r.shards); err != nil {
			return err
		}
		if err := r.shards[0].TopicGone(ctx, t.ID); err != nil {
			return err
		}
	}
	if first {
		return r.sweep(ctx)
	}
	return nil
}

// startTogether is how many partitions are started at the same time, so that a
// large topic, or many small ones, cost few flushes.
const startTogether = 2048

// missing is a partition of a topic that has no log yet.
type missing struct {
	topic *shard.Topic
	index int
}

// startPartitions starts the logs of topics' partitions that have none.
func (r *Region) startPartitions(ctx context.Context, topics []*shard.Topic) error {
	var all []missing
	for _, t := range topics {
		for i, p := range t.Partitions {
			if !p.Ready {
				all = append(all, missing{t, i})
			}
		}
	}
	for chunk := range slices.Chunk(all, startTogether) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs := make([]error, len(chunk))
		var left atomic.Int64
		left.Store(int64(len(chunk)))
		finished := make(chan struct{})
		for n, p := range chunk {
			r.startPartition(p.topic, p.index, func(err error) {
				if errs[n] = err; left.Add(-1) == 0 {
					close(finished)
				}
			})
		}
		select {
		case <-finished:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// startPartition starts the log of a topic's partition and notes where it is. done is called once, maybe
// by a shard's goroutine.
func (r *Region) startPartition(t *shard.Topic, i int, done func(error)) {
	s := r.shard(t.Partitions[i].Ref.Shard)
	if s == nil {
		done(rhumb.Errorf(rhumb.KindCorrupt, "topic %s: partition %d is in shard %d of %d", t.Name, i, t.Partitions[i].Ref.Shard, len(r.shards)))
		return
	}
	spec := shard.PartitionSpec{TopicID: t.ID, Topic: t.Name, Index: int32(i), Deletions: t.Deletions}
	s.StartPartition(spec, func(id rhumb.PartitionID, life rhumb.Life, err error) {
		if err != nil {
			done(err)
			return
		}
		r.shards[0].PartitionReady(t.ID, int32(i), id, life, done)
	})
}

func (r *Region) dropTopic(ctx context.Context, id rhumb.UUID, shards []*shard.Shard) error {
	for _, s := range shards {
		if _, has := s.TopicIDs()[id]; !has {
			continue
		}
		if err := s.DropTopic(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what is left of topics that shard 0 does not know: a commit of
// offsets may have come after its topic was deleted. Shard 0 is asked last, since
// it knows a topic before any other shard does.
func (r *Region) sweep(ctx context.Context) error {
	for _, s := range r.shards[1:] {
		for id := range s.TopicIDs() {
			if _, ok := r.shards[0].TopicByID(id); ok {
				continue
			}
			if err := s.DropTopic(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}
