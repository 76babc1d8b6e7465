package api

import "github.com/rhumbmq/rhumb/internal/rhumb"

// DivergedList is the partitions of the answering region whose copies elsewhere
// differ from them, as far as its links have found since it started.
type DivergedList struct {
	Diverged []Diverged `json:"diverged"`
}

// Diverged is a partition that some other region has another copy of, where the
// two must be the same. Nothing of it flows to those regions.
type Diverged struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Origin is the answering region; or, of a copy, the one that published the life:
	// that was removed, or its directory of then is gone.
	Origin       rhumb.RegionNumber    `json:"origin"`
	Copy         bool                  `json:"copy,omitempty"`
	Life         rhumb.Life            `json:"life"`       // that its log has now; of a copy, that differs
	End          rhumb.Offset          `json:"end,string"` // next offset to be given; of a copy, the first that is not accounted for
	Destinations []DivergedDestination `json:"destinations"`
}

// DivergedDestination is a region whose copy differs.
type DivergedDestination struct {
	Region    rhumb.RegionName `json:"region"`
	Life      rhumb.Life       `json:"life"`             // that differs: the log's, or an earlier one
	Common    rhumb.Offset     `json:"common,string"`    // last offset that is known to be the same, -1 if none
	Exact     bool             `json:"exact"`            // the copies part right behind it
	Watermark rhumb.Offset     `json:"watermark,string"` // what the region accounts for of the life
	At        int64            `json:"at,string"`        // when that was found
}

// NewLifeRequest asks for a new life of a diverged partition's log.
type NewLifeRequest struct {
	Life   *rhumb.Life `json:"life,omitempty"` // that the log has, as the caller saw it; absent: whatever it is
	DryRun bool        `json:"dry_run"`        // say what would be done, and do nothing
}

// NewLife says what a new life changes, or has changed; of copies, what leaving them
// as they are does.
type NewLife struct {
	Diverged
	Last     rhumb.Offset `json:"last,string"`      // last offset that the old life keeps, -1: none
	Exact    bool         `json:"exact"`            // if not, records behind last may reach a region twice
	Done     bool         `json:"done"`             // false for a dry run
	NewLife  *rhumb.Life  `json:"new_life"`         // null for a dry run, and for copies
	ClosedAt int64        `json:"closed_at,string"` // when the old life was closed, 0 as there
}
