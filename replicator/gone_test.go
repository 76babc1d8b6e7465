package replicator

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/paths"
)

// gathering gives edges as a full mesh, a fan-in or an active-standby has them.
func gathering(edges ...configstore.Edge) []configstore.Edge {
	for i := range edges {
		edges[i].Gone = true
	}
	return edges
}

// remove takes a region out of the mesh, as an operator does, and leaves the edges.
func (ms *mesh) remove(name rhumb.RegionName, edges []configstore.Edge) {
	n := ms.nodes[name]
	ms.off(name)
	ms.policy.change(func() {
		p := ms.policy
		if p.gone == nil {
			p.gone = map[rhumb.RegionNumber]configstore.Owner{}
		}
		p.gone[n.self.Number] = configstore.Owner{Name: name, Number: n.self.Number, Gone: true, RemovedAt: time.Now()}
		for i := range p.regions {
			if p.regions[i].Name == name {
				p.regions = append(p.regions[:i:i], p.regions[i+1:]...)
				break
			}
		}
		p.edges = edges
	})
	delete(ms.nodes, name)
}

// rebuild has a region lose its disk and start again.
func (ms *mesh) rebuild(name rhumb.RegionName) {
	n := ms.nodes[name]
	if n.manager != nil {
		ms.off(name)
	}
	n.region = newFakeRegion(n.self.Number)
	ms.policy.change(func() {
		for i := range ms.policy.regions {
			if r := &ms.policy.regions[i]; r.Name == name {
				r.Rebuilds++
			}
		}
	})
	ms.on(name)
}

// holds tells how many batches of an origin a region has.
func (n *node) holds(origin rhumb.RegionNumber) int { return len(n.region.own(orders, 0, origin)) }

// TestI3RemovedRegionsRecordsReachEverybody: what a removed region had published comes
// to regions that had not got all of it, to one that lost its disk and to one that
// joins later, from those that hold it, once each; a kill in between changes nothing.
func TestI3RemovedRegionsRecordsReachEverybody(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap", "sa"}
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond, Loss: .01}, names, func(ms *mesh) {
		ms.policy.edges = gathering(fullMesh(names...)...)
		ms.start()
		ms.ready("us")
		for range 10 {
			ms.nodes["sa"].produce(orders, 0, 2, 100)
		}
		ms.brings("sa", 20*time.Second, "us", "eu", "ap")
		ms.off("ap")
		for range 20 {
			ms.nodes["sa"].produce(orders, 0, 2, 100)
		}
		ms.brings("sa", 20*time.Second, "us", "eu")
		before := ms.nodes["us"].region.own(orders, 0, 4)
		ms.remove("sa", gathering(fullMesh("us", "eu", "ap")...))
		ms.on("ap")
		ms.until("ap has what it had missed", time.Minute, func() bool { return ms.nodes["ap"].holds(4) == 30 })

		ms.rebuild("eu")
		ms.until("something has come back", time.Minute, func() bool { return ms.nodes["eu"].holds(4) > 0 })
		ms.off("eu", "us")
		ms.on("eu", "us")
		ms.until("eu has it again", time.Minute, func() bool { return ms.nodes["eu"].holds(4) == 30 })

		af := ms.add("af")
		af.start()
		ms.policy.change(func() { ms.policy.edges = gathering(fullMesh("us", "eu", "ap", "af")...) })
		ms.until("af has it", time.Minute, func() bool { return af.holds(4) == 30 })
		ms.idle(time.Minute)
		for name, n := range ms.nodes {
			got := n.region.own(orders, 0, 4)
			for i := range got {
				if got[i].Envelope.First != before[i].Envelope.First || got[i].Envelope.Chain != before[i].Envelope.Chain {
					t.Fatalf("%s has %+v as batch %d of sa, want %+v", name, got[i].Envelope, i, before[i].Envelope)
				}
			}
			if gaps := n.gapsOf(); len(gaps) > 0 {
				t.Errorf("%s has gaps %+v", name, gaps)
			}
			if owed := n.manager.Owed(); len(owed) > 0 {
				t.Errorf("%s owes %v", name, owed)
			}
		}
	})
}

// TestI3GapOfARemovedRegion: what one region has dropped of a removed one comes from
// another; what all have dropped is a gap, with the lowest end.
func TestI3GapOfARemovedRegion(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap", "sa"}
	for _, c := range []struct{ us, eu, want, gapTo int }{{12, 0, 20, -1}, {12, 6, 14, 11}} {
		inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, names, func(ms *mesh) {
			ms.policy.edges = gathering(fullMesh(names...)...)
			ms.start()
			ms.ready("us")
			for range 20 {
				ms.nodes["sa"].produce(orders, 0, 2, 100)
			}
			ms.brings("sa", 20*time.Second, "us", "eu", "ap")
			ms.remove("sa", gathering(fullMesh("us", "eu", "ap")...))
			if c.us > 0 {
				ms.nodes["us"].drop(c.us)
			}
			if c.eu > 0 {
				ms.nodes["eu"].drop(c.eu)
			}
			ms.rebuild("ap")
			ap := ms.nodes["ap"]
			ms.until("ap has what is left", paths.Grace+time.Minute, func() bool { return ap.holds(4) == c.want })
			gaps := ap.gapsOf()
			if c.gapTo < 0 && len(gaps) > 0 || c.gapTo >= 0 && (len(gaps) != 1 || gaps[0].From != -1 || int(gaps[0].To) != c.gapTo) {
				t.Errorf("us dropped %d, eu %d batches: gaps %+v", c.us, c.eu, gaps)
			}
			ms.idle(time.Minute)
		})
	}
}

// TestI4RemovedRegionsRecordsStayWhereNoEdgeBroughtThem: neither a region that is not
// removed nor an edge that would not have brought its records is touched by that.
func TestI4RemovedRegionsRecordsStayWhereNoEdgeBroughtThem(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap", "sa"}
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, names, func(ms *mesh) {
		in := gathering(edge("sa", "us", false), edge("eu", "us", false))
		ms.policy.edges = append(in, edge("us", "ap", false)) // what is gathered in us does not go on
		ms.start()
		ms.ready("us")
		for range 5 {
			ms.nodes["sa"].produce(orders, 0, 2, 100)
			ms.nodes["eu"].produce(orders, 0, 2, 100)
			ms.nodes["us"].produce(orders, 0, 2, 100)
		}
		ms.brings("sa", 20*time.Second, "us")
		ms.brings("eu", 20*time.Second, "us")
		ms.brings("us", 20*time.Second, "ap")
		ms.remove("sa", []configstore.Edge{gathering(edge("eu", "us", false))[0], edge("us", "ap", false)})
		ms.pass(time.Minute)
		if n := ms.nodes["ap"].holds(4) + ms.nodes["ap"].holds(2) + ms.nodes["eu"].holds(4); n > 0 {
			t.Errorf("%d batches went where no edge leads", n)
		}
		ms.policy.change(func() { ms.policy.edges = append(ms.policy.edges, gathering(edge("us", "eu", false))...) })
		ms.until("the new edge brings them", time.Minute, func() bool { return ms.nodes["eu"].holds(4) == 5 && ms.nodes["eu"].holds(1) == 5 })
		if n := ms.nodes["ap"].holds(2); n > 0 {
			t.Errorf("%d batches of eu, which is not removed, went over us", n)
		}
	})
}
