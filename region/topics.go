package region

import (
	"context"
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
)

// MaxPartitions bounds the partitions of one topic.
const MaxPartitions = 10000

// infoOf puts together what shard 0 knows of a topic and which lives its logs have
// now: those are decided in the partitions' shards.
func (r *Region) infoOf(t *shard.Topic) TopicInfo {
	info := TopicInfo{Topic: t.Name, ID: t.ID, Deletions: t.Deletions, Configs: t.Configs, CreatedAt: t.CreatedAt, Partitions: t.Partitions}
	shared := true
	for i, p := range t.Partitions {
		s := r.shard(p.Ref.Shard)
		if !p.Ready || s == nil || !s.Renamed() {
			continue
		}
		if life, past, ok := s.Lives(p.Ref.ID); ok && life != p.Life {
			if shared {
				info.Partitions, shared = slices.Clone(t.Partitions), false
			}
			info.Partitions[i].Life, info.Partitions[i].Past = life, past
		}
	}
	return info
}

// Topic finds a topic by its name. Partitions that are not ready yet are in it.
func (r *Region) Topic(name rhumb.Topic) (TopicInfo, bool) {
	t, ok := r.shards[0].Topic(name)
	if !ok {
		return TopicInfo{}, false
	}
	return r.infoOf(t), true
}

// TopicByID finds a topic by its Kafka id.
func (r *Region) TopicByID(id rhumb.UUID) (TopicInfo, bool) {
	t, ok := r.shards[0].TopicByID(id)
	if !ok {
		return TopicInfo{}, false
	}
	return r.infoOf(t), true
}

// Topics gives all topics, in no order.
func (r *Region) Topics() []TopicInfo {
	live, _ := r.shards[0].Topics()
	out := make([]TopicInfo, len(live))
	for i, t := range live {
		out[i] = r.infoOf(t)
	}
	return out
}

// TopicsMark is a moment in the history of the region's topics, as far as this
// process knows it. The zero mark is before everything.
type TopicsMark struct{ Topics, Lives uint64 }

// TopicChanges is what happened to topics since a mark.
type TopicChanges struct {
	Mark TopicsMark // what the next question starts from
	// Whole: it cannot be told which topics changed, so all are to be looked at.
	Whole   bool
	Changed []TopicInfo // that are there, in no order
	Gone    int         // topics that are not there any more
}

// TopicsSince gives what happened to topics since a mark: its cost grows with the
// changes, not with the topics.
func (r *Region) TopicsSince(m TopicsMark) TopicChanges {
	lives := r.lives.Load()
	c := r.shards[0].TopicsSince(m.Topics)
	out := TopicChanges{Mark: TopicsMark{c.Next, lives}, Whole: c.Whole || lives != m.Lives, Gone: c.Gone}
	if !out.Whole {
		for _, t := range c.Changed {
			out.Changed = append(out.Changed, r.infoOf(t))
		}
	}
	return out
}

// Deletions gives the deletion count of a topic's name: topics that are born
// under a lower count are refused.
func (r *Region) Deletions(name rhumb.Topic) uint64 { return r.shards[0].Deletions(name) }

// CreateTopic makes a topic and waits until all its partitions are usable. If it
// exists, it gives what is there and an error of kind exists. A topic that is
// born under a lower deletion count than the name has is refused as fenced, one
// for whose partitions there is no room with [ErrPartitionLimit]. A disk that is short
// of space refuses as it does for producers.
func (r *Region) CreateTopic(ctx context.Context, spec TopicSpec) (TopicInfo, error) {
	if err := spec.Topic.Validate(); err != nil {
		return TopicInfo{}, err
	}
	if spec.Partitions < 1 || spec.Partitions > MaxPartitions {
		return TopicInfo{}, rhumb.Errorf(rhumb.KindInvalid, "topic %s: %d partitions, must be 1 to %d", spec.Topic, spec.Partitions, MaxPartitions)
	}
	if _, exists := r.Topic(spec.Topic); !exists {
		if err := r.cfg.Store.Writable(); err != nil {
			return TopicInfo{}, err // what is left is for what must be written
		}
	}
	id := rhumb.NewUUID()
	t, err := r.shards[0].CreateTopic(ctx, shard.TopicRequest{
		Topic: spec.Topic, ID: id, Deletions: spec.Deletions, Configs: maps.Clone(spec.Configs),
		Shards: r.place(id, spec.Partitions), Limit: r.cfg.PartitionLimit})
	if err != nil {
		if t != nil {
			return r.infoOf(t), err
		}
		return TopicInfo{}, err
	}
	return r.waitUsable(ctx, t.ID)
}

// place chooses the shard of each partition: one after the other from where the
// topic's id says, so that a topic is spread and small topics differ.
func (r *Region) place(id rhumb.UUID, partitions int32) []rhumb.ShardID {
	var h uint64
	for _, b := range id {
		h = h*31 + uint64(b)
	}
	out := make([]rhumb.ShardID, partitions)
	for i := range out {
		out[i] = rhumb.ShardID(1 + (h+uint64(i))%uint64(r.cfg.Shards))
	}
	return out
}

// waitUsable waits until all partitions of a topic are there.
func (r *Region) waitUsable(ctx context.Context, id rhumb.UUID) (TopicInfo, error) {
	changed, cancel := r.awaited.add(r.shards[0], id)
	defer cancel()
	for {
		t, ok := r.TopicByID(id)
		switch {
		case !ok:
			return TopicInfo{}, rhumb.Errorf(rhumb.KindNotFound, "topic %s was deleted while it was made", id)
		case t.Ready():
			return t, nil
		}
		select {
		case <-changed:
		case <-r.ended:
			return t, rhumb.Errorf(rhumb.KindUnavailable, "region %s is stopped", r.cfg.Name)
		case <-ctx.Done():
			return t, rhumb.Errorf(rhumb.KindTimeout, "topic %s: partitions are not ready: %w", t.Topic, context.Cause(ctx))
		}
	}
}

// GrowTopic gives a topic n partitions and waits until they are usable. Fewer
// than it has is no error and changes nothing.
func (r *Region) GrowTopic(ctx context.Context, name rhumb.Topic, n int32) (TopicInfo, error) {
	t, ok := r.Topic(name)
	switch {
	case !ok:
		return TopicInfo{}, rhumb.Errorf(rhumb.KindNotFound, "no topic %s", name)
	case n < 1 || n > MaxPartitions:
		return t, rhumb.Errorf(rhumb.KindInvalid, "topic %s: %d partitions, must be 1 to %d", name, n, MaxPartitions)
	case int(n) > len(t.Partitions):
		if err := r.cfg.Store.Writable(); err != nil {
			return t, err
		}
		if _, err := r.shards[0].GrowTopic(ctx, t.ID, r.place(t.ID, n), r.cfg.PartitionLimit); err != nil {
			return t, err
		}
	}
	return r.waitUsable(ctx, t.ID)
}

// DeleteTopic raises the deletion count of a topic's name and deletes the topic
// that was born below it, if there is one. The name is free at once; partitions
// and committed offsets go soon after. Calling it again changes nothing.
func (r *Region) DeleteTopic(ctx context.Context, name rhumb.Topic, deletions uint64) error {
	_, err := r.shards[0].DeleteTopic(ctx, name, deletions)
	return err
}

// DeleteHere deletes a topic of this region alone: other regions keep theirs. With
// mark the region remembers it, so that links do not bring the topic back; who
// creates it here again has a copy like a region that was added. It is no error if
// there is no such topic.
func (r *Region) DeleteHere(ctx context.Context, name rhumb.Topic, mark bool) error {
	_, err := r.shards[0].DeleteHere(ctx, name, mark)
	return err
}

// DeletedHere reports whether a topic of a deletion count was deleted in this region
// alone and not created since.
func (r *Region) DeletedHere(name rhumb.Topic, count uint64) bool {
	if _, there := r.Topic(name); there {
		return false
	}
	n, ok := r.shards[0].DeletedHere(name)
	return ok && count <= n
}

// Subscribe has fn called after each change of topics or of the lives of their
// logs, until cancel. fn runs on a shard's goroutine and must not block or call back.
func (r *Region) Subscribe(fn func()) (cancel func()) {
	s := &subscriber{fn}
	r.mu.Lock()
	r.subscribers[s] = struct{}{}
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		delete(r.subscribers, s)
		r.mu.Unlock()
	}
}

func (r *Region) topicsChanged() {
	r.wakeReconciler()
	r.awaited.wake(r.shards[0])
	r.mu.Lock()
	subscribers := make([]*subscriber, 0, len(r.subscribers))
	for s := range r.subscribers {
		subscribers = append(subscribers, s)
	}
	r.mu.Unlock()
	for _, s := range subscribers {
		s.fn()
	}
}
