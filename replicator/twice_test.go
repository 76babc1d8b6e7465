package replicator

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var usEuAp = []rhumb.RegionName{"us", "eu", "ap"}

// twin makes a second process of a region at an address of its own, which its
// start writes into the region's document. dials counts its attempts.
func (ms *mesh) twin(of rhumb.RegionName) (twin *node, dials *atomic.Int64) {
	original := ms.nodes[of]
	c := *original
	c.addr = &net.UDPAddr{IP: net.IPv4(1, 0, 5, byte(c.self.Number)), Port: 7650}
	c.region, c.logs, c.manager, dials = newFakeRegion(c.self.Number), &logBuffer{}, nil, &atomic.Int64{}
	c.resolve = func(ctx context.Context, peer rhumb.RegionName, addr string) (net.Addr, error) {
		dials.Add(1)
		return original.resolve(ctx, peer, addr)
	}
	ms.policy.change(func() {
		for i := range ms.policy.regions {
			if ms.policy.regions[i].Name == of {
				ms.policy.regions[i].Geo = []string{c.addr.String()}
			}
		}
	})
	c.start()
	return &c, dials
}

// TestRegionThatRunsTwice: a copy of a region is started beside it. Its peers
// keep the link to the first one, say so, and are not dialled in a hot loop.
func TestRegionThatRunsTwice(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, usEuAp, func(ms *mesh) {
		ms.start()
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") && ms.linked("us", "ap") })
		twin, dials := ms.twin("us")
		shown := func() bool { return ms.nodes["eu"].link("us").Twice != "" && ms.nodes["ap"].link("us").Twice != "" }
		ms.until("both say so", 20*time.Second, shown)
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); ms.pass(time.Second) {
			if !shown() {
				ms.t.Fatalf("%s before the end nobody says so any more", time.Until(end))
			}
		}
		for _, name := range []rhumb.RegionName{"eu", "ap"} {
			n, l := ms.nodes[name], ms.nodes[name].link("us")
			if l.Connects != 1 || l.State != LinkConnected || l.Remote != ms.nodes["us"].addr.String() || l.Twice == "" || l.LastError != l.Twice {
				ms.t.Errorf("%s: %s to %s, %d connections, twice %q, last error %q", name, l.State, l.Remote, l.Connects, l.Twice, l.LastError)
			}
			if n.logs.count("a region runs twice") != 1 || n.logs.count("link is refused") != 0 || n.logs.count("link is up") != 2 {
				ms.t.Errorf("%s logged:\n%s", name, n.logs)
			}
			if l := twin.link(name); l.State != LinkRefused || !l.Second || l.Connects != 0 || twin.logs.count("runs twice") != 2 {
				ms.t.Errorf("the copy's link to %s: %s, %d connections, logged:\n%s", name, l.State, l.Connects, twin.logs)
			}
		}
		if n := dials.Load(); n > 50 {
			ms.t.Errorf("the copy dialled %d times in five minutes", n)
		}
		twin.kill()
		ms.until("nobody says so any more", time.Minute, func() bool { return ms.nodes["eu"].link("us").Twice == "" && ms.nodes["ap"].link("us").Twice == "" })
	})
}

// TestCopyTakesOverFromTheDead: when the first process ends, the second one is
// as good as a restarted one.
func TestCopyTakesOverFromTheDead(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, usEu, func(ms *mesh) {
		ms.start()
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
		twin, _ := ms.twin("us")
		ms.until("refused", 10*time.Second, func() bool { return twin.link("eu").State == LinkRefused })
		ms.nodes["us"].kill()
		ms.until("the copy is linked", 10*time.Second, func() bool { return twin.connected("eu") && ms.nodes["eu"].connected("us") })
		twin.stop()
	})
}

// TestFirstProcessComesBack: the path to the first process was cut, and a copy
// got its link. It gives it back when the first one returns.
func TestFirstProcessComesBack(t *testing.T) {
	line := relay.Settings{Delay: 40 * time.Millisecond}
	inBubble(t, line, usEu, func(ms *mesh) {
		ms.start()
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
		ms.cut("us", "eu", relay.Settings{Cut: true})
		twin, _ := ms.twin("us")
		ms.until("the copy is linked", 10*time.Second, func() bool { return twin.connected("eu") })
		ms.cut("us", "eu", line)
		ms.until("the first one is linked", 5*time.Second, func() bool {
			return ms.linked("us", "eu") && ms.nodes["eu"].link("us").Remote == ms.nodes["us"].addr.String() && twin.link("eu").State == LinkRefused
		})
		connects := ms.nodes["eu"].link("us").Connects
		ms.pass(5 * time.Minute)
		if l := ms.nodes["eu"].link("us"); l.Connects != connects || l.Twice == "" {
			ms.t.Errorf("after that: %d connections more, twice %q", l.Connects-connects, l.Twice)
		}
		twin.stop()
	})
}

// TestRestartElsewhereIsNotHeldUp: a process was killed and comes back at another
// address, before its peer knows that it died, and nobody answers for it at the
// old one.
func TestRestartElsewhereIsNotHeldUp(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, usEu, func(ms *mesh) {
		ms.start()
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
		us := ms.nodes["us"]
		us.kill()
		us.addr = &net.UDPAddr{IP: net.IPv4(1, 0, 9, 9), Port: 7650}
		us.start()
		ms.until("linked again", 2*time.Second, func() bool { return ms.linked("us", "eu") })
		if l := ms.nodes["eu"].link("us"); l.Twice != "" {
			ms.t.Errorf("a restart is taken for a second process: %s", l.Twice)
		}
	})
}

// TestFlappingLinkIsNoHotLoop: two processes that cannot be told apart, as those
// of older versions, take the link from each other, but at leisure.
func TestFlappingLinkIsNoHotLoop(t *testing.T) {
	inBubble(t, relay.Settings{Delay: time.Millisecond}, usEu, func(ms *mesh) {
		ms.nodes["us"].boot = rhumb.NewUUID()
		ms.start()
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
		twin, dials := ms.twin("us")
		ms.pass(2 * time.Minute)
		if n, up := dials.Load(), ms.nodes["eu"].logs.count("link is up"); n > 200 || up > 20 {
			ms.t.Errorf("the copy dialled %d times in two minutes, the link was logged as up %d times", n, up)
		}
		twin.stop()
	})
}
