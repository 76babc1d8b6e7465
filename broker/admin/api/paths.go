package api

import "github.com/rhumbmq/rhumb/internal/rhumb"

// PathList is the origin lives that can come to the answering region over several
// paths, and were offered over one since it started.
type PathList struct {
	Origins []OriginPaths `json:"origins"`
}

// OriginPaths says over which path an origin life of a partition comes.
type OriginPaths struct {
	Topic      string             `json:"topic"`
	Partition  int32              `json:"partition"`
	Region     rhumb.RegionNumber `json:"region"`      // of the origin
	RegionName rhumb.RegionName   `json:"region_name"` // empty if it was removed
	Life       rhumb.Life         `json:"life"`
	// Over is the path in use, empty if none is.
	Over  rhumb.RegionName `json:"over"`
	Moved PathMove         `json:"moved"`
	// Waits says for whom a gap waits that some path told of, empty if none does.
	Waits string `json:"waits"`
	Paths []Path `json:"paths"` // the nearest to the origin first
}

// PathMove says when and why the life began to come over another path. The first
// choice after the node's start counts.
type PathMove struct {
	At   int64            `json:"at,string"` // 0: none was chosen yet
	From rhumb.RegionName `json:"from"`      // empty: over none before
	To   rhumb.RegionName `json:"to"`
	Why  string           `json:"why"`
}

// Path is one way from an origin to the answering region: the region over whose
// link it leads.
type Path struct {
	Over  rhumb.RegionName `json:"over"`
	State string           `json:"state"`        // used, standby, stalled, down
	Hops  int              `json:"hops"`         // edges from the origin: 1 is straight; 0: no edge brings it there
	Since int64            `json:"since,string"` // when the link came up or went down
	End   rhumb.Offset     `json:"end,string"`   // last origin offset that it said to have, -1 if it offered none
	Floor rhumb.Offset     `json:"floor,string"` // up to here it said that it has nothing, -1 if it did not
}
