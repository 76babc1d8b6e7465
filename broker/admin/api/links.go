package api

import "github.com/rhumbmq/rhumb/internal/rhumb"

// LinkList is the links of the answering region.
type LinkList struct {
	Links []Link `json:"links"`
}

// Link is the connection with one peer region and its partitions' figures.
type Link struct {
	Peer       rhumb.RegionName   `json:"peer"`
	PeerNumber rhumb.RegionNumber `json:"peer_number"`
	State      string             `json:"state"`        // connected, flowing, idle, held, stalled, disconnected, refused, diverged, paused, unused
	Since      int64              `json:"since,string"` // in this state
	// ConnectionSince is since when there is a connection, or is none; 0: not told by an older node.
	ConnectionSince int64    `json:"connection_since,string"`
	Address         string   `json:"address"` // of the peer, empty while disconnected
	Version         string   `json:"version"` // of the peer's binary
	RTT             float64  `json:"rtt_seconds"`
	Heard           float64  `json:"heard_seconds"` // since it was last heard of: at least once a second on a good line; -1 without a connection
	Pauses          []Pause  `json:"pauses"`
	Path            LinkPath `json:"path"`
	Out             Flow     `json:"out"`
	In              Flow     `json:"in"`
	LastError       string   `json:"last_error"`
	// LastErrorAt is when LastError happened; 0: never, or not told by an older node.
	LastErrorAt int64           `json:"last_error_at,string"`
	Partitions  []LinkPartition `json:"partitions"`
}

// LinkPath is what a link knows of the path to its peer: as this region sends on it.
type LinkPath struct {
	Connections     int     `json:"connections"`             // that are open, 0 without any
	ConnectionsMost int     `json:"connections_most"`        // that both sides take; 0 without any
	ConnectionsLost int64   `json:"connections_lost,string"` // further ones that broke, since the node started
	Loss            float64 `json:"loss"`                    // part of the packets sent that were lost, 0 to 1, of the last seconds
	Goodput         float64 `json:"goodput"`                 // bytes per second that the path took, of the last seconds
	PaddingBytes    int64   `json:"padding_bytes,string"`    // that warmed connections up, since the node started

	FECMode          string  `json:"fec_mode"`                  // who decides over forward error correction: auto, off, or a strength such as 20+4; empty without a connection
	FEC              string  `json:"fec"`                       // in force for what is sent: off or a strength, data+parity packets
	FECLoss          float64 `json:"fec_loss"`                  // part of the packets sent that the path loses, before correction and without what full queues drop
	FECRecovered     int64   `json:"fec_recovered,string"`      // packets sent that the peer recovered
	FECRecoveredHere int64   `json:"fec_recovered_here,string"` // packets of the peer that were recovered here
	FECParityBytes   int64   `json:"fec_parity_bytes,string"`   // sent besides the packets
}

// Flow is the figures of one direction. Lags are sums over partitions; lag in
// seconds is the age of the oldest unconfirmed record of all of them. A lag of
// -1 is not known.
type Flow struct {
	LagRecords int64   `json:"lag_records,string"`
	LagBytes   int64   `json:"lag_bytes,string"`
	LagSeconds float64 `json:"lag_seconds"`
	// LagUnknown counts partitions of which the destination has told nothing yet: while
	// there are any, the lags are lower bounds.
	LagUnknown     int     `json:"lag_unknown_partitions"`
	Bytes          int64   `json:"bytes,string"`   // since the node started
	Records        int64   `json:"records,string"` // since the node started
	BytesPerSecond float64 `json:"bytes_per_second"`
	Rewinds        int64   `json:"rewinds,string"` // since the node started
}

// LinkPartition is one origin life of one partition on a link.
type LinkPartition struct {
	Direction  string             `json:"direction"` // out or in
	Topic      string             `json:"topic"`
	Partition  int32              `json:"partition"`
	Region     rhumb.RegionNumber `json:"region"` // of the origin
	Life       rhumb.Life         `json:"life"`   // of the origin
	State      string             `json:"state"`
	End        rhumb.Offset       `json:"end,string"`       // out: last origin offset to be brought; below Confirmed if the destination has more than this region
	Sent       rhumb.Offset       `json:"sent,string"`      // out: last origin offset sent
	Confirmed  rhumb.Offset       `json:"confirmed,string"` // the destination's watermark
	LagRecords int64              `json:"lag_records,string"`
	LagBytes   int64              `json:"lag_bytes,string"`
	LagSeconds float64            `json:"lag_seconds"`
	LastError  string             `json:"last_error"`
	// LastErrorAt: see Link.
	LastErrorAt int64 `json:"last_error_at,string"`
	// Limited: it waits for the rate of its edge, or did so a moment ago.
	Limited bool `json:"limited"`
	// Refused says what the destination will not have, if there is something.
	Refused *Refusal `json:"refused,omitempty"`
}
