package verify

import (
	"fmt"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxRanges is how many ranges are kept per finding; more are counted only.
const maxRanges = 100

// Range is origin offsets, both inclusive.
type Range struct {
	From rhumb.Offset `json:"from,string"`
	To   rhumb.Offset `json:"to,string"`
}

// String gives one offset, or from-to.
func (r Range) String() string {
	if r.From == r.To {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

func (r Range) overlaps(o Range) bool { return r.From <= o.To && o.From <= r.To }

// Kind says what is wrong with records.
type Kind string

// The kinds of findings.
const (
	Missing    Kind = "missing"      // the other side has them, this one does not
	Extra      Kind = "extra"        // this side has them (or has them twice), their origin does not
	OutOfOrder Kind = "out of order" // they stand behind later ones
	Different  Kind = "different"    // both sides have them, with different content
)

// Finding is records of one origin life that differ, in one region.
type Finding struct {
	Kind    Kind    `json:"kind"`
	Region  string  `json:"region"`         // where it is so
	Records int64   `json:"records,string"` // how many
	Ranges  []Range `json:"ranges"`         // at most 100
	More    bool    `json:"more"`           // there are more ranges
	Detail  string  `json:"detail,omitempty"`
}

// add counts records of a range; ranges come in rising order, except those of
// what is out of order.
func (f *Finding) add(r Range, records int64) {
	f.Records += records
	if n := len(f.Ranges); n > 0 && f.Ranges[n-1].To+1 == r.From && !f.More {
		f.Ranges[n-1].To = r.To
		return
	}
	if len(f.Ranges) >= maxRanges {
		f.More = true
		return
	}
	f.Ranges = append(f.Ranges, r)
}

// Explained is records that one side does not hold for a reason that is known.
type Explained struct {
	Region  string  `json:"region"`
	Reason  string  `json:"reason"`
	Records int64   `json:"records,string"`
	Ranges  []Range `json:"ranges"`
	More    bool    `json:"more"`
}

// State is the result for one origin life, one partition or all.
type State string

// The states, from good to bad.
const (
	Skipped    State = "skipped" // an origin that the other side is not meant to hold; the note says why
	Equal      State = "equal"
	Incomplete State = "incomplete" // what could be compared is equal; one side has records that no link brings to the other
	Unknown    State = "unknown"
	Differs    State = "differs"
)

// worse gives the one that must be told.
func (s State) worse(o State) State {
	rank := map[State]int{Equal: 1, Incomplete: 2, Unknown: 3, Differs: 4}
	if rank[o] > rank[s] {
		return o
	}
	return s
}

// Origin is the result for one origin life of one partition.
type Origin struct {
	Topic     string             `json:"topic"`
	Partition int32              `json:"partition"`
	Region    rhumb.RegionNumber `json:"region"`
	Name      rhumb.RegionName   `json:"region_name"`
	Life      rhumb.Life         `json:"life"`
	State     State              `json:"state"`
	Compared  Range              `json:"compared"`             // offsets that both vouch for; To < From: none
	Records   int64              `json:"records,string"`       // equal records
	Late      map[string]int64   `json:"late,omitempty"`       // by region: records that it does not account for yet and the other one holds
	Uncarried map[string]int64   `json:"uncarried,omitempty"`  // by region: records that it lacks, and no edge brings to it
	NoEdgeTo  rhumb.RegionName   `json:"no_edge_to,omitempty"` // the region that holds nothing of it since no edge brings it there
	Alone     map[string]int64   `json:"alone,omitempty"`      // by region: records of an earlier life that it holds and no link brings to the other one
	Overtaken bool               `json:"overtaken,omitempty"`  // retention dropped so much of it while it was compared that nothing is proven
	Findings  []Finding          `json:"findings"`
	Explained []Explained        `json:"explained"`
	Note      string             `json:"note,omitempty"`
}

// Problem is what could not be compared, and why.
type Problem struct {
	Topic   string `json:"topic"`
	Message string `json:"message"`
}

// Report is the result of a whole comparison.
type Report struct {
	A        string    `json:"a"`
	B        string    `json:"b"`
	State    State     `json:"state"`
	Topics   int       `json:"topics"`
	Records  int64     `json:"records,string"` // equal records
	Origins  []Origin  `json:"origins"`
	Problems []Problem `json:"problems"`
}

func (r *Report) add(o Origin) {
	r.Origins = append(r.Origins, o)
	r.Records += o.Records
	r.State = r.State.worse(o.State)
}

func (r *Report) problem(topic string, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{topic, fmt.Sprintf(format, args...)})
	r.State = r.State.worse(Unknown)
}
