package api

import (
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Member is a region's name and its document in the configuration store.
type Member struct {
	Name rhumb.RegionName `json:"region"`
	configstore.Region
}

// RemovedMember is the document of a region that was removed, and what names it still.
type RemovedMember struct {
	Member
	// NamedBy are documents that name the region, in words, such as "namespace
	// acme/shop". They may go on doing so, which has no effect until the name comes back.
	NamedBy []string `json:"named_by"`
}

// MemberChange registers a region, or changes the addresses of one. An absent list
// of a change leaves what is there; an empty one takes it away.
type MemberChange struct {
	Geo       []string            `json:"geo,omitzero"`       // host:port, UDP, for other regions
	Addresses map[string][]string `json:"addresses,omitzero"` // for clients, by protocol
	// Number asks for this region number; 0: the next one. Only when registering.
	Number rhumb.RegionNumber `json:"number,omitzero"`
	// Seen is the highest region number that the caller knows of; the number given
	// lies above it. Only when registering.
	Seen rhumb.RegionNumber `json:"seen,omitzero"`
	// Pinned addresses stay as they are when the region starts with others; false
	// lets it write its own again. Only when changing; absent: true.
	Pinned *bool `json:"pinned,omitzero"`
}

// DrainRequest asks a region to take no producers any more, or again.
type DrainRequest struct {
	Undo bool `json:"undo"`
}

// Drain says what a region that drains has still to send. All zero and empty:
// every record that was published here is confirmed wherever an edge leads.
type Drain struct {
	State     string      `json:"state"` // draining or drained
	Since     int64       `json:"since,string"`
	Producing int64       `json:"producing,string"` // batches of clients on their way into the log
	Behind    []DrainPeer `json:"behind"`           // regions that have not confirmed everything
	// Alone lists topics with records of this region that no edge carries anywhere.
	Alone []string `json:"alone"`
}

// DrainPeer is a region that has not confirmed everything. Partitions counts those of
// which it is behind or has not told yet; figures of the latter are at most.
type DrainPeer struct {
	Peer       rhumb.RegionName `json:"peer"`
	State      string           `json:"state"` // of the link
	Partitions int64            `json:"partitions,string"`
	Records    int64            `json:"records,string"`
	Bytes      int64            `json:"bytes,string"`
	LastError  string           `json:"last_error"`
}
