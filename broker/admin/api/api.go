package api

import (
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/version"
)

// Prefix is the path that every call of this version of the API starts with.
const Prefix = "/admin/v1"

// HeaderWithin is in each answer that was cut to what a caller who administers
// tenants may see: their names, with commas between them. An answer without it is
// about the whole mesh.
const HeaderWithin = "Rhumb-Within"

// ErrorBody is the answer to a call that failed.
type ErrorBody struct {
	Error Error `json:"error"`
}

// Error says what went wrong. Kind is one of the words of rhumb.Kind, for
// programs; Message is for people and ends with what to do next.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// Field of a document that was refused, such as topology.full-mesh[1].
	Field string `json:"field,omitzero"`
	// Fields are all that were refused, where that are several; Field is the first.
	Fields []FieldRefusal `json:"fields,omitempty"`
}

// FieldRefusal is one field of a document that was refused, and why.
type FieldRefusal struct {
	Field   string `json:"field"`
	Message string `json:"message"` // with the field
}

// Region describes the region, and the node of it, that answers.
type Region struct {
	Name    rhumb.RegionName   `json:"name"`
	Number  rhumb.RegionNumber `json:"number"`
	Mesh    rhumb.UUID         `json:"mesh"`
	Cluster rhumb.UUID         `json:"cluster"`
	Data    rhumb.UUID         `json:"data"` // of the node's data directory
	Node    int32              `json:"node"`
	Version version.Info       `json:"version"`
	Health  Health             `json:"health"`
	// Highest is the highest region number that this region has seen.
	Highest rhumb.RegionNumber `json:"highest_number"`
	// Drain says what a region that takes no producers has still to send; absent
	// while it takes them.
	Drain *Drain `json:"drain,omitzero"`
}

// Status is the answer of /healthz and /readyz.
type Status struct {
	Status string           `json:"status"` // ok or not ok
	Region rhumb.RegionName `json:"region"`
	Data   rhumb.UUID       `json:"data"` // of the node's data directory
	Boot   rhumb.UUID       `json:"boot"` // of the process, another one at each start
}

// Health says whether the node lives (is not broken beyond what it can heal by
// itself) and is ready (takes requests), and why not.
type Health struct {
	Live     bool      `json:"live"`
	Ready    bool      `json:"ready"`
	Problems []Problem `json:"problems"`
}

// Problem is one named state that is not right, of one part of the node.
type Problem struct {
	Part    string `json:"part"`
	State   string `json:"state"`
	Message string `json:"message"`
}

// RegionList is every region of the mesh.
type RegionList struct {
	Regions []RegionEntry `json:"regions"`
}

// RegionEntry is a region of the mesh and where its admin API listens.
type RegionEntry struct {
	Name   rhumb.RegionName   `json:"name"`
	Number rhumb.RegionNumber `json:"number"`
	State  string             `json:"state"`
	Admin  []string           `json:"admin"` // URLs
	// Document is the region's document, where the answering region has it.
	Document *configstore.Region `json:"document,omitzero"`
}

// EdgeList is every edge of the mesh.
type EdgeList struct {
	Edges []Edge `json:"edges"`
	// OwnTopology are the topics, by full name, whose edges are only those that name
	// them, also if there are none.
	OwnTopology []string `json:"own_topology,omitempty"`
}

// Edge is the policy that a namespace flows from one region to another. Forward
// means that records of other regions' origin flow on it too.
type Edge struct {
	Tenant    rhumb.Tenant    `json:"tenant"`
	Namespace rhumb.Namespace `json:"namespace"`
	// Topic is the only one that the edge is of; empty: all of the namespace but
	// those with a topology of their own.
	Topic   rhumb.TopicName  `json:"topic,omitempty"`
	From    rhumb.RegionName `json:"from"`
	To      rhumb.RegionName `json:"to"`
	Forward bool             `json:"forward"`
	// Gone: records of regions that were removed from the mesh flow on it too.
	Gone bool `json:"gone,omitempty"`
	// Start is where the edge begins at a partition that it has not carried yet:
	// earliest or latest.
	Start string `json:"start,omitempty"`
	// Rate limits the edge, in bytes per second; 0: no limit.
	Rate int64 `json:"rate,omitempty"`
}

// TopicList is topics without their partitions' figures.
type TopicList struct {
	Topics []Topic `json:"topics"`
}

// Topic is a topic of the answering region.
type Topic struct {
	Topic      string            `json:"topic"` // full name
	ID         rhumb.UUID        `json:"id"`    // Kafka's topic id
	Partitions int32             `json:"partitions"`
	Deletions  uint64            `json:"deletions,string"` // deletion count it was born under
	CreatedAt  int64             `json:"created_at,string"`
	Configs    map[string]string `json:"configs"`
}

// TopicDetail is a topic with its partitions.
type TopicDetail struct {
	Topic
	Logs []Partition `json:"logs"`
}

// Partition is one partition's log in the answering region.
type Partition struct {
	Partition   int32             `json:"partition"`
	Ready       bool              `json:"ready"` // false while its shard has not created or opened it: figures are zero
	Shard       rhumb.ShardID     `json:"shard"`
	ID          rhumb.PartitionID `json:"id,string"` // in its shard
	Life        rhumb.Life        `json:"life"`
	LogStart    rhumb.Offset      `json:"log_start,string"`
	End         rhumb.Offset      `json:"end,string"`
	FlushedEnd  rhumb.Offset      `json:"flushed_end,string"` // the end that may leave the region
	LeaderEpoch int32             `json:"leader_epoch"`
	Bytes       int64             `json:"bytes,string"`
	Origins     []Origin          `json:"origins"` // its own life first
}

// Origin is what a partition accounts for of one origin life: everything above
// the floor, up to the watermark, both origin offsets.
type Origin struct {
	Region     rhumb.RegionNumber `json:"region"`
	RegionName rhumb.RegionName   `json:"region_name"` // empty if the number is not known here
	Life       rhumb.Life         `json:"life"`
	Own        bool               `json:"own"`                // this log's own life
	Closed     bool               `json:"closed"`             // a life that this log had before: it ends at the watermark
	Watermark  rhumb.Offset       `json:"watermark,string"`   // inclusive
	Floor      rhumb.Offset       `json:"floor,string"`       // inclusive: nothing is vouched for up to it
	LastRecord rhumb.Offset       `json:"last_record,string"` // own life: last record published; others: the watermark
	Chain      string             `json:"chain"`              // at the watermark
}

// TopicSpec asks for a new topic.
type TopicSpec struct {
	Topic      string            `json:"topic"`
	Partitions int32             `json:"partitions"` // 0: the region's default
	Configs    map[string]string `json:"configs,omitempty"`
}

// GapList is gap records.
type GapList struct {
	Gaps []Gap `json:"gaps"`
}

// Gap says that the records of an origin life between two offsets, both
// inclusive, existed and will never come, and why.
type Gap struct {
	Topic      string             `json:"topic"`
	Partition  int32              `json:"partition"`
	Region     rhumb.RegionNumber `json:"region"`
	RegionName rhumb.RegionName   `json:"region_name"`
	Life       rhumb.Life         `json:"life"`
	From       rhumb.Offset       `json:"from,string"`
	To         rhumb.Offset       `json:"to,string"`
	Reason     string             `json:"reason"`
	At         int64              `json:"at,string"`
	By         string             `json:"by"`            // who ordered it, empty if no person did
	Number     uint64             `json:"number,string"` // among the partition's gaps, for ever
}
