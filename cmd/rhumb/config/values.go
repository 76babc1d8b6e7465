package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bytes is a number of bytes, written 1048588, 64MiB, 1GiB; -1 means no limit
// where that is allowed.
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String gives the shortest exact form.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if n := int64(b); n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// ParseBytes reads the forms of String, with optional B.
func ParseBytes(s string) (Bytes, error) {
	digits, size := s, int64(1)
	for _, u := range byteUnits {
		if d, ok := strings.CutSuffix(s, u.name); ok {
			digits, size = strings.TrimSpace(d), u.size
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < -1 || n > math.MaxInt64/size || n < 0 && size > 1 {
		return 0, fmt.Errorf("%q is no size: write 1048588, 64MiB or 1GiB", s)
	}
	return Bytes(n * size), nil
}

// UnmarshalYAML reads a scalar.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) (err error) {
	*b, err = scalar(n, ParseBytes)
	return err
}

// MarshalYAML writes the form of String.
func (b Bytes) MarshalYAML() (any, error) { return b.String(), nil }

// Duration is a length of time, written 500ms, 30s, 168h, 7d; -1 means no limit
// where that is allowed.
type Duration time.Duration

const day = 24 * time.Hour

// NoLimit is a Duration without end.
const NoLimit Duration = -1

// Std gives the duration of package time.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String gives whole days as such, else the form of package time.
func (d Duration) String() string {
	switch t := time.Duration(d); {
	case d == NoLimit:
		return "-1"
	case t != 0 && t%day == 0:
		return strconv.FormatInt(int64(t/day), 10) + "d"
	default:
		return t.String()
	}
}

// ParseDuration reads the forms of String.
func ParseDuration(s string) (Duration, error) {
	if s == "-1" {
		return NoLimit, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		if err == nil && n >= 0 && n <= math.MaxInt64/int64(day) {
			return Duration(n * int64(day)), nil
		}
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 {
		return 0, fmt.Errorf("%q is no duration: write 500ms, 30s, 12h or 7d", s)
	}
	return Duration(t), nil
}

// UnmarshalYAML reads a scalar.
func (d *Duration) UnmarshalYAML(n *yaml.Node) (err error) {
	*d, err = scalar(n, ParseDuration)
	return err
}

// MarshalYAML writes the form of String.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

func scalar[T any](n *yaml.Node, parse func(string) (T, error)) (T, error) {
	v, err := parse(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		err = fmt.Errorf("want a single value")
	}
	if err != nil {
		return v, fmt.Errorf("line %d: %w", n.Line, err)
	}
	return v, nil
}
