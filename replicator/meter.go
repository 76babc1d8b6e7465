package replicator

import (
	"time"

	"github.com/quic-go/quic-go"
)

// leastKept is how long a least round trip counts: a path may get longer for good.
const leastKept = 5 * time.Minute

// meter reads how the path does from the connections that are in use.
type meter struct {
	seen   map[*quic.Conn]packets
	rtt    time.Duration // mean of the smoothed ones
	loss   float64       // of the last sample
	smooth float64       // of some seconds

	least, before time.Duration // of this period and the one before; 0: not known
	begun         time.Time     // of this period
}

type packets struct{ sent, lost uint64 }

// look takes a sample.
func (m *meter) look(first *quic.Conn, others []*member, now time.Time) {
	if m.begun.IsZero() || now.Sub(m.begun) > leastKept {
		m.begun, m.before, m.least = now, m.least, 0
	}
	seen := make(map[*quic.Conn]packets, 1+len(others))
	var sum time.Duration
	var sent, lost uint64
	take := func(c *quic.Conn) {
		st := c.ConnectionStats()
		sum += st.SmoothedRTT
		p, old := packets{st.PacketsSent, st.PacketsLost}, m.seen[c]
		seen[c] = p
		sent += p.sent - old.sent
		if p.lost > old.lost {
			lost += p.lost - old.lost
		}
	}
	take(first)
	// Of the first one only: a new connection tells a guess of the library's.
	if r := first.ConnectionStats().LatestRTT; r > 0 && (m.least == 0 || r < m.least) {
		m.least = r
	}
	for _, x := range others {
		take(x.qc)
	}
	m.seen = seen
	m.rtt = sum / time.Duration(1+len(others))
	m.loss = 0
	if sent > 0 {
		m.loss = min(1, float64(lost)/float64(sent))
	}
	if sent > 50 { // few packets say little
		m.smooth += 0.1 * (m.loss - m.smooth)
	}
}

// leastTrip gives the least round trip of the last minutes.
func (m *meter) leastTrip() time.Duration {
	if m.before > 0 && (m.least == 0 || m.before < m.least) {
		return m.before
	}
	return m.least
}
