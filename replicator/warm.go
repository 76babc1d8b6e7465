package replicator

import (
	"context"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/replicator/climb"
)

// A connection begins with some 40 KB in flight and may have twice as many after each
// round trip (RFC 9002, section 7.3.1): on a long line new data would wait for several
// of them. So a connection on such a line is warmed up before there is anything to send:
// padding has its congestion window grow, in datagrams (RFC 9221) that nobody reads and
// that are not sent again.
const (
	// warmFrom is the least round trip of a line that is worth it.
	warmFrom = 10 * time.Millisecond
	// warmRate is what a connection is to carry at once, in bytes per second, and warmMost
	// the most that it is to have in flight for that. The padding is about as much.
	warmRate = 3 << 20
	warmMost = 1 << 20
	// warmSlack is added to the round trip: answers come up to 25 ms later than they could,
	// and each loss takes a third of the window.
	warmSlack = 50 * time.Millisecond
	// warmTick is between two portions, which have about as much room in the window: so data
	// that comes meanwhile waits behind little padding, 32 datagrams at most (as many quic-go
	// takes), and only while the link is a few round trips old.
	warmTick = 5 * time.Millisecond
	// warmTrips is after how many round trips it ends at the latest.
	warmTrips = 24
	// warmWait is for how long it waits at most until it is known whether losses are
	// corrected: the first one that is not ends it.
	warmWait = 3 * time.Second
	// padding is the size of a datagram: it fits into any packet.
	padding = 1100
)

// warmTarget gives how much a connection is to have in flight on a line of a round trip
// that may carry rate bytes per second (0: any); 0 if it needs no warming.
func warmTarget(trip time.Duration, rate int64) uint64 {
	if trip < warmFrom {
		return 0
	}
	most := int64(warmRate)
	if rate > 0 {
		most = min(most, rate)
	}
	return min(warmMost, uint64(float64(most)*(trip+warmSlack).Seconds()))
}

// outcome is how a warming ended.
type outcome uint8

const (
	warming outcome = iota // it did not
	warm                   // the window is large enough
	narrow                 // packets had to queue: the line has no room for more
	cut                    // by a loss: the window hardly grows any more (RFC 9002, section 7.3.3)
	late                   // it took too long, or too much
)

// warmth is the state of one warming. It has no clock.
type warmth struct {
	target uint64 // window to be reached
	until  time.Time
	at     time.Time
	had    uint64 // bytes that the connection had sent then
	sent   uint64 // padding
	lately uint64 // of these, in the last portion
}

// portion gives how much padding goes out now: as much as has room in the window besides
// what else the connection sends.
func (w *warmth) portion(now time.Time, st *quic.ConnectionStats) (n int, o outcome) {
	took, used := now.Sub(w.at), st.BytesSent-w.had
	w.at, w.had = now, st.BytesSent
	used -= min(used, w.lately)
	w.lately = 0
	switch {
	case st.CongestionWindow >= w.target:
		return 0, warm
	case st.PacketsLost > 0:
		return 0, cut
	case queues(st):
		return 0, narrow
	case w.sent >= 2*w.target || now.After(w.until):
		return 0, late
	}
	// A quarter more than a window each round trip, which is QUIC's own pace: with less the
	// window is never full, and grows later.
	room := st.CongestionWindow * 5 / 4 * uint64(min(took, st.MinRTT)) / uint64(st.MinRTT)
	w.lately = room - min(room, used)
	w.sent += w.lately
	return int(w.lately), warming
}

// queues reports whether packets wait on the path.
func queues(st *quic.ConnectionStats) bool {
	return st.LatestRTT > st.MinRTT+max(st.MinRTT/4, 10*time.Millisecond)
}

// warm warms a connection up, if it needs it, and tells how that ended.
func (p *pool) warm(ctx context.Context, qc *quic.Conn) outcome {
	st := qc.ConnectionStats()
	if st.MinRTT < warmFrom || !qc.ConnectionState().SupportsDatagrams.Remote || !p.conn.steady(ctx) {
		return late
	}
	st = qc.ConnectionStats()
	now := time.Now()
	w := warmth{target: warmTarget(st.MinRTT, p.conn.m.cfg.Limits.Rate), until: now.Add(warmTrips * st.MinRTT), at: now, had: st.BytesSent}
	tick := time.NewTicker(warmTick)
	defer tick.Stop()
	pad := make([]byte, padding)
	for left := 0; ; {
		select {
		case <-ctx.Done():
			return late
		case now = <-tick.C:
		}
		st = qc.ConnectionStats()
		n, o := w.portion(now, &st)
		if o != warming {
			return o
		}
		for left += n; left >= padding; left -= padding {
			if qc.SendDatagram(pad) != nil {
				return late
			}
			p.conn.link.counters.padding.Add(padding)
		}
	}
}

// steady waits until losses of the connection are corrected, if they may be. It reports
// false if the context ended.
func (c *conn) steady(ctx context.Context) bool {
	if c.corrected == nil || c.features&featureCorrect == 0 {
		return true
	}
	for began := time.Now(); time.Since(began) < warmWait; {
		st := c.corrected.Stats()
		if !st.Code.Off() || !st.Mode.Auto() {
			break
		}
		if !sleep(ctx, warmTick, nil) {
			return false
		}
	}
	return true
}

// warm warms the link's connection up.
func (c *conn) warm(ctx context.Context) error {
	c.pool.warmed.Store(uint32(c.pool.warm(ctx, c.qc)))
	return nil
}

// drain takes padding from the peer.
func (c *conn) drain(ctx context.Context) error {
	drain(ctx, c.qc)
	return nil
}

func drain(ctx context.Context, qc *quic.Conn) {
	for {
		if _, err := qc.ReceiveDatagram(ctx); err != nil {
			return
		}
	}
}

const (
	// sparesMost is how many connections a link has at most only because the windows of
	// others shrank; sparePause is between two, each of which is padded. Where nothing is
	// sent for spareIdle they are given back, and the link's connection is made anew.
	sparesMost = 3
	sparePause = 3 * time.Second
	spareIdle  = time.Minute
	// blockedMost is up to which part of the time lanes may wait.
	blockedMost = 0.5
)

// spares are connections that a link has only because the windows of others shrank: each
// loss takes a third of one, also of one on which nothing goes but a sign of life now and
// then, and it grows by a packet for each round trip (RFC 9002, section 7.3.3), if all of
// it is used. A new connection begins with a larger one.
type spares struct {
	n        int
	at       time.Time // when the last one was added
	idle     time.Time // since when nothing is sent, zero: something is
	received uint64    // bytes of the peer's, at the last look
	heard    time.Time // when these last grew
}

// look takes the largest window that a connection of the link has, what it needs, and
// whether anything was sent lately. It reports whether one more connection is to be had, and
// whether the first one is to be made anew: not while the peer sends over it.
func (s *spares) look(now time.Time, best, need uint64, sends bool) (more, anew bool) {
	switch {
	case sends:
		s.idle = time.Time{}
	case s.idle.IsZero():
		s.idle = now
	}
	long := !s.idle.IsZero() && now.Sub(s.idle) >= spareIdle
	if long {
		s.n = 0
	}
	if best >= need/2 || long {
		return false, long && best < need/2 && now.Sub(s.heard) >= spareIdle
	}
	if s.n == sparesMost || now.Sub(s.at) < sparePause || !sends && s.n > 0 {
		return false, false
	}
	s.n, s.at = s.n+1, now
	return true, false
}

// spare looks whether new data needs one more connection: only where warming was ended by
// nothing but losses, and no packet waits on the path. While the path limits what is sent,
// the climber measures how many connections are good.
func (p *pool) spare(now time.Time, used []*member, sample climb.Sample) {
	if sample.Blocked >= blockedMost {
		return
	}
	need := warmTarget(p.meter.leastTrip(), p.conn.m.cfg.Limits.Rate)
	if o := outcome(p.warmed.Load()); need == 0 || o != warm && o != cut || p.meter.rtt > p.meter.leastTrip()*5/4+10*time.Millisecond {
		return
	}
	best := p.conn.qc.ConnectionStats().CongestionWindow
	for _, m := range used {
		best = max(best, m.qc.ConnectionStats().CongestionWindow)
	}
	if n := p.conn.link.counters.receivedBytes.Load(); n != p.spares.received {
		p.spares.received, p.spares.heard = n, now
	}
	more, anew := p.spares.look(now, best, need, sample.Bytes > 0)
	if more {
		p.cold.Add(1)
	}
	if anew && p.conn.mayRenew(now) {
		p.conn.end(errRenewed)
	}
	p.climber.Keep(min(1+p.spares.n, p.most))
}

// warm warms a connection up that joined because windows had shrunk.
func (m *member) warm(ctx context.Context) {
	if m.pool.cold.Add(-1) < 0 {
		m.pool.cold.Add(1)
		return
	}
	m.pool.warm(ctx, m.qc)
}
