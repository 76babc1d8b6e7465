package region

import (
	"context"
	"errors"
	"slices"
	"sync"
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
const startTogether = 512

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
		errs := make([]error, len(chunk))
		var wg sync.WaitGroup
		for n, p := range chunk {
			wg.Go(func() { errs[n] = r.startPartition(ctx, p.topic, p.index) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (r *Region) startPartition(ctx context.Context, t *shard.Topic, i int) error {
	s := r.shard(t.Partitions[i].Ref.Shard)
	if s == nil {
		return rhumb.Errorf(rhumb.KindCorrupt, "topic %s: partition %d is in shard %d of %d", t.Name, i, t.Partitions[i].Ref.Shard, len(r.shards))
	}
	id, life, err := s.CreatePartition(ctx, shard.PartitionSpec{TopicID: t.ID, Topic: t.Name, Index: int32(i), Deletions: t.Deletions})
	if err != nil {
		return err
	}
	return r.shards[0].PartitionReady(ctx, t.ID, int32(i), id, life)
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
