package replicator

import (
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// leastKept is how long a least round trip counts: a path may get longer for good.
	// queueKept is how long it does while all round trips are so long that they may be those
	// of a full queue, of which trip and load could not say that it is a path: what catches
	// up over a slow line fills its queue for longer than leastKept.
	leastKept = 2 * time.Minute
	queueKept = 30 * time.Minute
	// longerTicks is how many samples in a row, with little to send, show that it did: a
	// queue that others fill, or that was filled before, is gone by then.
	longerTicks = 6
	// quietBelow is what Blocked is below then.
	quietBelow = 0.1
	// quietBytes is how much goes over a quiet link in one sample, in either direction: some
	// records now and then, that fill no queue.
	quietBytes = 8 << 10
)

// meter reads how the path does from the connections that are in use.
type meter struct {
	seen   map[*quic.Conn]packets
	rtt    time.Duration // mean of the smoothed ones
	loss   float64       // of the last sample
	sent   uint64        // packets so far
	lost   uint64        // of these
	smooth float64       // of some seconds

	least, before time.Duration // of this period and the one before; 0: not known
	begun         time.Time     // of this period
	held          time.Time     // when before was taken
	longer        int           // samples in a row that show a longer path
	longest       time.Duration // the least of these
	loaded        loaded
	looked        time.Time // at the last sample

	carried map[*quic.Conn]traffic // at the last sample
	quiet   int                    // samples in a row in which little went over the link
}

type packets struct{ sent, lost uint64 }

// traffic is what went over a connection so far, in bytes.
type traffic struct{ out, in uint64 }

// look takes a sample. blocked is for which part of the time somebody waited for the
// path.
func (m *meter) look(first *quic.Conn, others []*member, now time.Time, blocked float64) {
	m.turn(now)
	seen := make(map[*quic.Conn]packets, 1+len(others))
	var sum time.Duration
	var sent, lost, windows uint64
	take := func(c *quic.Conn) {
		st := c.ConnectionStats()
		sum += st.SmoothedRTT
		windows += st.CongestionWindow
		p, old := packets{st.PacketsSent, st.PacketsLost}, m.seen[c]
		seen[c] = p
		sent += p.sent - old.sent
		if p.lost > old.lost {
			lost += p.lost - old.lost
		}
	}
	take(first)
	for _, x := range others {
		take(x.qc)
	}
	// Of the first one only: a new connection tells a guess of the library's.
	st := first.ConnectionStats()
	m.trip(st.LatestRTT, blocked)
	m.load(st.LatestRTT, st.SmoothedRTT, windows/uint64(1+len(others)), float64(sent-min(sent, lost))/max(now.Sub(m.looked).Seconds(), .001), now, blocked)
	m.looked = now
	m.seen = seen
	m.sent, m.lost = m.sent+sent, m.lost+lost
	m.rtt = sum / time.Duration(1+len(others))
	m.loss = 0
	if sent > 0 {
		m.loss = min(1, float64(lost)/float64(sent))
	}
	if sent > 50 { // few packets say little
		m.smooth += 0.1 * (m.loss - m.smooth)
	}
}

// turn begins another period when it is time.
func (m *meter) turn(now time.Time) {
	if !m.begun.IsZero() && now.Sub(m.begun) <= leastKept {
		return
	}
	if !m.grown(m.least) || now.Sub(m.held) > queueKept {
		m.before, m.held = m.least, now
	}
	m.begun, m.least = now, 0
}

// grown reports whether a round trip is that of a full queue, or of a longer path.
func (m *meter) grown(r time.Duration) bool {
	least := m.leastTrip()
	return least > 0 && r >= 2*least+10*time.Millisecond
}

// hear takes how much goes over the link, over whichever of its connections.
func (m *meter) hear(first *quic.Conn, others []*member) {
	now := make(map[*quic.Conn]traffic, 1+len(others))
	var sum traffic
	add := func(c *quic.Conn) {
		st, old := c.ConnectionStats(), m.carried[c]
		now[c] = traffic{st.BytesSent, st.BytesReceived}
		sum.out += st.BytesSent - old.out
		sum.in += st.BytesReceived - old.in
	}
	add(first)
	for _, x := range others {
		add(x.qc)
	}
	m.carried = now
	if m.quiet++; max(sum.out, sum.in) > quietBytes {
		m.quiet = 0
	}
}

// trip takes a round trip.
func (m *meter) trip(r time.Duration, blocked float64) {
	if r == 0 {
		return
	}
	if m.least == 0 || r < m.least {
		m.least = r
	}
	if blocked >= quietBelow || !m.grown(r) {
		m.longer = 0
		return
	}
	if m.longer++; m.longer == 1 || r < m.longest {
		m.longest = r
	}
	if m.longer >= longerTicks {
		m.least, m.before, m.longer = m.longest, 0, 0
	}
}

const (
	// loadedSkip is how many samples pass after a round trip has grown: the smoothed one follows.
	loadedSkip = 4
	// loadedFor and loadedTrips are how long is looked at least then.
	loadedFor   = 5 * time.Second
	loadedTrips = 20
	// loadedVaries is by how much the windows must have changed in that time, and loadedShare
	// which part of that the round trip may have. It is little, since others who share a full
	// queue keep it long while these windows shrink; but their own losses show in it, too.
	loadedVaries = 0.2
	loadedShare  = 0.03
	// loadedRate is which part of it the rate must have changed by, and loadedWindow what windows
	// have at least: many connections with a few packets each keep a short queue full, and with it
	// the line, whatever their windows do.
	loadedRate   = 0.6
	loadedWindow = 5 << 10
)

// loaded looks whether a round trip that has grown is a longer path, while there is much to
// send. A queue that the connections fill themselves is as long as their windows: when
// these shrink with a loss, it does, and what gets through stays the same. A path stays as
// long as it is, and less gets through. So it is with a queue that others fill, too, but for
// its length, which is never the same for long.
type loaded struct {
	n                int  // samples since the round trip grew
	said             bool // the time before said that it is a path
	since            time.Time
	least            time.Duration
	shortest, longer time.Duration // smoothed
	small, large     uint64        // windows, the mean of all connections
	slow, fast       float64       // packets per second that got through
}

// load takes a round trip, the smoothed one, the mean window of the connections, and how many
// packets got through in a second.
func (m *meter) load(latest, smoothed time.Duration, window uint64, rate float64, now time.Time, blocked float64) {
	l := &m.loaded
	if latest == 0 || !m.grown(latest) {
		*l = loaded{}
		return
	}
	if blocked < quietBelow {
		return // see trip
	}
	if l.n++; l.n <= loadedSkip {
		return
	}
	if l.since.IsZero() {
		*l = loaded{n: l.n, said: l.said, since: now, least: latest, shortest: smoothed, longer: smoothed, small: window, large: window, slow: rate, fast: rate}
	}
	l.slow, l.fast = min(l.slow, rate), max(l.fast, rate)
	l.least = min(l.least, latest)
	l.shortest, l.longer = min(l.shortest, smoothed), max(l.longer, smoothed)
	l.small, l.large = min(l.small, window), max(l.large, window)
	if now.Sub(l.since) < max(loadedFor, loadedTrips*l.longer) {
		return
	}
	varied := float64(l.large)/float64(l.small) - 1
	path := l.small >= loadedWindow && varied >= loadedVaries && float64(l.longer)/float64(l.shortest)-1 <= loadedShare*varied && l.fast > (1+loadedRate*varied)*l.slow
	switch {
	case path && l.said: // once may be chance
		m.least, m.before, m.longer = l.least, 0, 0
		*l = loaded{}
	default:
		*l = loaded{n: loadedSkip, said: path}
	}
}

// outgrownBy is how many times longer a path's least round trip may be than the least one
// that its first connection ever saw.
const outgrownBy = 4

// outgrown reports whether the connection began on another path, so much shorter that its
// congestion control takes each packet on this one for one that waits in a queue, and
// that little goes over it, so that another one may take its place. Under backlog it stays,
// whoever sends that: on a slow line its queue looks like a longer path, to both sides.
func (c *conn) outgrown(m *meter) bool {
	least, first := m.leastTrip(), c.qc.ConnectionStats().MinRTT
	if m.quiet < longerTicks || least < outgrownFrom || first == 0 || least <= outgrownBy*first {
		return false
	}
	return c.mayRenew(time.Now())
}

// mayRenew reports whether the connection may be made anew now, and notes that it is.
func (c *conn) mayRenew(now time.Time) bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.link.renewed.IsZero() || now.Sub(c.link.renewed) >= renewPause {
		c.link.renewed = now
		return true
	}
	return false
}

const (
	// outgrownFrom is a round trip below which no path is long.
	outgrownFrom = 20 * time.Millisecond
	// renewPause is between two that are made anew for that: a queue that others fill for
	// seconds looks the same.
	renewPause = 10 * time.Minute
)

// leastTrip gives the least round trip of the last minutes.
func (m *meter) leastTrip() time.Duration {
	if m.before > 0 && (m.least == 0 || m.before < m.least) {
		return m.before
	}
	return m.least
}
