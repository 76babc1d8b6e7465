package configstore

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of bytes per second as it is written in a document: a number,
// or a text with a unit such as 10MB, 512KiB or 10MB/s. Empty: none is given.
type Rate string

// Bounds of a rate, in bytes per second. Below the least, one large batch would
// take hours.
const (
	MinRate = 1000
	MaxRate = int64(1) << 40
)

// UnmarshalJSON takes a number or a text. What it says is checked with the
// document, where a refusal can name the field.
func (r *Rate) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil && s != "" {
		*r = Rate(s)
		return nil
	}
	*r = Rate(text)
	return nil
}

// MarshalJSON writes a number as a number.
func (r Rate) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseInt(string(r), 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10), nil
	}
	return json.Marshal(string(r))
}

func (r Rate) validate(field string) error {
	if r == "" {
		return nil
	}
	n, err := ParseBytes(strings.TrimSuffix(string(r), "/s"))
	if err != nil || n < MinRate || n > MaxRate {
		return invalid(field, "must be bytes per second from 1KB to 1TiB, such as 10MB or 512KiB, not %s", string(r))
	}
	return nil
}

// bytes gives a rate that was validated, in bytes per second; zero if none is given.
func (r Rate) bytes() int64 {
	if r == "" {
		return 0
	}
	n, err := ParseBytes(strings.TrimSuffix(string(r), "/s"))
	if err != nil {
		return 0
	}
	return n
}

// byteUnits are those of a number of bytes; longer ones stand before those that
// they end with.
var byteUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1}}

// ParseBytes reads a number of bytes that a person wrote: 1048576, 10MB (ten
// million), 10MiB (10·2^20).
func ParseBytes(s string) (int64, error) {
	unit := int64(1)
	digits := strings.TrimSpace(s)
	for _, u := range byteUnits {
		if cut, ok := strings.CutSuffix(digits, u.name); ok {
			digits, unit = strings.TrimSpace(cut), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is no number of bytes such as 1048576, 10MB or 10MiB", s)
	}
	return int64(n) * unit, nil
}

// FormatBytes writes a number of bytes so that [ParseBytes] reads it again, in the unit
// that a person will have used: the one that leaves the smallest whole number.
func FormatBytes(n int64) string {
	least, unit := n, ""
	for _, u := range byteUnits {
		if n > 0 && n%u.bytes == 0 && n/u.bytes < least {
			least, unit = n/u.bytes, u.name
		}
	}
	return strconv.FormatInt(least, 10) + unit
}

// FormatDuration writes a length of time in ms so that [ParseDuration] reads it again,
// in one unit.
func FormatDuration(ms int64) string {
	for _, u := range []struct {
		name string
		ms   int64
	}{{"d", 86_400_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1000}} {
		if ms%u.ms == 0 {
			return strconv.FormatInt(ms/u.ms, 10) + u.name
		}
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// ParseDuration reads a duration that a person wrote: what Go takes, and days
// such as 30d or 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	refused := fmt.Errorf("%q is no duration such as 30d, 12h or 90s", s)
	days, rest, has := strings.Cut(s, "d")
	if !has {
		days, rest = "0", s
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > 36500 {
		return 0, refused
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 || more > 36500*24*time.Hour {
			return 0, refused
		}
		d += more
	} else if !has {
		return 0, refused
	}
	return d, nil
}
