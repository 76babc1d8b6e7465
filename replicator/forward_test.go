package replicator

import (
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// edge is one edge of public/default; one that forwards has a plus before its end.
func edge(from, to rhumb.RegionName, forward bool) configstore.Edge {
	return configstore.Edge{Tenant: "public", Namespace: "default", From: from, To: to, Forward: forward, Start: configstore.StartEarliest}
}

// chainOf is a chain in one direction, whose inner edges forward.
func chainOf(names ...rhumb.RegionName) (edges []configstore.Edge) {
	for i := range len(names) - 1 {
		edges = append(edges, edge(names[i], names[i+1], i > 0))
	}
	return edges
}

// ringOf is a ring in both directions; all edges forward.
func ringOf(names ...rhumb.RegionName) (edges []configstore.Edge) {
	for i, a := range names {
		b := names[(i+1)%len(names)]
		edges = append(edges, edge(a, b, true), edge(b, a, true))
	}
	return edges
}

// brings waits until each of the regions has all own records of from.
func (ms *mesh) brings(from rhumb.RegionName, within time.Duration, to ...rhumb.RegionName) {
	ms.t.Helper()
	for _, b := range to {
		ms.until(fmt.Sprintf("%s has all of %s", b, from), within, func() bool {
			return copied(ms.nodes[from], ms.nodes[b], orders, 0)
		})
	}
}

// ready creates the topic in a region and waits until all have it.
func (ms *mesh) ready(at rhumb.RegionName) {
	ms.t.Helper()
	ms.nodes[at].create(orders, 1)
	for _, n := range ms.nodes {
		ms.until(fmt.Sprintf("%s has the topic", n.self.Name), 10*time.Second, func() bool {
			_, ok := n.region.Topic(orders)
			return ok
		})
	}
}

// idle waits until no link of the mesh says that something is missing.
func (ms *mesh) idle(within time.Duration) {
	ms.t.Helper()
	ms.until("no lag anywhere", within, func() bool {
		for _, n := range ms.nodes {
			for _, l := range n.status().Links {
				for _, p := range l.Partitions {
					if p.State == SessionClosed {
						continue
					}
					if !p.Lag.Known || p.Lag.Records != 0 || p.State != SessionIdle && p.State != SessionStandby {
						return false
					}
				}
			}
		}
		return true
	})
}

var fiveNames = []rhumb.RegionName{"us", "eu", "ap", "sa", "af"}

// TestI3ChainForwards: a chain carries each region's records to all behind it, and
// nothing the other way.
func TestI3ChainForwards(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond, Loss: .01}, fiveNames, func(ms *mesh) {
		ms.policy.edges = chainOf(fiveNames...)
		ms.start()
		ms.ready("us")
		for i := range 60 {
			ms.nodes[fiveNames[i%5]].produce(orders, 0, 1+i%4, 100+i)
			ms.pass(time.Duration(i%5) * 10 * time.Millisecond)
		}
		for i, from := range fiveNames {
			ms.brings(from, 20*time.Second, fiveNames[i+1:]...)
		}
		ms.idle(30 * time.Second)
		for i, a := range fiveNames {
			for _, b := range fiveNames[:i] {
				if got := ms.nodes[b].region.own(orders, 0, ms.nodes[a].self.Number); len(got) > 0 {
					t.Errorf("I4: %s has %d batches of %s, which lies behind it", b, len(got), a)
				}
			}
			if n := ms.nodes[a].region.repeats; n > 0 {
				t.Errorf("%s got %d batches again on a chain", a, n)
			}
		}
	})
}

// TestI3RingSurvivesARelay: in a ring both ways, what one way cannot bring comes the
// other way, and the shorter one is used again when it is back.
func TestI3RingSurvivesARelay(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, fiveNames, func(ms *mesh) {
		ms.policy.edges = ringOf(fiveNames...)
		ms.start()
		ms.ready("us")
		all := func() {
			for i, from := range fiveNames {
				ms.nodes[from].produce(orders, 0, 1+i, 300)
			}
		}
		all()
		for _, from := range fiveNames {
			ms.brings(from, 20*time.Second, fiveNames...)
		}
		ms.idle(30 * time.Second)
		ms.nodes["eu"].kill() // us - eu - ap becomes us - af - sa - ap
		for range 20 {
			ms.nodes["us"].produce(orders, 0, 2, 100)
			ms.pass(200 * time.Millisecond)
		}
		ms.brings("us", 30*time.Second, "ap", "sa", "af")
		ms.nodes["eu"].start()
		all()
		for _, from := range fiveNames {
			ms.brings(from, 60*time.Second, fiveNames...)
		}
		ms.idle(60 * time.Second)
		ms.until("ap takes us over eu again", 2*time.Minute, func() bool {
			ms.nodes["us"].produce(orders, 0, 1, 10)
			ms.pass(time.Second)
			for _, o := range ms.nodes["ap"].status().Origins {
				if o.OriginName == "us" && o.Paths[0].Peer == "eu" && o.Paths[0].State == PathUsed {
					return true
				}
			}
			return false
		})
	})
}
