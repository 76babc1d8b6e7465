package configstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// AtLimit says what happens when records that other regions have not confirmed may
// not be kept any longer.
type AtLimit string

// What may happen at the limit.
const (
	AtLimitGap  AtLimit = "gap"  // the oldest go, and are gaps where they are missed
	AtLimitHold AtLimit = "hold" // they stay, and producers are refused meanwhile
)

// Backlog says how long retention waits for other regions, and what then.
type Backlog struct {
	// Hold is how long records that retention would drop are kept for regions that
	// lack them. nil: what the region's own config says. 0: not at all.
	Hold *Period `json:"hold,omitzero"`
	// AtLimit says what happens after that, or when they take more of the disk than
	// the region allows. Empty: AtLimitGap.
	AtLimit AtLimit `json:"at_limit,omitzero"`
}

// Holds reports whether producers wait at the limit.
func (b *Backlog) Holds() bool { return b != nil && b.AtLimit == AtLimitHold }

func (b *Backlog) validate() error {
	if b == nil {
		return nil
	}
	var r refusals
	if b.Hold != nil && *b.Hold < 0 {
		r.add(invalid("backlog.hold", "must not be negative"))
	}
	switch b.AtLimit {
	case "", AtLimitGap, AtLimitHold:
	default:
		r.add(invalid("backlog.at_limit", "must be gap or hold, not %q", string(b.AtLimit)))
	}
	return r.err()
}

// Period is a length of time in a document: "36h", "90m", "7d".
type Period time.Duration

// String gives the form that a document has: whole days as days.
func (p Period) String() string {
	const day = 24 * time.Hour
	if d := time.Duration(p); d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return time.Duration(p).String()
}

// MarshalText gives the form of String.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the forms of String, and whatever time.ParseDuration reads.
func (p *Period) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err == nil {
			*p = Period(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return rhumb.Errorf(rhumb.KindInvalid, "%q is no length of time: write 90m, 36h or 7d", s)
	}
	*p = Period(d)
	return nil
}
