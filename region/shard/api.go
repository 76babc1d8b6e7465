package shard

import (
	"maps"
	"slices"
	"sync"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// AppendRequest is one batch of a producer.
type AppendRequest struct {
	// Batch is a whole record batch whose CRC was checked. It belongs to the
	// shard until done is called and is patched in place.
	Batch []byte
	// Header is the batch's decoded header.
	Header codec.BatchHeader
}

// AppendResult answers an [AppendRequest].
type AppendResult struct {
	Base       rhumb.Offset // of the first record, NoOffset on error
	LogStart   rhumb.Offset
	AppendTime int64 // ms since 1970: the leader's clock at the entry, 0 for a duplicate
	Duplicate  bool  // stored before: Base is where
	Err        error
}

// LinkBatch is one batch of another region.
type LinkBatch struct {
	Envelope codec.Envelope // as it came; Partition is set anew
	Batch    []byte         // belongs to the shard until done is called, patched in place
}

// LinkSkip moves an origin's watermark where no data does. A skip whose reason
// is a gap is stored as a gap record, too.
type LinkSkip struct {
	Region rhumb.RegionNumber
	Life   rhumb.Life
	dedup.Skip
}

// LinkResult answers a [LinkBatch] or [LinkSkip]. The watermark is applied and
// flushed on a majority: whoever gets it may confirm it.
type LinkResult struct {
	Verdict   dedup.Verdict
	Watermark dedup.Watermark
	Err       error
}

// PartitionState is what a partition's leader knows of it, at one moment.
type PartitionState struct {
	Topic     rhumb.Topic
	TopicID   rhumb.UUID
	Index     int32
	Deletions uint64 // the deletion count of the topic that it was born under
	Life      rhumb.Life
	Past      []PastLife // lives that the log had before, oldest first; shared: do not change it

	LogStart rhumb.Offset // first offset that is kept
	End      rhumb.Offset // next offset to be given: everything below is committed
	// Flushed is the end of what may leave the region: committed and on the
	// disks of a majority. LogStart and Flushed are at most End.
	Flushed rhumb.Offset

	LeaderEpoch int32 // the leader's term; it only grows
	Leading     bool  // whether this node may answer for the partition

	OwnLast    rhumb.Offset                        // last offset of a record published here, NoOffset if none
	OwnChain   uint64                              // chain at OwnLast
	OwnFloor   rhumb.Offset                        // own offsets up to here may be gone
	Starts     []StartMove                         // why, oldest first; shared: do not change it
	Edges      map[rhumb.RegionNumber]rhumb.Offset // first own offset that each edge carries, where it is fixed; shared: do not change it
	Compacted  rhumb.Offset                        // records below it may be gone by compaction: not the newest of a key
	Watermarks []dedup.Watermark

	Bytes      int64 // stored batches with their envelopes
	Gaps       uint64
	LastAppend int64 // ms since 1970, 0 if never
}

// Gap says that records of an origin which existed will never come: those of
// the offsets From to To, both inclusive.
type Gap struct {
	Region rhumb.RegionNumber
	Life   rhumb.Life
	From   rhumb.Offset
	To     rhumb.Offset
	Reason rhumb.Reason
	At     int64  // ms since 1970
	By     string // who ordered it, if a person did
	// Number tells the partition's gaps apart, for ever: 0 is the first.
	Number uint64
}

// GroupKey names a consumer group or subscription.
type GroupKey struct {
	Tenant    rhumb.Tenant
	Namespace rhumb.Namespace
	Group     string
}

// OffsetKey is what a group's committed offset belongs to: a topic that is
// deleted and created again has another id.
type OffsetKey struct {
	TopicID   rhumb.UUID
	Partition int32
}

// OffsetCommit is a group's position in one partition: everything below Offset
// is acknowledged.
type OffsetCommit struct {
	TopicID     rhumb.UUID
	Topic       rhumb.Topic
	Partition   int32
	Offset      rhumb.Offset
	LeaderEpoch int32 // as the client said, -1 if it did not
	Metadata    string
	At          int64 // ms since 1970
}

// Key gives the part of the commit that names the partition.
func (c *OffsetCommit) Key() OffsetKey { return OffsetKey{c.TopicID, c.Partition} }

// Topic is a topic as shard 0 has it. It is never changed once it is published.
type Topic struct {
	Name       rhumb.Topic
	ID         rhumb.UUID
	Deletions  uint64
	Configs    map[string]string
	CreatedAt  int64 // ms since 1970
	Partitions []TopicPartition
}

// TopicPartition says where a topic's partition is.
type TopicPartition struct {
	Index int32              // its place in the list
	Ref   rhumb.PartitionRef // ID is 0 until Ready
	Life  rhumb.Life
	Past  []PastLife // lives that its log had before, where they are known; not in the row
	Ready bool       // its log is there
}

// ProducerState is what a partition remembers of one idempotent producer.
type ProducerState struct {
	ID           int64
	Epoch        int16
	LastSequence int32 // -1 if no batch of this epoch is remembered
	LastUse      int64 // ms since 1970
}

// Waiter is woken when a partition that it was added to changes: End, Flushed or
// LogStart grew, leadership moved, or the partition is deleted. C has room for
// one signal: who waits must look at the state before it waits again.
type Waiter struct {
	C chan struct{}

	mu      sync.Mutex
	changed map[rhumb.PartitionRef]struct{} // nil unless it gathers
}

// NewWaiter makes a waiter.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// NewGatherer makes a waiter that keeps which partitions changed, so that who waits
// for thousands of them need not look at all: see Changed.
func NewGatherer() *Waiter {
	w := NewWaiter()
	w.changed = map[rhumb.PartitionRef]struct{}{}
	return w
}

// Changed gives the partitions that signalled a gatherer since the last call, in no
// order. One that it was taken from meanwhile may be among them.
func (w *Waiter) Changed() []rhumb.PartitionRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	refs := slices.Collect(maps.Keys(w.changed))
	if len(refs) > 1024 {
		w.changed = map[rhumb.PartitionRef]struct{}{} // a map keeps the size that it once had
	} else {
		clear(w.changed)
	}
	return refs
}

// Signal wakes the waiter for a partition that changed.
func (w *Waiter) Signal(ref rhumb.PartitionRef) {
	if w.changed != nil {
		w.mu.Lock()
		w.changed[ref] = struct{}{}
		w.mu.Unlock()
	}
	select {
	case w.C <- struct{}{}:
	default: // it has a signal already
	}
}
