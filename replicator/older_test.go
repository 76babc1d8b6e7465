package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// inOrderOf fails unless a region has so many batches of an origin, each life of which
// follows the one before it.
func (n *node) inOrderOf(origin rhumb.RegionNumber, batches int) {
	n.mesh.t.Helper()
	got := n.region.own(orders, 0, origin)
	if len(got) != batches {
		n.mesh.t.Fatalf("%s has %d batches, want %d", n.self.Name, len(got), batches)
	}
	for i := 1; i < len(got); i++ {
		if was, is := got[i-1].Envelope, got[i].Envelope; is.AppendTime < was.AppendTime {
			n.mesh.t.Fatalf("%s: batch %d, of %s and offset %d, came after one of %s and offset %d that was published %d ms later",
				n.self.Name, i, is.Life, is.First, was.Life, was.First, was.AppendTime-is.AppendTime)
		}
	}
}

// TestI3LivesOfAnOriginKeepTheirOrder: what a region published before it was rebuilt
// reaches a region that was away before what it published since: directly, over a relay,
// and where the region that was away has a part of the former already.
func TestI3LivesOfAnOriginKeepTheirOrder(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	chain := []configstore.Edge{edge("eu", "us", false), edge("us", "eu", false), edge("us", "ap", true)}
	for name, c := range map[string]struct {
		edges []configstore.Edge
		had   int // of the former life, of 60
		times int // that eu is rebuilt
	}{
		"direct":           {fullMesh(names...), 0, 1},
		"over a relay":     {chain, 0, 1},
		"some is there":    {fullMesh(names...), 25, 1},
		"more than once":   {fullMesh(names...), 0, 2},
		"relay, and often": {chain, 10, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, names, func(ms *mesh) {
				ms.policy.edges = c.edges
				ms.start()
				ms.ready("eu")
				eu, us, ap := ms.nodes["eu"], ms.nodes["us"], ms.nodes["ap"]
				want := 0
				publish := func(batches int) {
					for range batches {
						eu.produce(orders, 0, 2, 20_000)
						ms.pass(3 * time.Millisecond)
					}
					want += batches
					ms.until("us has all of it", 2*time.Minute, func() bool { return us.holds(eu.self.Number) == want })
				}
				publish(c.had)
				ms.until("ap has all of it", time.Minute, func() bool { return ap.holds(eu.self.Number) == want })
				ms.off("ap")
				publish(60 - c.had)
				for range c.times {
					ms.rebuild("eu")
					ms.until("eu has its own back", 2*time.Minute, func() bool { return eu.holds(eu.self.Number) == want })
					publish(40)
				}
				ms.on("ap")
				ms.until("ap has all of eu", 2*time.Minute, func() bool { return ap.holds(eu.self.Number) == want })
				ap.inOrderOf(eu.self.Number, want)
				us.inOrderOf(eu.self.Number, want)
				publish(10) // and it goes on
				ms.until("ap has that, too", time.Minute, func() bool { return ap.holds(eu.self.Number) == want })
				ap.inOrderOf(eu.self.Number, want)
			})
		})
	}
}

// TestPausesKeepNoRightToOpen: a flow that is paused while it rests between two tries
// gives back the right to open a session, or a few hundred of them would close the link.
func TestPausesKeepNoRightToOpen(t *testing.T) {
	pair(t, short, 4, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		defer eu.refuseAt(1)()
		us.produce(orders, 0, 1, 100)
		ms.until("it is refused", time.Minute, func() bool { return us.flow("eu").State == SessionRefused })
		gate := us.conn("eu").opening
		for i := range 5 {
			if err := us.manager.Pause(ms.net.ctx, "eu", rhumb.Space{}, "x"); err != nil {
				t.Fatal(err)
			}
			ms.pass(time.Second)
			if n := gate.inUse(); n != 0 {
				t.Fatalf("%d rights to open are in use after %d pauses, by nobody", n, i+1)
			}
			if err := us.manager.Resume(ms.net.ctx, "eu", rhumb.Space{}); err != nil {
				t.Fatal(err)
			}
			ms.pass(20 * time.Second)
		}
	})
}
