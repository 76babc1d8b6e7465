package broker

import (
	"context"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Catalog is the region's list of topics.
type Catalog interface {
	// Topic finds a topic by name.
	Topic(rhumb.Topic) (TopicInfo, bool)
	// TopicByID finds a topic by its Kafka topic id.
	TopicByID(rhumb.UUID) (TopicInfo, bool)
	// Topics lists all topics, in no particular order.
	Topics() []TopicInfo
	// CreateTopic returns when the topic can be used; kind exists if it is there.
	CreateTopic(context.Context, TopicSpec) (TopicInfo, error)
	// DeleteTopic deletes the topic if it was born below the deletion count.
	DeleteTopic(ctx context.Context, topic rhumb.Topic, deletions uint64) error
}

// Log is the region's partitions. Its reads are safe from any goroutine.
type Log interface {
	// Append hands a batch over; it returns at once. Appends to one partition
	// take place in the order of the calls. done is called once.
	Append(ref rhumb.PartitionRef, req AppendRequest, done func(AppendResult))
	// State gives the partition's positions, false if it does not exist here.
	State(rhumb.PartitionRef) (PartitionState, bool)
	// Read gives whole committed batches from the one that holds the offset on:
	// at least one if there is one, else within maxBytes.
	Read(ref rhumb.PartitionRef, from rhumb.Offset, maxBytes int) ([]Stored, error)
	// ByTime gives the first batch whose max timestamp is not below ts.
	ByTime(ref rhumb.PartitionRef, ts int64) (Stored, bool, error)
	// Latest gives the first batch among those with the largest timestamp.
	Latest(rhumb.PartitionRef) (Stored, bool, error)
	// DeleteRecords moves the log start up to before; -1 means the end.
	DeleteRecords(ctx context.Context, ref rhumb.PartitionRef, before rhumb.Offset) (rhumb.Offset, error)
	// Watch signals the channel (without blocking) when the partition's end or
	// log start grows or it is deleted, until stop is called.
	Watch(ref rhumb.PartitionRef, signal chan struct{}) (stop func())
}

// Groups is the region's memory of group offsets.
type Groups interface {
	// CommitOffsets stores positions of a group, all or none.
	CommitOffsets(context.Context, GroupKey, []OffsetCommit) error
	// Offsets gives all positions of a group.
	Offsets(GroupKey) ([]OffsetCommit, error)
}

// Region is what the broker needs of the region that it stands in.
type Region interface {
	Catalog
	Log
	Groups
	// ProducerID gives an id that was never given before in the mesh.
	ProducerID(context.Context) (int64, error)
	// ClusterID is the Kafka cluster id of the region.
	ClusterID() rhumb.UUID
}

// TopicSpec says how a topic is to be created.
type TopicSpec struct {
	Topic      rhumb.Topic
	Partitions int32
	Configs    map[string]string
	Deletions  uint64 // the deletion count that it is born under
}

// TopicInfo is a topic as the region knows it. It is shared: read only.
type TopicInfo struct {
	Topic      rhumb.Topic
	ID         rhumb.UUID
	Deletions  uint64
	Configs    map[string]string
	Partitions []PartitionInfo
}

// PartitionInfo is one partition of a topic; it stands at its Index in the list.
type PartitionInfo struct {
	Index int32
	Ref   rhumb.PartitionRef
	Ready bool // can be written
}

// AppendRequest is one batch of a producer.
type AppendRequest struct {
	Batch  []byte // owned by the region until done, patched in place
	Header codec.BatchHeader
}

// AppendResult says what became of an append.
type AppendResult struct {
	Base       rhumb.Offset
	LogStart   rhumb.Offset
	AppendTime int64 // ms since 1970, 0 for a duplicate
	Duplicate  bool  // stored before; Base is where
	Err        error
}

// PartitionState is a partition's positions.
type PartitionState struct {
	LogStart    rhumb.Offset
	End         rhumb.Offset // one past the last committed record
	LeaderEpoch int32
	Leading     bool // whether this node may answer for the partition
}

// Stored is a batch in a partition's log. The bytes are shared: read only.
type Stored struct {
	Base     rhumb.Offset
	Envelope codec.Envelope
	Batch    []byte
}

// Last is the offset of the batch's last record.
func (s Stored) Last() rhumb.Offset { return s.Base + s.Envelope.Last - s.Envelope.First }

// GroupKey names a consumer group.
type GroupKey struct {
	Tenant    rhumb.Tenant
	Namespace rhumb.Namespace
	Group     string
}

// OffsetCommit is a group's position in a partition. It belongs to a topic's
// id, so that a re-created topic of the same name starts without one.
type OffsetCommit struct {
	TopicID     rhumb.UUID
	Topic       rhumb.Topic
	Partition   int32
	Offset      rhumb.Offset
	LeaderEpoch int32 // -1 if unknown
	Metadata    string
	At          int64 // ms since 1970
}
