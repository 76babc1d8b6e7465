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
	ids := make([]rhumb.UUID, len(doomed))
	for i, t := range doomed {
		ids[i] = t.ID
	}
	if err := r.dropTopics(ctx, ids, true); err != nil {
		return err
	}
	if first {
		return r.sweep(ctx)
	}
	return nil
}

// How many partitions are started, and how many topics are dropped, at the same time, so
// that a large topic, or many small ones, cost few flushes.
const (
	startTogether = 2048
	dropTogether  = 512
)

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
		if err := awaitAll(ctx, len(chunk), func(n int, done func(error)) {
			r.startPartition(chunk[n].topic, chunk[n].index, done)
		}); err != nil {
			return err
		}
	}
	return nil
}

// awaitAll begins n steps and waits until each has called its done, which it does once,
// maybe on a shard's goroutine. It gives what failed, joined; none at all is fine.
func awaitAll(ctx context.Context, n int, begin func(i int, done func(error))) error {
	if n == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	errs := make([]error, n)
	var left atomic.Int64
	left.Store(int64(n))
	finished := make(chan struct{})
	for i := range n {
		begin(i, func(err error) {
			if errs[i] = err; left.Add(-1) == 0 {
				close(finished)
			}
		})
	}
	select {
	case <-finished:
		return errors.Join(errs...)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// dropTopics removes what shards have of topics; with note, shard 0 then forgets each of
// which nothing is left. All of a chunk are dropped before one is forgotten: a crash or an
// error between the two leaves topics that are dropped again, which changes nothing.
func (r *Region) dropTopics(ctx context.Context, topics []rhumb.UUID, note bool) error {
	for chunk := range slices.Chunk(topics, dropTogether) {
		if err := r.dropAll(ctx, chunk); err != nil {
			return err
		}
		if !note {
			continue
		}
		if err := awaitAll(ctx, len(chunk), func(i int, done func(error)) { r.shards[0].TopicGone(chunk[i], done) }); err != nil {
			return err
		}
	}
	return nil
}

// dropAll removes what shards have of topics, from all shards at the same time.
func (r *Region) dropAll(ctx context.Context, topics []rhumb.UUID) error {
	type part struct {
		of *shard.Shard
		id rhumb.UUID
	}
	ids := make(map[rhumb.UUID]struct{}, len(topics))
	for _, id := range topics {
		ids[id] = struct{}{}
	}
	var parts []part
	for _, s := range r.shards {
		for id := range s.HeldTopics(ids) {
			parts = append(parts, part{s, id})
		}
	}
	for chunk := range slices.Chunk(parts, startTogether) {
		if err := awaitAll(ctx, len(chunk), func(i int, done func(error)) { chunk[i].of.DropTopic(chunk[i].id, done) }); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what is left of topics that shard 0 does not know: a commit of
// offsets may have come after its topic was deleted. Shard 0 is asked last, since
// it knows a topic before any other shard does.
func (r *Region) sweep(ctx context.Context) error {
	var left []rhumb.UUID
	for _, s := range r.shards[1:] {
		for id := range s.TopicIDs() {
			if _, ok := r.shards[0].TopicByID(id); !ok {
				left = append(left, id)
			}
		}
	}
	return r.dropTopics(ctx, left, false)
}
