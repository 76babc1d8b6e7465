package relay

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Settings say what one direction does to datagrams. The zero value is a
// perfect line.
type Settings struct {
	// Delay is how long a datagram travels: half of a round trip.
	Delay time.Duration
	// Jitter is the most that is added to Delay. It never reorders.
	Jitter time.Duration
	// Loss is the probability (0 to 1) that a datagram is dropped.
	Loss float64
	// Reorder is the probability that a datagram is held back a little, so that
	// later ones overtake it.
	Reorder float64
	// Duplicate is the probability that a datagram arrives twice.
	Duplicate float64
	// Rate is the bottleneck in bits per second; 0 means none.
	Rate int64
	// Queue is how many bytes wait at the bottleneck before it drops; 0 means
	// 50 ms of Rate, at least 64 KiB.
	Queue int
	// Cut drops everything.
	Cut bool
}

// minQueue is the least that waits at a bottleneck: some dozens of datagrams.
const minQueue = 64 << 10

func (s Settings) queue() int {
	if s.Queue > 0 {
		return s.Queue
	}
	return max(minQueue, int(s.Rate/8/20))
}

// holdBack is how much later a reordered datagram arrives.
func (s Settings) holdBack() time.Duration { return s.Delay/4 + 2*time.Millisecond }

// With gives the settings changed by a list such as
// "rtt=80ms,loss=1%,rate=100mbit". What the list does not name stays. Keys: rtt
// (both ways together: each direction takes half), delay, jitter, loss, reorder,
// duplicate (a percentage, or a fraction without the sign), rate (bit, kbit, mbit, gbit per second; 0
// lifts it), queue (bytes), cut (true or false). Errors are of kind invalid.
func (s Settings) With(list string) (Settings, error) {
	for item := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return s, rhumb.Errorf(rhumb.KindInvalid, "link setting %q: want key=value", item)
		}
		if err := s.set(key, value); err != nil {
			return s, rhumb.Errorf(rhumb.KindInvalid, "link setting %s: %w", key, err)
		}
	}
	return s, nil
}

func (s *Settings) set(key, value string) (err error) {
	switch key {
	case "rtt":
		s.Delay, err = parseDelay(value)
		s.Delay /= 2
	case "delay":
		s.Delay, err = parseDelay(value)
	case "jitter":
		s.Jitter, err = parseDelay(value)
	case "loss":
		s.Loss, err = parseShare(value)
	case "reorder":
		s.Reorder, err = parseShare(value)
	case "duplicate":
		s.Duplicate, err = parseShare(value)
	case "rate":
		s.Rate, err = parseRate(value)
	case "queue":
		var n uint64
		n, err = strconv.ParseUint(value, 10, 31)
		s.Queue = int(n)
	case "cut":
		s.Cut, err = strconv.ParseBool(value)
	default:
		err = fmt.Errorf("not one of rtt, delay, jitter, loss, reorder, duplicate, rate, queue, cut")
	}
	return err
}

// maxDelay keeps a mistyped unit from parking datagrams for hours.
const maxDelay = time.Minute

func parseDelay(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && (d < 0 || d > maxDelay) {
		err = fmt.Errorf("%q is not within 0 and %s", s, maxDelay)
	}
	return d, err
}

func parseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err == nil && !(f >= 0 && f <= 1) {
		err = fmt.Errorf("%q is not within 0 and 100%%", s)
	}
	return f, err
}

// maxRate is far above any network: it keeps arithmetic away from overflow.
const maxRate = 1e12

func parseRate(s string) (int64, error) {
	number, unit := s, 0.0 // without a unit only 0 is a rate: 100 could be anything
	for _, u := range []struct {
		suffix string
		bits   float64
	}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}} {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			number, unit = n, u.bits
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err == nil && unit == 0 && f != 0 {
		err = fmt.Errorf("%q has no unit: bit, kbit, mbit or gbit", s)
	}
	if err == nil && !(f >= 0 && f*unit <= maxRate) {
		err = fmt.Errorf("%q is not within 0 and %g bit", s, float64(maxRate))
	}
	return int64(f * unit), err
}

// String gives the settings as With reads them.
func (s Settings) String() string {
	return fmt.Sprintf("delay=%s,jitter=%s,loss=%g%%,reorder=%g%%,duplicate=%g%%,rate=%dbit,queue=%d,cut=%t",
		s.Delay, s.Jitter, s.Loss*100, s.Reorder*100, s.Duplicate*100, s.Rate, s.Queue, s.Cut)
}
