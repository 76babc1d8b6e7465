package region

import (
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
)

// What a partition's shard takes and gives; see package shard.
type (
	// AppendRequest is one batch of a producer.
	AppendRequest = shard.AppendRequest
	// AppendResult answers an AppendRequest.
	AppendResult = shard.AppendResult
	// LinkBatch is one batch of another region.
	LinkBatch = shard.LinkBatch
	// LinkSkip moves an origin's watermark where no data does.
	LinkSkip = shard.LinkSkip
	// LinkResult answers a LinkBatch or a LinkSkip.
	LinkResult = shard.LinkResult
	// PartitionState is what a partition's leader knows of it.
	PartitionState = shard.PartitionState
	// PastLife is a life that a partition's log had before.
	PastLife = shard.PastLife
	// LifeChange asks for a new life of a partition's log.
	LifeChange = shard.LifeChange
	// Gap says that records of an origin will never come.
	Gap = shard.Gap
	// Waiter is woken when a partition changes.
	Waiter = shard.Waiter
	// GroupKey names a consumer group or subscription.
	GroupKey = shard.GroupKey
	// OffsetKey names the partition that a committed offset belongs to.
	OffsetKey = shard.OffsetKey
	// OffsetCommit is a group's position in a partition.
	OffsetCommit = shard.OffsetCommit
	// OffsetsUse is what committed offsets take in memory.
	OffsetsUse = shard.OffsetsUse
	// Query asks for batches by local offset.
	Query = shard.Query
	// LargeBatchError is the error of a Query whose first batch is above its bound.
	LargeBatchError = shard.LargeBatchError
	// OriginQuery asks for batches of one origin life by origin offset.
	OriginQuery = shard.OriginQuery
	// Stored is a batch as it was read.
	Stored = shard.Stored
	// Place is where a batch lies in a file.
	Place = shard.Place
)

// NewWaiter makes a waiter.
func NewWaiter() *Waiter { return shard.NewWaiter() }

// NewGatherer makes a waiter that keeps which partitions changed.
func NewGatherer() *Waiter { return shard.NewGatherer() }

// TopicSpec says what topic to create.
type TopicSpec struct {
	Topic      rhumb.Topic
	Partitions int32
	Configs    map[string]string
	// Deletions is the deletion count that the topic is born under.
	Deletions uint64
}

// TopicInfo is what the region knows of a topic. Its map and slice are shared:
// do not change them.
type TopicInfo struct {
	Topic      rhumb.Topic
	ID         rhumb.UUID // Kafka's topic id
	Deletions  uint64
	Configs    map[string]string
	CreatedAt  int64 // ms since 1970
	Partitions []PartitionInfo
}

// PartitionInfo is one partition of a topic.
type PartitionInfo = shard.TopicPartition

// ProducerState is what a partition remembers of one idempotent producer.
type ProducerState = shard.ProducerState

// ErrPartitionLimit means that the region may not have that many partitions.
var ErrPartitionLimit = shard.ErrPartitionLimit

// Ready reports whether all partitions of the topic are there.
func (t TopicInfo) Ready() bool {
	for _, p := range t.Partitions {
		if !p.Ready {
			return false
		}
	}
	return true
}

// Health is the condition of a region's part on this node.
type Health struct {
	// Store is what the disk says: nil, or an error of kind no space or unavailable.
	Store error
	// Shards is the number of shards, Leading that of those which this node leads.
	Shards  int
	Leading int
	// Failed names the shards that stopped, with the reason.
	Failed map[rhumb.ShardID]error
	// InFlight is the number of bytes between producers' requests and answers.
	InFlight int64
}

// OK reports whether every shard works and the disk takes writes.
func (h Health) OK() bool { return h.Store == nil && len(h.Failed) == 0 && h.Leading == h.Shards }
