package shard

import (
	"context"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// SetEdgeStart fixes the first offset that the edge to a region carries: the log
// start, or the end if latest. It is fixed once: later calls give the same.
func (s *Shard) SetEdgeStart(ctx context.Context, id rhumb.PartitionID, dest rhumb.RegionNumber, latest bool) (rhumb.Offset, error) {
	if start, fixed, err := s.edgeStart(ctx, id, dest); fixed || err != nil {
		return start, err
	}
	return offsetOf(s.control(ctx, &edgeStartCommand{id, dest, latest}))
}

// StartEdge fixes the log start as the first offset that the edge to a region carries,
// unless one is fixed, and gives it. done is called as for [Shard.Append].
func (s *Shard) StartEdge(id rhumb.PartitionID, dest rhumb.RegionNumber, done func(rhumb.Offset, error)) {
	s.propose(&edgeStartCommand{id, dest, false}, func(v any, err error) { done(offsetOf(v, err)) })
}

// edgeStart gives where an edge starts if that is fixed, once it is flushed: a link that
// begins asks it of tens of thousands of partitions, without an entry for each.
func (s *Shard) edgeStart(ctx context.Context, id rhumb.PartitionID, dest rhumb.RegionNumber) (start rhumb.Offset, fixed bool, err error) {
	p := s.partition(id)
	if p == nil {
		return rhumb.NoOffset, false, nil
	}
	p.view.mu.Lock()
	start, fixed = p.view.state.Edges[dest]
	p.view.mu.Unlock()
	if !fixed {
		return rhumb.NoOffset, false, nil
	}
	flushed := make(chan error, 1)
	if err := s.do(func() { s.whenFlushed(func(err error) { flushed <- err }) }); err != nil {
		return rhumb.NoOffset, true, err
	}
	select {
	case err := <-flushed:
		return start, true, err
	case <-ctx.Done():
		return rhumb.NoOffset, true, rhumb.Errorf(rhumb.KindTimeout, "shard %d: %w", s.cfg.ID, context.Cause(ctx))
	}
}

// MoveLogStart drops the records below start; it gives the log start after it.
// Errors are of kind out of range if start lies past the end.
func (s *Shard) MoveLogStart(ctx context.Context, id rhumb.PartitionID, start rhumb.Offset, reason rhumb.Reason) (rhumb.Offset, error) {
	p := s.partition(id)
	if p == nil {
		return rhumb.NoOffset, rhumb.Errorf(rhumb.KindNotFound, "shard %d: no partition %d", s.cfg.ID, id)
	}
	floors, err := s.floorsAt(id, start)
	if err != nil {
		return rhumb.NoOffset, err
	}
	own, err := s.ownFloorAt(id, start)
	if err != nil {
		return rhumb.NoOffset, err
	}
	return offsetOf(s.control(ctx, &logStartCommand{partition: id, start: start, reason: reason, floors: floors, own: own}))
}

func offsetOf(v any, err error) (rhumb.Offset, error) {
	if o, ok := v.(rhumb.Offset); ok {
		return o, err
	}
	return rhumb.NoOffset, err
}

// PartitionSpec says what log to start.
type PartitionSpec struct {
	TopicID   rhumb.UUID
	Topic     rhumb.Topic
	Index     int32
	Deletions uint64
}

// CreatePartition starts a partition's log with a new life. If the topic id has
// a log of that index already, it gives that one.
func (s *Shard) CreatePartition(ctx context.Context, spec PartitionSpec) (rhumb.PartitionID, rhumb.Life, error) {
	v, err := s.control(ctx, spec.command())
	if err != nil {
		return 0, rhumb.Life{}, err
	}
	p := v.(*partition)
	return p.id, p.life, nil
}

func (spec *PartitionSpec) command() *createPartitionCommand {
	return &createPartitionCommand{spec.TopicID, spec.Topic, spec.Index, spec.Deletions, rhumb.NewLife()}
}

// StartPartition is CreatePartition for who does not wait: done is called as for
// [Shard.Append].
func (s *Shard) StartPartition(spec PartitionSpec, done func(rhumb.PartitionID, rhumb.Life, error)) {
	s.propose(spec.command(), func(v any, err error) {
		if err != nil {
			done(0, rhumb.Life{}, err)
			return
		}
		p := v.(*partition)
		done(p.id, p.life, nil)
	})
}

// DropTopic removes a topic's partitions and committed offsets from this shard. done is
// called as for [Shard.Append].
func (s *Shard) DropTopic(id rhumb.UUID, done func(error)) {
	s.propose(&dropTopicCommand{id}, func(_ any, err error) { done(err) })
}

// TopicRequest says what topic to create.
type TopicRequest struct {
	Topic     rhumb.Topic
	ID        rhumb.UUID
	Deletions uint64
	Configs   map[string]string
	Shards    []rhumb.ShardID // of each partition
	Limit     int             // of partitions in the region, 0 for none
}

// CreateTopic enters a topic. Errors are of kind exists, with the topic, fenced
// if it was born under a lower deletion count than the name has, or
// [ErrPartitionLimit].
func (s *Shard) CreateTopic(ctx context.Context, r TopicRequest) (*Topic, error) {
	return topicOf(s.control(ctx, &createTopicCommand{r.Topic, r.ID, r.Deletions, sortedConfigs(r.Configs), r.Shards, uint64(max(r.Limit, 0))}))
}

// GrowTopic gives a topic more partitions: shards names the shard of each,
// including those that it has. The region's partitions stay within limit, if it
// is not 0: [ErrPartitionLimit].
func (s *Shard) GrowTopic(ctx context.Context, id rhumb.UUID, shards []rhumb.ShardID, limit int) (*Topic, error) {
	return topicOf(s.control(ctx, &growTopicCommand{id, shards, uint64(max(limit, 0))}))
}

// SetConfigs replaces a topic's settings if they are what before says, else
// [ErrChanged].
func (s *Shard) SetConfigs(ctx context.Context, id rhumb.UUID, before, configs map[string]string) (*Topic, error) {
	old := sortedConfigs(before)
	return topicOf(s.control(ctx, &setConfigsCommand{id, sortedConfigs(configs), &old}))
}

// PutSettings replaces the settings of a scope, which belong to no topic, if they
// are what before says, else [ErrChanged].
func (s *Shard) PutSettings(ctx context.Context, scope string, before, configs map[string]string) error {
	_, err := s.control(ctx, &putSettingsCommand{scope, sortedConfigs(configs), sortedConfigs(before)})
	return err
}

// DeleteTopic raises a name's deletion count; the topic that was born below it
// is deleted. It gives that topic, nil if there was none.
func (s *Shard) DeleteTopic(ctx context.Context, name rhumb.Topic, deletions uint64) (*Topic, error) {
	return topicOf(s.control(ctx, &deleteTopicCommand{name, deletions}))
}

// DeleteHere deletes a topic and leaves its name's deletion count as it is. With
// mark, [Shard.DeletedHere] tells of it from then on. It gives the topic, nil if
// there was none.
func (s *Shard) DeleteHere(ctx context.Context, name rhumb.Topic, mark bool) (*Topic, error) {
	return topicOf(s.control(ctx, &deleteHereCommand{name, mark}))
}

// DeletedHere gives the deletion count of the topic that was last deleted in this
// region alone, false if none was.
func (s *Shard) DeletedHere(name rhumb.Topic) (uint64, bool) {
	n, err := strconv.ParseUint(s.Settings(topicScope(name))[deletedHere], 10, 64)
	return n, err == nil
}

func topicOf(v any, err error) (*Topic, error) {
	t, _ := v.(*Topic)
	return t, err
}

// PartitionReady notes where a topic's partition is. done is called as for [Shard.Append].
func (s *Shard) PartitionReady(topic rhumb.UUID, index int32, id rhumb.PartitionID, life rhumb.Life, done func(error)) {
	s.propose(&partitionReadyCommand{topic, index, id, life}, func(_ any, err error) { done(err) })
}

// TopicGone notes that nothing is left of a deleted topic. done is called as for
// [Shard.Append].
func (s *Shard) TopicGone(id rhumb.UUID, done func(error)) {
	s.propose(&topicGoneCommand{id}, func(_ any, err error) { done(err) })
}

// InitRegion gives the region its id. The first one stays.
func (s *Shard) InitRegion(ctx context.Context, id rhumb.UUID) (rhumb.UUID, error) {
	v, err := s.control(ctx, &initRegionCommand{id})
	if err != nil {
		return rhumb.UUID{}, err
	}
	return v.(rhumb.UUID), nil
}

// ProducerBlock gives out a block of producer ids that was never given out.
func (s *Shard) ProducerBlock(ctx context.Context) (int64, error) {
	v, err := s.control(ctx, &producerBlockCommand{})
	if err != nil {
		return 0, err
	}
	return v.(int64), nil
}
