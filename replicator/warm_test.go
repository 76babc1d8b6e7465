package replicator

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// arrivals has a region note how old the batches are that it stores.
func (n *node) arrivals() *trickle {
	x := &trickle{}
	n.region.mu.Lock()
	defer n.region.mu.Unlock()
	n.region.failAppend = func(_ rhumb.PartitionRef, e *codec.Envelope) error {
		at := time.UnixMilli(e.AppendTime)
		x.at, x.ages = append(x.at, at), append(x.ages, time.Since(at))
		return nil
	}
	return x
}

// stream publishes 2,000 records of 1 KiB a second in a topic's partitions, all of which
// must arrive. meanwhile may change the line.
func (ms *mesh) stream(from, to *node, partitions int, d time.Duration, meanwhile func(time.Duration)) {
	ms.t.Helper()
	for i := range int(d / time.Millisecond) {
		from.produce(live, i%partitions, 2, 2100)
		if meanwhile != nil {
			meanwhile(time.Duration(i) * time.Millisecond)
		}
		ms.pass(time.Millisecond)
	}
	for p := range partitions {
		ms.until("all is there", time.Minute, func() bool { return copied(from, to, live, p) })
	}
}

// flowing has two linked regions with a topic whose sessions are open.
func (ms *mesh) flowing(from, to *node, partitions int) {
	ms.t.Helper()
	ms.opened(from, to, partitions, 8*time.Second)
	for p := range partitions {
		from.produce(live, p, 1, 300)
		ms.until("open", 10*time.Second, func() bool { return copied(from, to, live, p) })
	}
}

// opened has two linked regions with a topic, idle for a while.
func (ms *mesh) opened(from, to *node, partitions int, idle time.Duration) {
	ms.t.Helper()
	ms.start()
	from.create(live, int32(partitions))
	ms.until("topic", 30*time.Second, func() bool {
		info, ok := to.region.Topic(live)
		return ok && len(info.Partitions) == partitions
	})
	ms.pass(idle)
}

// TestNewDataCrossesALongLineAtOnce: records that begin to flow over a long line are as
// old as its way is long when they arrive, one of a hundred half as old again, or as a
// packet that has to be sent again where some are lost: they do not wait for a congestion
// window to grow, which takes twice that.
func TestNewDataCrossesALongLineAtOnce(t *testing.T) {
	for _, line := range []relay.Settings{
		{Delay: 100 * time.Millisecond},
		{Delay: 100 * time.Millisecond, Loss: .01},
		{Delay: 40 * time.Millisecond, Loss: .001},
		{Delay: 150 * time.Millisecond, Loss: .03},
	} {
		inBubble(t, line, usEu, func(ms *mesh) {
			us, eu := ms.nodes["us"], ms.nodes["eu"]
			ms.flowing(us, eu, 6)
			x := eu.arrivals()
			ms.stream(us, eu, 6, 2*time.Second, nil)
			most := line.Delay * 3 / 2
			if line.Loss > 0 { // its parity may be lost as well
				most = line.Delay * 4
			}
			if age := x.worst(); age > most {
				ms.t.Errorf("%+v: one of a hundred records was older than %s", line, age)
			}
			if sent := us.link("eu").PaddingBytes; sent == 0 || sent > 4*warmMost {
				ms.t.Errorf("%d bytes of padding", sent)
			}
		})
	}
}

// TestYoungLinkIsWarmSoon: half a second after a link came up over a long line, new data does
// not wait for the congestion window any more.
func TestYoungLinkIsWarmSoon(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 100 * time.Millisecond}, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.opened(us, eu, 6, 500*time.Millisecond)
		for p := range 6 {
			us.produce(live, p, 1, 300)
		}
		for p := range 6 {
			ms.until("open", 10*time.Second, func() bool { return copied(us, eu, live, p) })
		}
		x := eu.arrivals()
		ms.stream(us, eu, 6, 2*time.Second, nil)
		if age := x.worst(); age > 200*time.Millisecond { // 355 ms if it is only asked then whether losses are corrected
			ms.t.Errorf("one of a hundred records was older than %s", age)
		}
	})
}

// TestShortAndNarrowLinesAreNotWarmedUp: no padding on a short line, and little on one
// that has no room for it.
func TestShortAndNarrowLinesAreNotWarmedUp(t *testing.T) {
	for _, c := range []struct {
		line relay.Settings
		rate int64
		most uint64
	}{
		{relay.Settings{Delay: time.Millisecond}, 0, 0},
		{relay.Settings{Delay: 50 * time.Millisecond, Rate: 4_000_000}, 0, 400_000},
		{relay.Settings{Delay: 50 * time.Millisecond}, 100_000, 0}, // the window is there from the start
	} {
		inBubble(t, c.line, usEu, func(ms *mesh) {
			ms.limits.Rate = c.rate
			ms.start()
			us := ms.nodes["us"]
			ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
			ms.pass(20 * time.Second)
			if st := us.link("eu"); st.PaddingBytes > c.most || st.Connections != 1 {
				ms.t.Errorf("%+v: %d bytes of padding, %d connections", c.line, st.PaddingBytes, st.Connections)
			}
		})
	}
}

// TestShrunkWindowsAreReplaced: bursts of losses that nothing corrects shrink windows;
// further connections begin with large ones, few of them, and data goes on.
func TestShrunkWindowsAreReplaced(t *testing.T) {
	line := relay.Settings{Delay: 40 * time.Millisecond}
	inBubble(t, line, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.correction = uncorrected
		ms.flowing(us, eu, 6)
		x := eu.arrivals()
		ms.stream(us, eu, 6, 8*time.Second, func(at time.Duration) {
			switch at % time.Second {
			case 500 * time.Millisecond:
				ms.cut("us", "eu", relay.Settings{Delay: line.Delay, Loss: 1})
			case 550 * time.Millisecond:
				ms.cut("us", "eu", line)
			}
		})
		// Half a round trip, the burst, and a round trip to repeat what was lost; and some.
		if age := x.worst(); age > 300*time.Millisecond {
			ms.t.Errorf("one of a hundred records was older than %s", age)
		}
		if n := us.connections("eu"); n < 2 {
			ms.t.Errorf("%d connections", n)
		}
	})
}

// TestSparesAreFew: see spares.look.
func TestSparesAreFew(t *testing.T) {
	var s spares
	now := time.Unix(1000, 0)
	step := func(after time.Duration, best uint64, sends, more, anew bool, n int) {
		t.Helper()
		now = now.Add(after)
		if m, a := s.look(now, best, 200, sends); m != more || a != anew || s.n != n {
			t.Errorf("more %v, anew %v, %d spares; want %v, %v, %d", m, a, s.n, more, anew, n)
		}
	}
	step(0, 100, true, false, false, 0) // enough
	step(0, 99, true, true, false, 1)
	step(time.Second, 99, true, false, false, 1) // it has just been asked for
	step(sparePause, 99, true, true, false, 2)
	step(sparePause, 99, false, false, false, 2) // nothing is sent
	step(sparePause, 99, true, true, false, 3)
	step(sparePause, 99, true, false, false, 3)
	step(sparePause, 99, false, false, false, 3)
	step(spareIdle, 150, false, false, false, 0) // given back, but one is large
	s.heard = now                                // the peer sends
	step(spareIdle-time.Second, 99, false, false, false, 0)
	step(time.Second, 99, false, false, true, 0)
	step(time.Second, 99, true, true, false, 1)
}

// TestShrunkWindowDoesNotEndWhatThePeerSends: a region that only receives has a small window
// on a bad line, and nothing to send; the connection is not made anew for that under the peer.
func TestShrunkWindowDoesNotEndWhatThePeerSends(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond, Loss: .03}, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.correction = uncorrected
		ms.policy.edges = ms.policy.edges[:1] // nothing leads back
		ms.flowing(us, eu, 1)
		for range 1500 {
			us.produce(live, 0, 1, 1000)
			ms.pass(100 * time.Millisecond)
		}
		ms.until("all is there", time.Minute, func() bool { return copied(us, eu, live, 0) })
		if st := us.link("eu"); st.Connects != 1 {
			ms.t.Errorf("%d connections, one after the other", st.Connects)
		}
	})
}

// TestWarmthEnds: padding ends where it is enough or does harm.
func TestWarmthEnds(t *testing.T) {
	const trip = 100 * time.Millisecond
	begun := time.Unix(1000, 0)
	good := quic.ConnectionStats{MinRTT: trip, LatestRTT: trip, CongestionWindow: 40_000}
	for _, c := range []struct {
		name   string
		change func(*quic.ConnectionStats)
		after  time.Duration
		n      int
		want   outcome
	}{
		{"room", func(*quic.ConnectionStats) {}, 10 * time.Millisecond, 5000, warming},
		{"data takes some of it", func(s *quic.ConnectionStats) { s.BytesSent = 3000 }, 10 * time.Millisecond, 2000, warming},
		{"data takes all of it", func(s *quic.ConnectionStats) { s.BytesSent = 9000 }, 10 * time.Millisecond, 0, warming},
		{"no more than a round trip's at once", func(*quic.ConnectionStats) {}, time.Second, 50_000, warming},
		{"warm", func(s *quic.ConnectionStats) { s.CongestionWindow = 400_000 }, time.Second, 0, warm},
		{"a loss", func(s *quic.ConnectionStats) { s.PacketsLost = 1 }, time.Second, 0, cut},
		{"a queue", func(s *quic.ConnectionStats) { s.LatestRTT = 2 * trip }, time.Second, 0, narrow},
		{"too long", func(*quic.ConnectionStats) {}, time.Minute, 0, late},
	} {
		w := warmth{target: 400_000, until: begun.Add(10 * time.Second), at: begun}
		st := good
		c.change(&st)
		if n, o := w.portion(begun.Add(c.after), &st); n != c.n || o != c.want {
			t.Errorf("%s: %d bytes, outcome %d, want %d, %d", c.name, n, o, c.n, c.want)
		}
	}
	if warmTarget(warmFrom-1, 0) != 0 || warmTarget(time.Second, 0) != warmMost || warmTarget(50*time.Millisecond, 1000) != 100 {
		t.Error("targets")
	}
}
