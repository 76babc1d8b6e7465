package replicator

import (
	"context"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Policy is what links need of the region's view of the configuration store.
// Its methods answer from memory and never wait.
type Policy interface {
	Regions() []configstore.Region
	// Owner says whose a region number is or was; a region that was removed is gone:
	// nothing comes from it any more.
	Owner(rhumb.RegionNumber) (configstore.Owner, bool)
	// Owners gives those of all numbers, in no order.
	Owners() []configstore.Owner
	Edges() []configstore.Edge
	TopicDoc(rhumb.Topic) (configstore.Topic, bool)
	// Subscribe has fn called after each change. fn does not block.
	Subscribe(fn func()) (cancel func())
}

// Documents knows what this region has seen of the mesh's documents, and takes what peers
// say of that: each peer's last word counts. Its methods do not block.
type Documents interface {
	// Tell gives what to tell.
	Tell() configstore.Told
	// Hear takes what a peer told, the zero value if nothing.
	Hear(peer rhumb.RegionName, t configstore.Told)
	// HearRemoval takes a peer's word that this region was removed from the mesh.
	HearRemoval(configstore.Removal)
	// HearMember takes it that a peer has a link with this region, so that it does not
	// say so any more.
	HearMember(peer rhumb.RegionName)
}

// Region is what links need of the region: its topics, its log as a source,
// and its log as a destination.
type Region interface {
	Topics
	Settings
	Source
	Destination
}

// Topics knows and changes the region's topics.
type Topics interface {
	Topics() []region.TopicInfo
	Topic(rhumb.Topic) (region.TopicInfo, bool)
	// TopicsSince tells what happened to topics since a mark, so that one change does
	// not cost a look at all of them.
	TopicsSince(region.TopicsMark) region.TopicChanges
	// Deletions is the highest deletion count that a name had in this region.
	Deletions(rhumb.Topic) uint64
	// CreateTopic makes a topic and waits until it is usable.
	CreateTopic(context.Context, region.TopicSpec) (region.TopicInfo, error)
	GrowTopic(ctx context.Context, t rhumb.Topic, partitions int32) (region.TopicInfo, error)
	// DeleteTopic deletes what was born under a deletion count below the given one.
	DeleteTopic(ctx context.Context, t rhumb.Topic, deletions uint64) error
	// DeletedHere reports whether a topic of a deletion count was deleted in this
	// region alone and not created since.
	DeletedHere(t rhumb.Topic, deletions uint64) bool
	// Subscribe has fn called after each change of topics. fn does not block.
	Subscribe(fn func()) (cancel func())
}

// Source reads the region's log. Only [Source.SetEdgeStart] and
// [Source.NewLife] wait.
type Source interface {
	State(rhumb.PartitionRef) (region.PartitionState, bool)
	// Glance is State without Bytes and Compacted, which cost a look into the storage.
	Glance(rhumb.PartitionRef) (region.PartitionState, bool)
	// Ends gives of it what sums over all partitions need.
	Ends(rhumb.PartitionRef) (region.Ends, bool)
	// ReadOrigin gives whole batches of one origin life whose last origin offset is at
	// least From, in order, whose local offset is below Limit: at least one, however
	// large it is. The zero life stands for all own records.
	ReadOrigin(rhumb.PartitionRef, region.OriginQuery) ([]region.Stored, error)
	// Gaps gives a partition's gap records, oldest first.
	Gaps(rhumb.PartitionRef) []region.Gap
	// SetEdgeStart fixes, once and for ever, the first own offset that an edge carries.
	SetEdgeStart(ctx context.Context, ref rhumb.PartitionRef, to rhumb.RegionNumber, latest bool) (rhumb.Offset, error)
	// StartEdge is that for an edge that begins at the log start, without waiting: done is
	// called as those of [Destination].
	StartEdge(ref rhumb.PartitionRef, to rhumb.RegionNumber, done func(rhumb.Offset, error))
	// NewLife closes the life of a partition's log at an offset, and gives what lies
	// behind it a new one. Asked again, it gives what is there.
	NewLife(ctx context.Context, ref rhumb.PartitionRef, c region.LifeChange) (region.PastLife, rhumb.Life, error)
	// AddWaiter has w signalled when the partition's end, flushed end or log start
	// grows, or it is deleted.
	AddWaiter(rhumb.PartitionRef, *region.Waiter) bool
	RemoveWaiter(rhumb.PartitionRef, *region.Waiter)
}

// Destination stores what comes over links. done is called once, from a
// goroutine of the region after commit and flush, or before the call returns if
// it fails at once; it must not block.
type Destination interface {
	// OpenOrigin gives what is applied and flushed of an origin life.
	OpenOrigin(context.Context, rhumb.PartitionRef, rhumb.RegionNumber, rhumb.Life) (dedup.Watermark, error)
	AppendLink(ref rhumb.PartitionRef, b region.LinkBatch, done func(region.LinkResult))
	SkipLink(ref rhumb.PartitionRef, s region.LinkSkip, done func(region.LinkResult))
}

// What the region's methods take and give.
type (
	topicInfo      = region.TopicInfo
	topicSpec      = region.TopicSpec
	partitionState = region.PartitionState
	waiter         = region.Waiter
	originQuery    = region.OriginQuery
	stored         = region.Stored
	linkBatch      = region.LinkBatch
	linkSkip       = region.LinkSkip
	linkResult     = region.LinkResult
)
