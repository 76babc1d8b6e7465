package admin

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Topics is what the API needs of the region's topics. Errors carry kinds.
type Topics interface {
	// Topics gives all topics of the region, in any order.
	Topics() []Topic
	// Topic gives one topic.
	Topic(rhumb.Topic) (Topic, bool)
	// CreateTopic makes a topic and waits until it can be used. Partitions of 0
	// mean the region's default. KindExists if it is there.
	CreateTopic(ctx context.Context, t rhumb.Topic, partitions int32, configs map[string]string) (Topic, error)
	// DeleteTopic deletes a topic in this region or in the mesh; an empty scope leaves
	// that to its namespace. KindUnavailable if the mesh's needs a store that is down, or
	// if one in this region, unless forced, would take records that others lack.
	DeleteTopic(ctx context.Context, t rhumb.Topic, scope string, force bool) error
	TopicChanges
}

// TopicChanges is what the API needs to change topics that are there.
type TopicChanges interface {
	// GrowTopic gives a topic so many partitions and waits until they can be used.
	GrowTopic(ctx context.Context, t rhumb.Topic, partitions int32) error
	// Settings lists what holds for a topic, by name.
	Settings(rhumb.Topic) (TopicSettings, error)
	// AlterSettings sets and unsets settings of a topic, all or none.
	AlterSettings(ctx context.Context, t rhumb.Topic, set map[string]string, unset []string) error
}

// TopicSettings is what holds for a topic.
type TopicSettings struct {
	Mesh     bool   // its own settings are the same in all regions
	Version  uint64 // of its document, 0: it has none
	Settings []Setting
}

// Setting is one of a topic's settings.
type Setting struct {
	Name   string
	Value  string
	Source string // topic, namespace, node, region, file or default
	Effect bool   // else it is kept and does nothing
	Doc    string
}

// Logs is what the API needs to look at partitions.
type Logs interface {
	// State gives a partition's figures, false if its shard does not have it (yet).
	State(rhumb.PartitionRef) (State, bool)
	// Gaps gives a partition's gap records, oldest first.
	Gaps(rhumb.PartitionRef) []Gap
	// Read gives whole batches in the order of the log: the first one ends at or
	// after from. The bytes of all but the first stay within room.Bytes. It reads
	// up to the log's end; at the end it gives none and no error. If the first one
	// has more than room.First bytes nothing is read, and the error is a LargeBatchError.
	Read(ref rhumb.PartitionRef, from rhumb.Offset, room ReadRoom) ([]Batch, error)
	// Seek gives the local offset of the first stored batch of an origin life that ends at
	// or after the origin offset from, or one before it; false if the index knows of none.
	Seek(ref rhumb.PartitionRef, region rhumb.RegionNumber, life rhumb.Life, from rhumb.Offset) (rhumb.Offset, bool, error)
}

// ReadRoom is what one read may take, in bytes.
type ReadRoom struct {
	Bytes int // of all batches but the first
	First int // of the first one, 0: whatever it has
}

// LargeBatchError is the error of a read whose first batch has more bytes than it may have.
type LargeBatchError = region.LargeBatchError

// Data is what the API needs to write and to follow partitions.
type Data interface {
	// Produce appends one batch, which it owns from then on, and waits until it
	// is stored. It gives the offset of the batch's first record.
	Produce(ctx context.Context, topic rhumb.Topic, partition int32, batch []byte) (rhumb.Offset, error)
	// Await waits until the partition's flushed end lies above offset, the
	// partition is gone or ctx is done; whichever it was, it returns.
	Await(ctx context.Context, ref rhumb.PartitionRef, offset rhumb.Offset)
}

// Topic is a topic of the region.
type Topic struct {
	Name       rhumb.Topic
	ID         rhumb.UUID
	Deletions  uint64
	CreatedAt  int64 // ms since 1970
	Configs    map[string]string
	Partitions []Partition // by index
}

// Partition says where a partition's log is.
type Partition struct {
	Ref   rhumb.PartitionRef
	Life  rhumb.Life
	Ready bool // false while its shard has not created it: Ref and Life are zero
}

// State is the figures of a partition's log at one moment.
type State struct {
	Life        rhumb.Life
	LogStart    rhumb.Offset
	End         rhumb.Offset // one past the last stored record
	Flushed     rhumb.Offset // the end that may leave the region
	LeaderEpoch int32
	Bytes       int64
	OwnLast     rhumb.Offset // last record of the log's own life, NoOffset if none
	OwnChain    uint64       // there
	Past        []PastLife   // lives that the log had before, oldest first
	Origins     []Origin     // lives of other logs
}

// PastLife is a life that a log had before: it was closed at its last offset.
type PastLife struct {
	Life  rhumb.Life
	Last  rhumb.Offset
	Chain uint64 // there
}

// Origin is what a partition accounts for of another log's life. Invariant:
// Floor <= Watermark.
type Origin struct {
	Region    rhumb.RegionNumber
	Life      rhumb.Life
	Watermark rhumb.Offset // inclusive
	Floor     rhumb.Offset // inclusive
	Chain     uint64       // at Watermark
}

// Gap says that origin offsets From to To, both inclusive, will never come.
type Gap struct {
	Region rhumb.RegionNumber
	Life   rhumb.Life
	From   rhumb.Offset
	To     rhumb.Offset
	Reason rhumb.Reason
	At     int64  // ms since 1970
	By     string // who ordered it, if a person did
	Number uint64 // among the partition's gaps
}

// Batch is a stored batch.
type Batch struct {
	Base        rhumb.Offset // in this log
	Region      rhumb.RegionNumber
	Life        rhumb.Life
	First, Last rhumb.Offset // at the origin
	Bytes       []byte       // the Kafka record batch, read only
}

// Identity is what a node knows of itself from its start on.
type Identity struct {
	Name    rhumb.RegionName
	Number  rhumb.RegionNumber
	Mesh    rhumb.UUID
	Cluster rhumb.UUID // Kafka's cluster id
	Data    rhumb.UUID // of the data directory
	Boot    rhumb.UUID // of the process, another one at each start
	Node    int32
}

// RegionEntry is a region of the mesh.
type RegionEntry struct {
	Name   rhumb.RegionName
	Number rhumb.RegionNumber
	State  string
	Admin  []string // addresses of its admin API: host:port or URL
}

// Edge is the policy that a namespace, or one topic with a topology of its own,
// flows from one region to another.
type Edge struct {
	Tenant    rhumb.Tenant
	Namespace rhumb.Namespace
	Topic     rhumb.TopicName // empty: the namespace's topics without a topology of their own
	From, To  rhumb.RegionName
	Forward   bool
	Gone      bool
	Start     string // of partitions that it has not carried yet: earliest or latest
	Rate      int64  // bytes per second, 0: no limit
}

// Health says whether the node lives and is ready; problems say why not, or
// what is degraded although it is both.
type Health struct {
	Live     bool
	Ready    bool
	Problems []Problem
}

// Problem is one named state that is not right.
type Problem struct {
	Part    string // such as "storage", "configstore", "link eu"
	State   string // such as "low space"
	Message string
}

// Link is the state of the link with one peer region.
type Link struct {
	Peer          rhumb.RegionName
	PeerNumber    rhumb.RegionNumber
	State         string    // connected, flowing, idle, held, stalled, disconnected, refused, diverged
	Since         time.Time // in that state
	Connection    time.Time // since when there is a connection, or is none
	Address       string
	Version       string
	RTT           time.Duration
	Out, In       Flow
	LastError     string
	LastErrorAt   time.Time
	Diverged      int       // partitions whose copy there differs
	DivergedTries int64     // how often that was found, since the process started
	Refused       int       // partitions of which it does not take what comes next
	Heard         time.Time // when it was last heard of, zero without a connection
	Pauses        []Pause   // of edges to it
	PeerPauses    []Pause   // of edges from it, as it says
	Path          LinkPath
	Partitions    []LinkPartition
}

// LinkPath is what a link knows of the path to its peer.
type LinkPath struct {
	Connections     int     // that are open, 0 without any
	ConnectionsMost int     // that both sides take
	ConnectionsLost int64   // further ones that broke, since the node started
	Loss            float64 // part of the packets sent that were lost, of the last seconds
	Goodput         float64 // bytes per second that the path took, of the last seconds
	PaddingBytes    int64   // that warmed connections up, since the node started

	// Forward error correction: who decides (auto, off, or a strength such as 20+4), the
	// strength in force, and the part of the packets from here that the path loses before
	// it. Counts are of all connections that the link had: packets from here that the peer
	// recovered, those that this region did, and bytes sent besides the packets.
	FECMode, FEC                   string
	FECLoss                        float64
	FECRecovered, FECRecoveredHere int64
	FECParityBytes                 int64
}

// Flow is the figures of one direction of a link; counters start with the node.
// A lag of -1 is not known; if LagUnknown is not 0, it is a lower bound.
type Flow struct {
	LagRecords     int64
	LagBytes       int64
	Lag            time.Duration // age of the oldest unconfirmed record; below 0: not known
	LagUnknown     int           // partitions of which the destination has told nothing yet
	Bytes          int64
	Records        int64
	BytesPerSecond float64
	Rewinds        int64
}

// LinkPartition is one origin life of one partition on a link.
type LinkPartition struct {
	Out         bool // else in
	Topic       rhumb.Topic
	Partition   int32
	Region      rhumb.RegionNumber // of the origin
	Life        rhumb.Life         // of the origin
	State       string
	End         rhumb.Offset  // out: last origin offset to be sent
	Sent        rhumb.Offset  // out: last origin offset sent
	Confirmed   rhumb.Offset  // the destination's watermark
	LagRecords  int64         // -1: not known
	LagBytes    int64         // -1: not known
	Lag         time.Duration // below 0: not known
	LastError   string
	LastErrorAt time.Time
	Limited     bool // out: it waits for the rate of its edge
	Refused     *Refusal
}

// OriginPaths says over which of several paths an origin life of a partition comes
// to the region.
type OriginPaths struct {
	Topic     rhumb.Topic
	Partition int32
	Region    rhumb.RegionNumber // of the origin
	Life      rhumb.Life
	Waits     string // for whom a gap waits, empty if none does
	Moved     PathMove
	Paths     []Path // the nearest to the origin first
}

// PathMove is the last change of the path. Zero: none was chosen since the start.
type PathMove struct {
	At       time.Time
	From, To rhumb.RegionName // From is empty if it came over none before
	Why      string
}

// Path is one of an origin's paths.
type Path struct {
	Over  rhumb.RegionName
	State string    // used, standby, stalled, down
	Hops  int       // edges from the origin to here, 0: no edge brings it there
	Since time.Time // when the link came up or went down
	End   rhumb.Offset
	Floor rhumb.Offset
}

// Metric is one figure of another room, which the wiring hands over so that
// only this package knows the exporter.
type Metric struct {
	Name    string // rhumb_<part>_<what>_<unit>; counters end in _total
	Help    string
	Counter bool     // only grows; else a gauge
	Labels  []string // name, value, name, value…: values from small, fixed sets only
	Value   float64
}
