package relay

import (
	"math/rand/v2"
	"time"
)

// fate decides when, and how often, each datagram of one direction arrives. It
// has no clock and no goroutine: time comes in, times go out.
type fate struct {
	luck     *rand.Rand
	settings Settings
	free     time.Time // when the bottleneck has sent what it holds
	last     time.Time // arrival of the latest datagram in order
}

func newFate(seed uint64, direction uint64, s Settings) *fate {
	return &fate{luck: rand.New(rand.NewPCG(seed, direction)), settings: s}
}

// arrivals gives the times at which a datagram of size bytes sent now arrives:
// none if it is lost, two if it is doubled.
func (f *fate) arrivals(now time.Time, size int) (times [2]time.Time, n int) {
	// All draws are taken before any decision, see the package comment.
	loss, jitter, reorder, double := f.luck.Float64(), f.luck.Float64(), f.luck.Float64(), f.luck.Float64()
	s := f.settings
	if s.Cut || loss < s.Loss {
		return times, 0
	}
	sent := now
	if s.Rate > 0 {
		sent = later(now, f.free)
		if waiting := sent.Sub(now).Seconds() * float64(s.Rate) / 8; int(waiting)+size > s.queue() {
			return times, 0
		}
		sent = sent.Add(time.Duration(float64(size) * 8 / float64(s.Rate) * float64(time.Second)))
		f.free = sent
	}
	at := sent.Add(s.Delay + time.Duration(jitter*float64(s.Jitter)))
	if reorder < s.Reorder {
		at = at.Add(s.holdBack())
	} else {
		at = later(at, f.last)
		f.last = at
	}
	times[0], n = at, 1
	if double < s.Duplicate {
		times[1], n = at.Add(s.holdBack()), 2
	}
	return times, n
}

// set changes the settings. Order is only kept within one setting: after a
// long delay is lifted, new datagrams need not wait for the old ones.
func (f *fate) set(s Settings) {
	f.settings = s
	f.free, f.last = time.Time{}, time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
