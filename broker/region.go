package broker

import (
	"context"

	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
	"github.com/rhumbmq/rhumb/region"
)

// Catalog is the region's list of topics.
type Catalog interface {
	// Topic finds a topic by name.
	Topic(rhumb.Topic) (TopicInfo, bool)
	// TopicByID finds a topic by its Kafka topic id.
	TopicByID(rhumb.UUID) (TopicInfo, bool)
	// Topics lists all topics, in no particular order.
	Topics() []TopicInfo
	// TopicsSince tells what happened to topics since a mark, so that one change does not
	// cost a look at all of them.
	TopicsSince(region.TopicsMark) region.TopicChanges
	// CreateTopic returns when the topic can be used; kind exists if it is there.
	CreateTopic(context.Context, TopicSpec) (TopicInfo, error)
	// Deletions is the deletion count of a name: topics are born under it.
	Deletions(rhumb.Topic) uint64
	// RoomFor gives region.ErrPartitionLimit if there may not be so many more partitions.
	RoomFor(partitions int) error
	// GrowTopic gives the topic n partitions and returns when they can be used.
	GrowTopic(ctx context.Context, topic rhumb.Topic, n int32) (TopicInfo, error)
	// AlterTopicConfigs changes the settings of a topic: change gets what there is,
	// read only, and gives what shall be; it may be called again.
	AlterTopicConfigs(ctx context.Context, topic rhumb.Topic, change func(map[string]string) (map[string]string, error)) (TopicInfo, error)
	// DeleteTopic deletes the topic if it was born below the deletion count.
	DeleteTopic(ctx context.Context, topic rhumb.Topic, deletions uint64) error
	// DeleteHere deletes the topic and leaves its deletion count; with mark, links do
	// not bring it back.
	DeleteHere(ctx context.Context, topic rhumb.Topic, mark bool) error
	// Lacking names the regions that have not confirmed all that a topic has for them.
	Lacking(TopicInfo) ([]rhumb.RegionName, error)
	// Subscribe has fn called after each change of the topics. fn does not block.
	Subscribe(fn func()) (cancel func())
}

// Settings is the region's memory of settings, which hold for topics that do not
// say.
type Settings interface {
	// Layers gives the settings that hold for a topic.
	Layers(TopicInfo) topicconf.Layers
	// NodeLayers gives the settings that hold for this node.
	NodeLayers() topicconf.Layers
	// Settings gives what was set at run time for a node by its id, or for all
	// nodes if it is empty. The map is shared: read only.
	Settings(node string) map[string]string
	// AlterSettings changes that, as AlterTopicConfigs does for topics.
	AlterSettings(ctx context.Context, node string, change func(map[string]string) (map[string]string, error)) error
}

// Log is the region's partitions. Its reads are safe from any goroutine.
type Log interface {
	// Append hands a batch over; it returns at once. Appends to one partition
	// take place in the order of the calls. done is called once.
	Append(ref rhumb.PartitionRef, req AppendRequest, done func(AppendResult))
	// State gives the partition's positions, false if it does not exist here.
	State(rhumb.PartitionRef) (PartitionState, bool)
	// Read gives whole committed batches: at least one if there is one, else
	// within the query's bytes.
	Read(rhumb.PartitionRef, Query) ([]Stored, error)
	// ByTime gives the first batch whose max timestamp is not below ts.
	ByTime(ref rhumb.PartitionRef, ts int64) (Stored, bool, error)
	// Latest gives the first batch among those with the largest timestamp.
	Latest(rhumb.PartitionRef) (Stored, bool, error)
	// DeleteRecords moves the log start up to before; -1 means the end.
	DeleteRecords(ctx context.Context, ref rhumb.PartitionRef, before rhumb.Offset) (rhumb.Offset, error)
	// Producers gives what a partition remembers of idempotent producers.
	Producers(context.Context, rhumb.PartitionRef) ([]ProducerState, error)
	// AddWaiter has the waiter signalled when the partition changes, false if it
	// is not there.
	AddWaiter(rhumb.PartitionRef, *Waiter) bool
	// RemoveWaiter takes back what AddWaiter did.
	RemoveWaiter(rhumb.PartitionRef, *Waiter)
}

// Groups is the region's memory of groups and their offsets.
type Groups = groups.Store

// Region is what the broker needs of the region that it stands in.
type Region interface {
	Catalog
	Settings
	Log
	Groups
	// ProducerID gives an id that was never given before in the mesh.
	ProducerID(context.Context) (int64, error)
	// ClusterID is the Kafka cluster id of the region.
	ClusterID() rhumb.UUID
	// Disk looks at the disk that the node stores on.
	Disk() (Disk, error)
}

var _ Region = (*region.Region)(nil)

// What the region's methods take and give; see package region.
type (
	// TopicSpec says how a topic is to be created.
	TopicSpec = region.TopicSpec
	// TopicInfo is a topic as the region knows it. It is shared: read only.
	TopicInfo = region.TopicInfo
	// PartitionInfo is one partition of a topic; it stands at its Index in the list.
	PartitionInfo = region.PartitionInfo
	// AppendRequest is one batch of a producer.
	AppendRequest = region.AppendRequest
	// AppendResult says what became of an append.
	AppendResult = region.AppendResult
	// ProducerState is what a partition remembers of one idempotent producer.
	ProducerState = region.ProducerState
	// Disk is the disk that the node stores on.
	Disk = region.Disk
	// PartitionState is a partition's positions.
	PartitionState = region.PartitionState
	// Query asks for batches.
	Query = region.Query
	// LargeBatchError is the error of a Query whose first batch is above its bound.
	LargeBatchError = region.LargeBatchError
	// Stored is a batch in a partition's log. The bytes are shared: read only.
	Stored = region.Stored
	// Place is where a batch lies in a file, to be sent from there.
	Place = region.Place
	// Waiter is woken when a partition changes.
	Waiter = region.Waiter
	// GroupKey names a consumer group.
	GroupKey = region.GroupKey
	// OffsetKey names the partition that a committed offset belongs to.
	OffsetKey = region.OffsetKey
	// OffsetCommit is a group's position in a partition. It belongs to a topic's
	// id, so that a re-created topic of the same name starts without one.
	OffsetCommit = region.OffsetCommit
)
