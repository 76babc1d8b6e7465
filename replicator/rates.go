package replicator

import (
	"sync"
	"time"
)

// rates are a connection's bytes per second, smoothed over some seconds.
type rates struct {
	mu             sync.Mutex
	at             time.Time
	sent, received uint64 // at that time
	out, in        float64
}

// smoothing is the weight of the newest second.
const smoothing = 0.3

// sample takes the counters of the link once a second.
func (r *rates) sample(now time.Time, sent, received uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := now.Sub(r.at).Seconds(); !r.at.IsZero() && d > 0 {
		r.out += smoothing * (float64(sent-r.sent)/d - r.out)
		r.in += smoothing * (float64(received-r.received)/d - r.in)
	}
	r.at, r.sent, r.received = now, sent, received
}

func (r *rates) get() (out, in float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out, r.in
}
