package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/fec"
)

// TestI3CorrectedLinksCopyOnce: over a line that loses, doubles and reorders, with
// correction pinned, with a cut and a restart in the middle, every record arrives once
// and in order, and lost packets come back.
func TestI3CorrectedLinksCopyOnce(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond, Loss: .03, Reorder: .01, Duplicate: .01}, usEu, func(ms *mesh) {
		mode := fec.Pinned(fec.Code{Data: 10, Parity: 3})
		ms.correction = map[rhumb.RegionName]fec.Mode{"us": mode, "eu": mode}
		ms.limits = Limits{Connections: 4}
		ms.start()
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 2)
		send := func() {
			for i := range 200 {
				us.produce(orders, i%2, 2, 3000)
			}
		}
		both := func() bool { return copied(us, eu, orders, 0) && copied(us, eu, orders, 1) }
		send()
		ms.until("copied", time.Minute, both)
		ms.until("corrected", time.Minute, func() bool {
			us.produce(orders, 0, 1, 3000)
			c := us.link("eu").Correction
			return c.Code == "10+3" && c.Recovered > 0 && c.ParityBytes > 0 && c.Mode == "10+3" && eu.link("us").Correction.RecoveredHere > 0
		})
		var had CorrectionStatus
		grows := func(when string) {
			c := us.link("eu").Correction
			if c.Recovered < had.Recovered || c.RecoveredHere < had.RecoveredHere || c.ParityBytes < had.ParityBytes {
				t.Errorf("%s: %+v, before %+v", when, c, had)
			}
			had = c
		}
		for range 50 { // so that some are lost on their way here, too
			eu.produce(orders, 0, 2, 3000)
		}
		ms.until("recovered here", time.Minute, func() bool { return us.link("eu").Correction.RecoveredHere > 0 })
		grows("first")
		bad := ms.net.line(us.addr, eu.addr).Settings()
		send()
		ms.net.set(us.addr, eu.addr, relay.Settings{Cut: true})
		ms.pass(10 * time.Second)
		grows("while the line is cut")
		ms.net.set(us.addr, eu.addr, bad)
		send()
		ms.until("copied after a cut", time.Minute, both)
		grows("after a cut")
		send()
		eu.kill()
		ms.pass(time.Second)
		grows("while the peer is down")
		eu.start()
		send()
		ms.until("copied after a restart", time.Minute, both)
		grows("after a restart")
	})
}

// TestCorrectionFollowsTheLine: nothing on a clean line, some strength on one that
// loses packets; and none where it is pinned to off.
func TestCorrectionFollowsTheLine(t *testing.T) {
	line := relay.Settings{Delay: 50 * time.Millisecond}
	inBubble(t, line, usEu, func(ms *mesh) {
		ms.correction = map[rhumb.RegionName]fec.Mode{"us": fec.Pinned(fec.Code{})} // of what eu sends
		ms.start()
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 1)
		busy := func(ok func() bool) func() bool {
			return func() bool {
				for range 10 {
					us.produce(orders, 0, 1, 3000)
				}
				return ok()
			}
		}
		until := time.Now().Add(10 * time.Second)
		ms.until("clean", time.Minute, busy(func() bool { return time.Now().After(until) && us.connected("eu") }))
		tried := us.link("eu").Correction.ParityBytes // while the line was new
		until = time.Now().Add(5 * time.Second)
		ms.until("still clean", time.Minute, busy(func() bool { return time.Now().After(until) }))
		if c := us.link("eu").Correction; c.Code != "off" || c.Mode != "auto" || c.ParityBytes != tried || c.Loss > .01 {
			t.Errorf("on a clean line: %+v, parity before %d", c, tried)
		}
		line.Loss = .02
		ms.net.set(us.addr, eu.addr, line)
		ms.until("corrected", 5*time.Minute, busy(func() bool {
			c := us.link("eu").Correction
			return c.Code != "off" && c.Recovered > 10
		}))
		if c := eu.link("us").Correction; c.Code != "off" || c.Mode != "off" || c.ParityBytes != 0 {
			t.Errorf("from eu, where it is pinned to off: %+v", c)
		}
		ms.until("copied", time.Minute, func() bool { return copied(us, eu, orders, 0) })
	})
}

// TestConnectionOutgrownByItsPath: one that began on a path so much shorter that its
// congestion control is misled is made anew while nothing is to be sent, once.
func TestConnectionOutgrownByItsPath(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 100 * time.Microsecond}, usEu, func(ms *mesh) {
		ms.start()
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 1)
		us.produce(orders, 0, 1, 1000)
		ms.until("copied", 10*time.Second, func() bool { return copied(us, eu, orders, 0) })
		before := us.link("eu").Connects
		ms.cut("us", "eu", relay.Settings{Delay: 100 * time.Millisecond, Loss: .01})
		ms.until("made anew", time.Minute, func() bool { return us.link("eu").Connects > before && us.connected("eu") })
		ms.until("corrected", time.Minute, func() bool { return us.link("eu").Correction.Code != "off" })
		for range 40 {
			us.produce(orders, 0, 10, 100_000)
		}
		ms.until("copied over the longer path", time.Minute, func() bool { return copied(us, eu, orders, 0) })
		ms.pass(time.Minute)
		if n := us.link("eu").Connects; n != before+1 {
			t.Errorf("%d connections were made, %d before", n, before)
		}
	})
}
