package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// behind counts the flows to a peer of which something may be owed, as an operator is
// told; false if the link is not there, so that nothing can be said.
func (n *node) behind(peer rhumb.RegionName) (flows int, linked bool) {
	for _, l := range n.status().Links {
		if l.Peer != peer {
			continue
		}
		for _, p := range l.Partitions {
			switch {
			case p.State == SessionClosed, p.State == SessionLeftOut, p.State == SessionStandby:
			case p.Lag.Records != 0 || p.Confirmed < p.End:
				flows++
			}
		}
		return flows, l.State == LinkConnected
	}
	return 0, false
}

// TestI8RebuiltRegionIsBehindUntilItHasAll: from the moment that a region which lost its
// disk is linked again, its sources show it as behind until it has everything, its own
// earlier records too: what the directory of before had confirmed says nothing.
func TestI8RebuiltRegionIsBehindUntilItHasAll(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, []rhumb.RegionName{"us", "ap"}, func(ms *mesh) {
		us, ap := ms.nodes["us"], ms.nodes["ap"]
		ms.policy.edges = gathering(fullMesh("us", "ap")...)
		ms.start()
		ms.ready("us")
		for range 10 {
			for _, n := range ms.nodes {
				n.produce(orders, 0, 2, 100)
			}
		}
		caughtUp := func() bool {
			flows, linked := us.behind("ap")
			return linked && flows == 0
		}
		whole := func() bool { return ap.holds(1) == 10 && ap.holds(2) == 10 }
		ms.until("all have all", time.Minute, func() bool { return caughtUp() && whole() && us.holds(2) == 10 })
		for range 2 { // the second time it was rebuilt before
			before := ap.self.Data
			ap.kill()
			ap.self.Data = rhumb.NewUUID()
			ms.policy.change(func() {
				for i := range ms.policy.regions {
					if r := &ms.policy.regions[i]; r.DataUUID == before {
						r.DataUUID = ap.self.Data
					}
				}
			})
			ms.pass(time.Minute)
			ms.rebuild("ap")
			for begin := time.Now(); !whole(); ms.pass(time.Millisecond) {
				if caughtUp() && !whole() {
					t.Fatalf("caught up after %s, with %d and %d batches of us and ap", time.Since(begin), ap.holds(1), ap.holds(2))
				}
				if time.Since(begin) > 2*time.Minute {
					t.Fatal("it never gets all")
				}
			}
			ms.until("that is told", time.Minute, caughtUp)
		}
	})
}
