package broker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// Topic finds a topic by name.
func (b *Broker) Topic(t rhumb.Topic) (TopicInfo, bool) { return b.region.Topic(t) }

// TopicByID finds a topic by its Kafka topic id.
func (b *Broker) TopicByID(id rhumb.UUID) (TopicInfo, bool) { return b.region.TopicByID(id) }

// Topics lists all topics, sorted by name.
func (b *Broker) Topics() []TopicInfo {
	topics := slices.Clone(b.region.Topics())
	slices.SortFunc(topics, func(x, y TopicInfo) int {
		return cmp.Or(
			cmp.Compare(x.Topic.Tenant, y.Topic.Tenant),
			cmp.Compare(x.Topic.Namespace, y.Topic.Namespace),
			cmp.Compare(x.Topic.Name, y.Topic.Name))
	})
	return topics
}

// Ensure finds the topic, or creates it with defaults if that is allowed. It
// returns when the topic can be written, and kind not found if there is none.
func (b *Broker) Ensure(ctx context.Context, t rhumb.Topic, create bool) (TopicInfo, error) {
	if info, ok := b.region.Topic(t); ok {
		return info, nil
	}
	if !create || b.cfg.NoAutoCreate {
		return TopicInfo{}, rhumb.Errorf(rhumb.KindNotFound, "topic %s does not exist", t.Short())
	}
	info, err := b.CreateTopic(ctx, TopicSpec{Topic: t})
	if rhumb.KindOf(err) == rhumb.KindExists {
		if found, ok := b.region.Topic(t); ok {
			return found, nil // another client asked at the same time
		}
		err = rhumb.Errorf(rhumb.KindUnavailable, "topic %s is being created", t.Short())
	}
	return info, err
}

// internalTopics are the names of topics in which Kafka keeps its own state. A region has
// none of them, since it keeps such state beside the data; yet Kafka's clients and tools
// know the names, hide such topics and leave them alone, so nobody may have one.
var internalTopics = map[rhumb.TopicName]bool{
	"__consumer_offsets": true, "__transaction_state": true, "__share_group_state": true, "__cluster_metadata": true,
}

// ErrInternalTopic refuses to create a topic under a name that is Kafka's own.
var ErrInternalTopic = errors.New("prohibited")

// CheckTopic reports what would stop CreateTopic, without creating anything.
// Zero partitions mean the default.
func (b *Broker) CheckTopic(spec TopicSpec) (TopicSpec, error) {
	if err := spec.Topic.Validate(); err != nil {
		return spec, err
	}
	if internalTopics[spec.Topic.Name] {
		return spec, rhumb.Errorf(rhumb.KindInvalid, "Creation of internal topic %s is %w.", spec.Topic.Name, ErrInternalTopic)
	}
	if b.cfg.Policy != nil {
		if err := b.cfg.Policy.CheckTopic(spec.Topic); err != nil {
			return spec, err
		}
	}
	spec.Partitions = orDefault(spec.Partitions, b.cfg.Partitions)
	if spec.Partitions < 1 || spec.Partitions > b.cfg.MaxPartitions {
		return spec, rhumb.Errorf(rhumb.KindInvalid, "topic %s: %d partitions, want 1 to %d",
			spec.Topic.Short(), spec.Partitions, b.cfg.MaxPartitions)
	}
	if err := topicconf.CheckTopic(spec.Configs, slices.Collect(maps.Keys(spec.Configs))...); err != nil {
		return spec, err
	}
	if _, ok := b.region.Topic(spec.Topic); ok {
		return spec, rhumb.Errorf(rhumb.KindExists, "Topic '%s' already exists.", spec.Topic.Short())
	}
	return spec, b.RoomFor(spec.Topic, int(spec.Partitions))
}

// CreateTopic creates a topic and returns when it can be used.
func (b *Broker) CreateTopic(ctx context.Context, spec TopicSpec) (TopicInfo, error) {
	if err := b.left(); err != nil {
		return TopicInfo{}, err
	}
	if err := b.freshen(ctx, spec.Topic); err != nil {
		return TopicInfo{}, err
	}
	spec, err := b.CheckTopic(spec)
	if err != nil {
		return TopicInfo{}, err
	}
	release, err := b.reserve(spec.Topic, int(spec.Partitions), int(spec.Partitions))
	if err != nil {
		return TopicInfo{}, err
	}
	defer release()
	spec = b.asInMesh(spec)
	info, err := b.region.CreateTopic(ctx, spec)
	if err != nil {
		return TopicInfo{}, err
	}
	if b.cfg.Names != nil && len(info.Configs) > 0 && b.ofMesh(&info) {
		if err := b.publish(ctx, &info); err != nil { // it is told again until the mesh has it
			b.log.Warn("the mesh has not heard of a topic's settings yet", "topic", info.Topic.String(), "err", err)
		}
	}
	b.log.Info("topic created", "topic", info.Topic.String(), "partitions", len(info.Partitions))
	return info, nil
}

// GrowTopic gives a topic n partitions and returns when they can be used.
func (b *Broker) GrowTopic(ctx context.Context, t *TopicInfo, n int32) error {
	if err := b.left(); err != nil {
		return err
	}
	release, err := b.reserve(t.Topic, int(n), max(0, int(n)-len(t.Partitions)))
	if err != nil {
		return err
	}
	defer release()
	if _, err := b.region.GrowTopic(ctx, t.Topic, n); err != nil {
		return err
	}
	b.log.Info("topic grown", "topic", t.Topic.String(), "partitions", n)
	return nil
}

// DeleteTopic deletes a topic: this region's copy of it, or every region's, as its
// namespace says.
func (b *Broker) DeleteTopic(ctx context.Context, info TopicInfo) error {
	return b.DeleteTopicIn(ctx, info, "", false)
}

// DeleteTopicIn deletes a topic in this region or in the whole mesh, whatever its
// namespace says; an empty scope leaves it to that. A deletion in the mesh needs the
// configuration store: kind unavailable without it. One in this region alone takes what
// other regions lack of it from them, too: kind unavailable if that is so, after a
// moment, unless it is forced.
func (b *Broker) DeleteTopicIn(ctx context.Context, info TopicInfo, scope configstore.Scope, force bool) error {
	log := b.log.With("topic", info.Topic.String())
	if b.cfg.Names == nil {
		if scope == configstore.ScopeMesh {
			return rhumb.Errorf(rhumb.KindUnsupported, "topic %s: this region is in no mesh", info.Topic.Short())
		}
		err := b.region.DeleteTopic(ctx, info.Topic, info.Deletions+1)
		if err == nil {
			log.Info("topic deleted", "deletions", info.Deletions+1)
		}
		return err
	}
	said, shared := b.cfg.Names.Scope(info.Topic)
	switch cmp.Or(scope, said) {
	case configstore.ScopeMesh:
		count, err := b.cfg.Names.DeleteLife(ctx, info.Topic, info.Deletions)
		if err != nil {
			return err
		}
		if err := b.region.DeleteTopic(ctx, info.Topic, count); err != nil {
			return err
		}
		log.Info("topic deleted in the mesh", "deletions", count)
	case configstore.ScopeRegion:
		if shared && !force {
			if err := b.awaitCopies(ctx, info); err != nil {
				return err
			}
		}
		if err := b.region.DeleteHere(ctx, info.Topic, shared); err != nil {
			return err
		}
		log.Info("topic deleted in this region", "deletions", info.Deletions)
	default:
		return rhumb.Errorf(rhumb.KindInvalid, "scope must be mesh or region, not %q", string(scope))
	}
	return nil
}

// How long a deletion in one region waits for others to have the records, and how often
// it looks.
const (
	copiesWait  = 3 * time.Second
	copiesLook  = 100 * time.Millisecond
	copiesNamed = "wait until they have it ('rhumb link list'), or lose it there with 'rhumb topic delete --scope region --force'"
)

// awaitCopies waits a moment until every region has what a topic has for it.
func (b *Broker) awaitCopies(ctx context.Context, info TopicInfo) error {
	for end := time.Now().Add(copiesWait); ; {
		names, err := b.region.Lacking(info)
		switch {
		case err == nil && len(names) == 0:
			return nil
		case time.Now().Before(end):
		case err != nil:
			return rhumb.Errorf(rhumb.KindUnavailable, "topic %s is not deleted: %w", info.Topic.Short(), err)
		default:
			return rhumb.Errorf(rhumb.KindUnavailable, "topic %s is not deleted: records of it have not reached %v, and nobody else would bring them there; stop its producers, "+copiesNamed, info.Topic.Short(), names)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(copiesLook):
		}
	}
}

// partitionOf finds the partition of a topic, kind not found if it has none such.
func partitionOf(t *TopicInfo, index int32) (PartitionInfo, error) {
	if index < 0 || int(index) >= len(t.Partitions) {
		return PartitionInfo{}, rhumb.Errorf(rhumb.KindNotFound, "topic %s has %d partitions, no partition %d",
			t.Topic.Short(), len(t.Partitions), index)
	}
	return t.Partitions[index], nil
}

// State gives the positions of one partition of the topic.
func (b *Broker) State(t *TopicInfo, partition int32) (PartitionState, error) {
	p, err := partitionOf(t, partition)
	if err != nil {
		return PartitionState{}, err
	}
	state, ok := b.region.State(p.Ref)
	if !ok || !state.Leading {
		return PartitionState{}, notLeader(t, partition)
	}
	return state, nil
}

// Producers gives what a partition of the topic remembers of idempotent
// producers, by their ids.
func (b *Broker) Producers(ctx context.Context, t *TopicInfo, partition int32) ([]ProducerState, error) {
	if _, err := b.State(t, partition); err != nil {
		return nil, err
	}
	list, err := b.region.Producers(ctx, t.Partitions[partition].Ref)
	slices.SortFunc(list, func(x, y ProducerState) int { return cmp.Compare(x.ID, y.ID) })
	return list, err
}

// Disk looks at the disk that this node stores on.
func (b *Broker) Disk() (Disk, error) { return b.region.Disk() }

func notLeader(t *TopicInfo, partition int32) error {
	return rhumb.Errorf(rhumb.KindNotLeader, "topic %s partition %d is not led by this node", t.Topic.Short(), partition)
}

// DeleteRecords moves the partition's log start up to before, -1 for its end,
// and gives the log start. Topics that are only compacted keep theirs: kind
// forbidden.
func (b *Broker) DeleteRecords(ctx context.Context, t *TopicInfo, partition int32, before rhumb.Offset) (rhumb.Offset, error) {
	state, err := b.State(t, partition)
	if err != nil {
		return rhumb.NoOffset, err
	}
	if before < -1 || before > state.End {
		return rhumb.NoOffset, rhumb.Errorf(rhumb.KindOutOfRange, "topic %s partition %d: offset %d is above the end, %d",
			t.Topic.Short(), partition, before, state.End)
	}
	if layers := b.layers(t); !layers.Has(confCleanup, topicconf.Delete) {
		return rhumb.NoOffset, rhumb.Errorf(rhumb.KindForbidden, "topic %s has the cleanup.policy %q, which keeps records",
			t.Topic.Short(), layers.Get(confCleanup))
	}
	return b.region.DeleteRecords(ctx, t.Partitions[partition].Ref, before)
}
