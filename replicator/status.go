package replicator

import (
	"time"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// LinkState says whether a link has a connection.
type LinkState string

// The states of a link.
const (
	LinkConnected    LinkState = "connected"
	LinkDisconnected LinkState = "disconnected" // dialling or waiting to be dialled
	LinkRefused      LinkState = "refused"      // reached, but one side refuses the other
	LinkUnused       LinkState = "unused"       // no edge leads to or from this region
)

// SessionState says what the flow of one partition to one region does.
type SessionState string

// The states of a partition's flow.
const (
	SessionIdle         SessionState = "idle"         // everything is confirmed
	SessionFlowing      SessionState = "flowing"      // moving, or asking where to start
	SessionHeld         SessionState = "held"         // waits for a budget of ours or for the log to be flushed
	SessionStalled      SessionState = "stalled"      // refused for now, or no progress: tried again
	SessionDisconnected SessionState = "disconnected" // no connection
	SessionDiverged     SessionState = "diverged"     // the two logs differ: a person must decide
	SessionStandby      SessionState = "standby"      // the peer takes this origin over another path
	SessionPaused       SessionState = "paused"       // an operator stopped the edge
	SessionRefused      SessionState = "refused"      // the destination will not have what comes next; tried again, rarely
	SessionClosed       SessionState = "closed"       // of a past life, or the peer's own: it will get nothing more of it
	SessionLeftOut      SessionState = "left out"     // the topic was deleted at the destination alone: nothing is owed to it
)

// Status is a picture of all links at one moment.
type Status struct {
	At     time.Time        `json:"at"`
	Region rhumb.RegionName `json:"region"`
	Links  []LinkStatus     `json:"links"`
	// Origins are those for which this region has several paths.
	Origins []OriginStatus `json:"origins"`
	// SendBytes and ReceiveBytes are what is taken of the node's budgets.
	SendBytes         int64 `json:"send_bytes"`
	SendBytesLimit    int64 `json:"send_bytes_limit"`
	ReceiveBytes      int64 `json:"receive_bytes"`
	ReceiveBytesLimit int64 `json:"receive_bytes_limit"`
}

// PathState says what a region does with a path of an origin.
type PathState string

// The states of a path, as its destination sees it.
const (
	PathUsed    PathState = "used"    // the origin comes over it
	PathStandby PathState = "standby" // it could
	PathStalled PathState = "stalled" // it brought nothing while another one had more: it rests
	PathDown    PathState = "down"    // its link has no connection
)

// OriginStatus tells over which of several paths an origin life of a partition comes
// to this region. Lives with one path by policy have none.
type OriginStatus struct {
	Topic      rhumb.Topic        `json:"topic"`
	Partition  int32              `json:"partition"`
	Origin     rhumb.RegionNumber `json:"origin"`
	OriginName rhumb.RegionName   `json:"origin_name,omitempty"` // empty if the region is removed
	Life       rhumb.Life         `json:"life"`
	Paths      []PathStatus       `json:"paths"` // the nearest to the origin first
	// Moved says since when it comes over the path that is used, or was last, and why;
	// zero if none was chosen since this process started.
	Moved PathMove `json:"moved"`
	// Waits says for whom a gap waits that some path told of: it is not final before
	// nobody else may still have the records. Empty if none waits.
	Waits string `json:"waits,omitempty"`
}

// PathMove says when and why an origin life began to come over another path.
type PathMove struct {
	At   time.Time        `json:"at,omitzero"`
	From rhumb.RegionName `json:"from,omitempty"` // empty: over none before
	To   rhumb.RegionName `json:"to,omitempty"`
	Why  string           `json:"why,omitempty"`
}

// PathStatus tells about one path.
type PathStatus struct {
	Peer  rhumb.RegionName `json:"peer"` // over whose link it leads
	State PathState        `json:"state"`
	Hops  int              `json:"hops"`  // edges from the origin to here: 1 is straight; 0 if no edge brings it there
	Since time.Time        `json:"since"` // when the link came up or went down
	End   rhumb.Offset     `json:"end"`   // last offset that it had when it last offered, NoOffset if it did not
	Floor rhumb.Offset     `json:"floor"` // up to here it said that it has nothing, NoOffset if it did not
}

// LinkStatus tells about the link to one region.
type LinkStatus struct {
	Peer        rhumb.RegionName   `json:"peer"`
	Number      rhumb.RegionNumber `json:"number"`
	State       LinkState          `json:"state"`
	Since       time.Time          `json:"since"` // of State
	Remote      string             `json:"remote,omitempty"`
	Software    string             `json:"software,omitempty"` // version of the peer's program
	Dialled     bool               `json:"dialled"`            // by this region
	LastError   string             `json:"last_error,omitempty"`
	LastErrorAt time.Time          `json:"last_error_at,omitzero"`
	// Twice says that two processes live that say they are the peer, and which of
	// them has the link; empty if not, or not for some minutes.
	Twice string `json:"twice,omitempty"`
	// Second says that the peer refuses this process, since it is linked to
	// another one of this region.
	Second bool `json:"second,omitempty"`

	// Unmade are the topics that the peer announces and that cannot be had here as the
	// peer has them, for reasons that the policy does not give.
	Unmade []Unmade `json:"unmade,omitempty"`

	Connects uint64 `json:"connects,string"` // connections that got past hello
	Rebuilds uint64 `json:"rebuilds,string"` // sessions that the watchdog rebuilt
	// DivergedTries counts sessions that ended since the logs have parted: each such
	// partition is tried again as long as it is so.
	DivergedTries uint64 `json:"diverged_tries,string"`

	RTT         time.Duration `json:"rtt_ns"`
	ClockOffset time.Duration `json:"clock_offset_ns"`   // peer's wall clock minus ours
	ClockAt     time.Time     `json:"clock_at,omitzero"` // when the offset was observed

	// Connections are open, of up to ConnectionsMost that both sides take. Lost counts
	// further ones that broke. Loss is the part of the packets sent that were lost,
	// Goodput the bytes per second that the path took, both of the last seconds.
	Connections     int     `json:"connections"`
	ConnectionsMost int     `json:"connections_most"`
	ConnectionsLost uint64  `json:"connections_lost,string"`
	Loss            float64 `json:"loss"`
	Goodput         float64 `json:"goodput"`
	// PaddingBytes warmed connections up since the process started.
	PaddingBytes uint64 `json:"padding_bytes,string"`

	// Correction is the forward error correction of the path, empty without a connection.
	Correction CorrectionStatus `json:"correction,omitzero"`

	SentBytes       uint64  `json:"sent_bytes,string"` // of batches, counted again when sent again
	ReceivedBytes   uint64  `json:"received_bytes,string"`
	SentBatches     uint64  `json:"sent_batches,string"`
	ReceivedBatches uint64  `json:"received_batches,string"`
	SentRecords     uint64  `json:"sent_records,string"`
	ReceivedRecords uint64  `json:"received_records,string"`
	Rewinds         uint64  `json:"rewinds,string"` // times that sending went back to the watermark
	ConfirmedBytes  uint64  `json:"confirmed_bytes,string"`
	SendRate        float64 `json:"send_rate"` // bytes per second over the last seconds
	ReceiveRate     float64 `json:"receive_rate"`

	// Heard is when the peer was last heard of on this connection, at least once a
	// second on a good line; zero while there is none.
	Heard time.Time `json:"heard,omitzero"`
	// Pauses are of edges from here to the peer, PeerPauses of those from the peer to
	// here, as it said last.
	Pauses     []Pause `json:"pauses,omitempty"`
	PeerPauses []Pause `json:"peer_pauses,omitempty"`

	Sums Sums `json:"-"` // of Partitions, of which [Manager.Sums] gives none

	Partitions []PartitionStatus `json:"partitions"`
	Inbound    []InboundStatus   `json:"inbound"`
}

// Lag is how far a destination is behind. It is zero only if the destination
// has confirmed everything. Figures are of Status.At.
type Lag struct {
	// Known is false while the destination has told this process neither its watermark
	// nor that it has no such partition: then the figures count everything that is kept
	// here, of which it may have had all before.
	Known   bool          `json:"known"`
	Records int64         `json:"records"` // at most: it counts offsets, and others' records take some
	Bytes   int64         `json:"bytes"`   // sent ones exactly, others by the partition's mean
	Age     time.Duration `json:"age_ns"`  // of the oldest record that is not confirmed
	// Least is what is certainly not confirmed while Known is false; zero else.
	Least LeastLag `json:"least,omitzero"`
}

// LeastLag is a lower bound of a lag: what was published here since this process knows
// the partition. Of the copies of other regions' records it says nothing.
type LeastLag struct {
	Records int64         `json:"records"`
	Bytes   int64         `json:"bytes"`  // about, by the partition's mean
	Age     time.Duration `json:"age_ns"` // of the oldest of them
}

// PartitionStatus tells about one partition's flow to the link's peer.
type PartitionStatus struct {
	Topic     rhumb.Topic `json:"topic"`
	Partition int32       `json:"partition"`
	Life      rhumb.Life  `json:"life"`
	// Origin is the region that the records were published in: this one, or another
	// one whose records are forwarded, or were written before that was rebuilt.
	Origin      rhumb.RegionNumber `json:"origin"`
	Forwarded   bool               `json:"forwarded"` // of a life that came over links
	State       SessionState       `json:"state"`
	Since       time.Time          `json:"since"` // of State
	Lag         Lag                `json:"lag"`
	Confirmed   rhumb.Offset       `json:"confirmed"` // the destination's watermark, NoOffset if not known
	ConfirmedAt time.Time          `json:"confirmed_at,omitzero"`
	Sent        rhumb.Offset       `json:"sent"` // up to here everything went out, or was nothing to send
	End         rhumb.Offset       `json:"end"`  // last own offset that may leave
	Rebuilds    uint64             `json:"rebuilds,string"`
	LastError   string             `json:"last_error,omitempty"`
	LastErrorAt time.Time          `json:"last_error_at,omitzero"`
	// Standby is what the peer said of the path over which it takes this life instead.
	Standby string `json:"standby,omitempty"`
	// Apart says where the logs part, nil while they are not known to. It stays
	// while the link is down.
	Apart *Divergence `json:"apart,omitempty"`
	// Limited: it waits for the rate limit of its edge, or did so a moment ago.
	Limited bool `json:"limited,omitempty"`
	// Refused says what the destination will not have, nil if nothing. It stays while
	// the flow is tried again, and while the link is down.
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal says that a destination does not take what comes next: its partition
// stops there, and no other one.
type Refusal struct {
	At    rhumb.Offset `json:"at"` // own offset from which on nothing is taken
	Code  wire.Code    `json:"code"`
	Text  string       `json:"text"`
	Since time.Time    `json:"since"`
}

// Divergence says where a destination's copy of a life and this log part.
type Divergence struct {
	Common    dedup.ChainPoint `json:"common"`    // the last point known to be the same, NoOffset if none
	Exact     bool             `json:"exact"`     // they part right behind it
	Watermark rhumb.Offset     `json:"watermark"` // of the destination
	Chain     uint64           `json:"-"`         // of the destination, there
	At        time.Time        `json:"at"`        // when that was found
}

// InboundStatus tells about one partition's flow from the link's peer: the
// receiver's check of what the peer says of itself.
type InboundStatus struct {
	Topic     rhumb.Topic        `json:"topic"`
	Partition int32              `json:"partition"`
	Origin    rhumb.RegionNumber `json:"origin"`
	Life      rhumb.Life         `json:"life"` // of the origin
	Open      bool               `json:"open"` // false while this region looks up where it stands
	Watermark rhumb.Offset       `json:"watermark"`
	Head      rhumb.Offset       `json:"head"`       // first offset that could not leave the origin, as it said last
	Held      int64              `json:"held_bytes"` // arrived and not stored yet
	At        time.Time          `json:"at"`         // when it last moved
}
