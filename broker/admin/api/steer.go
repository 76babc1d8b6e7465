package api

import "github.com/rhumbmq/rhumb/internal/rhumb"

// Pause is an edge that an operator stopped: of one namespace, or of all.
type Pause struct {
	Direction string `json:"direction"` // out: from the answering region to the peer; in: as the peer says
	Namespace string `json:"namespace"` // tenant/namespace, empty: every one
	Since     int64  `json:"since,string"`
	By        string `json:"by"`
}

// Refusal says from where on a destination takes nothing of a partition, and why.
type Refusal struct {
	At     rhumb.Offset `json:"at,string"`
	Code   string       `json:"code"`
	Reason string       `json:"reason"`
	Since  int64        `json:"since,string"`
}

// PauseRequest names the namespace, tenant/namespace, whose edge is paused or resumed.
// Empty: every one.
type PauseRequest struct {
	Namespace string `json:"namespace"`
}

// PauseAnswer says what is so now.
type PauseAnswer struct {
	Peer      rhumb.RegionName `json:"peer"`
	Namespace string           `json:"namespace"`
	Paused    bool             `json:"paused"`
}

// RetryRequest names a partition; with an empty topic all are meant.
type RetryRequest struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// RetryAnswer says what is tried again.
type RetryAnswer struct {
	Peer  rhumb.RegionName `json:"peer"`
	Topic string           `json:"topic"` // empty: all of them
	// Flows of so many Partitions: one for each life whose records they carry. Of Waiting
	// partitions at least one flow waited for another try.
	Flows      int  `json:"flows"`
	Partitions int  `json:"partitions"`
	Waiting    int  `json:"waiting"`
	Dialled    bool `json:"dialled"` // there was no connection: it is dialled at once
}

// SkipRequest asks for records of a partition to be left out on the way to the
// peer: what Origin published, lies before To there and has not come. Without dry_run it is done.
type SkipRequest struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Origin is who published them; empty: the region that is asked. Else that region
	// leaves them out of what it forwards.
	Origin rhumb.RegionName `json:"origin,omitempty"`
	To     rhumb.Offset     `json:"to,string"` // the origin's offset to go on with
	DryRun bool             `json:"dry_run"`
}

// SkipAnswer is what is left out, or would be, both inclusive: nothing if from is
// behind to.
type SkipAnswer struct {
	Peer      rhumb.RegionName `json:"peer"`
	Topic     string           `json:"topic"`
	Partition int32            `json:"partition"`
	Origin    rhumb.RegionName `json:"origin"`
	Life      rhumb.Life       `json:"life"`
	From      rhumb.Offset     `json:"from,string"`
	To        rhumb.Offset     `json:"to,string"`
	Done      bool             `json:"done"` // the peer has stored it as a gap
}

// LinkChecks is what a look at a link found.
type LinkChecks struct {
	Peer   rhumb.RegionName `json:"peer"`
	OK     bool             `json:"ok"` // all of them
	Checks []LinkCheck      `json:"checks"`
}

// LinkCheck is one thing that a link needs.
type LinkCheck struct {
	Name   string `json:"name"`
	Target string `json:"target"` // the address, where there are several
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Next   string `json:"next"` // what to do if it is not well
}
