package replicator

import (
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// fanIn gives the edges of a namespace that flows from some regions to a hub.
func fanIn(hub rhumb.RegionName, from ...rhumb.RegionName) (edges []configstore.Edge) {
	for _, a := range from {
		edges = append(edges, configstore.Edge{Tenant: "public", Namespace: "default", From: a, To: hub, Start: configstore.StartEarliest})
	}
	return edges
}

func (n *node) partitions(t rhumb.Topic) int {
	info, _ := n.region.Topic(t)
	return len(info.Partitions)
}

// everywhere waits until every node has a topic with so many partitions.
func (ms *mesh) everywhere(t rhumb.Topic, partitions int) {
	ms.t.Helper()
	ms.until("the topic has as many partitions everywhere", 30*time.Second, func() bool {
		for _, n := range ms.nodes {
			if n.partitions(t) != partitions {
				return false
			}
		}
		return true
	})
}

// TestNamesGoAgainstTheEdges: in a fan-in a topic made in any region is made in
// all of them, and grows in all of them: also in those to which no edge leads, and
// between which there is no link. Records follow the edges alone (I4).
func TestNamesGoAgainstTheEdges(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "hub"}, func(ms *mesh) {
		us, eu, hub := ms.nodes["us"], ms.nodes["eu"], ms.nodes["hub"]
		ms.policy.edges = fanIn("hub", "us", "eu")
		ms.start()
		atHub, atUs := orders, orders
		atHub.Name, atUs.Name = "made-at-the-hub", "made-at-us"
		hub.create(atHub, 3)
		us.create(atUs, 2)
		ms.everywhere(atHub, 3)
		ms.everywhere(atUs, 2)
		if _, err := eu.region.GrowTopic(ms.net.ctx, atUs, 5); err != nil {
			ms.t.Fatal(err)
		}
		ms.everywhere(atUs, 5)
		us.produce(atUs, 4, 3, 100)
		hub.produce(atUs, 4, 3, 100)
		ms.until("us's record is at the hub", 30*time.Second, func() bool { return copied(us, hub, atUs, 4) })
		ms.pass(20 * time.Second)
		if got := len(eu.region.own(atUs, 4, us.self.Number)) + len(us.region.own(atUs, 4, hub.self.Number)) + len(eu.region.own(atUs, 4, hub.self.Number)); got != 0 {
			ms.t.Errorf("%d batches crossed where no edge leads", got)
		}
	})
}

// TestNewTopicsCostNoLookAtAll: topics that are made while links are up reach the
// other region, and flow, without a look at everything.
func TestNewTopicsCostNoLookAtAll(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu"}, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.policy.edges = fullMesh("us", "eu")
		ms.start()
		us.create(orders, 1)
		ms.everywhere(orders, 1)
		ms.pass(5 * time.Second)
		looks := us.manager.looks.Load()
		const topics = 200
		name := func(i int) rhumb.Topic {
			t := orders
			t.Name = rhumb.TopicName(fmt.Sprintf("many-%03d", i))
			return t
		}
		for i := range topics {
			us.create(name(i), 1)
			us.produce(name(i), 0, 1, 100)
		}
		for i := range topics {
			ms.until("copied", 30*time.Second, func() bool { return copied(us, eu, name(i), 0) })
		}
		if more := us.manager.looks.Load() - looks; more != 0 {
			ms.t.Errorf("%d looks at everything for %d new topics", more, topics)
		}
		us.create(name(topics), 1)
		us.region.deleteHere(name(0)) // this one does
		ms.pass(5 * time.Second)
		if us.manager.looks.Load() == looks {
			ms.t.Error("no look at everything after a deletion")
		}
	})
}

// TestLargerPartitionCountWins: two regions grow a topic to different counts while
// they cannot reach each other, and a third one is away.
func TestLargerPartitionCountWins(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		ms.start()
		us.create(orders, 2)
		ms.everywhere(orders, 2)
		ap.kill()
		eu.kill()
		for n, count := range map[*node]int32{us: 3, eu: 7} { // a region grows by itself, whoever else is there
			if _, err := n.region.GrowTopic(ms.net.ctx, orders, count); err != nil {
				ms.t.Fatal(err)
			}
		}
		us.produce(orders, 2, 1, 100)
		eu.start()
		ap.start()
		ms.everywhere(orders, 7)
		us.produce(orders, 6, 1, 100)
		for _, p := range []int{2, 6} {
			for _, to := range []*node{eu, ap} {
				ms.until("copied", 30*time.Second, func() bool { return copied(us, to, orders, p) })
			}
		}
	})
}

// TestRegionThatIsAddedGetsAllTopics: a region that the topology takes in later
// gets the topics that there are, also those without a record.
func TestRegionThatIsAddedGetsAllTopics(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, ap := ms.nodes["us"], ms.nodes["ap"]
		ms.policy.edges = fullMesh("us", "eu")
		ms.start()
		us.create(orders, 4)
		ms.until("eu has it", 30*time.Second, func() bool { return ms.nodes["eu"].partitions(orders) == 4 })
		if ap.partitions(orders) != 0 {
			ms.t.Fatal("a region outside of the namespace has its topic")
		}
		ms.policy.change(func() { ms.policy.edges = fullMesh("us", "eu", "ap") })
		ms.everywhere(orders, 4)
	})
}

// TestDeletedInOneRegion: a topic that was deleted in one region alone stays away
// from it, whatever its neighbours send and however often they come, until it is
// made there again; then it is a copy like that of a region that was added.
func TestDeletedInOneRegion(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		eu.region.deleteHere(orders)
		us.produce(orders, 0, 1, 100)
		us.kill()
		us.start()
		ms.pass(time.Minute)
		if eu.partitions(orders) != 0 {
			ms.t.Fatal("the neighbour brought the topic back")
		}
		if f := us.flow("eu"); f.State != SessionLeftOut || f.LastError == "" || f.Lag != (Lag{Known: true}) || f.Refused != nil || us.partitions(orders) != 1 {
			ms.t.Errorf("us shows %+v, and %d partitions", f, us.partitions(orders))
		}
		owesNothing(ms, us, "eu")
		if _, err := us.region.GrowTopic(ms.net.ctx, orders, 3); err != nil {
			ms.t.Fatal(err)
		}
		ms.pass(time.Minute)
		eu.create(orders, 1)
		ms.everywhere(orders, 3)
		ms.until("the copy is whole", 5*time.Second, func() bool { return copied(us, eu, orders, 0) })
		ms.idle(5 * time.Second)
		ms.pass(time.Minute) // sessions sleep
		eu.region.deleteHere(orders)
		eu.create(orders, 1) // with less than us told before
		ms.everywhere(orders, 3)
		ms.until("the next copy is whole", 10*time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

// TestPauseAfterALook: many changes in a mesh of many topics are looked at together, a
// small mesh is not made to wait because the machine is slow.
func TestPauseAfterALook(t *testing.T) {
	for _, c := range []struct {
		took       time.Duration
		partitions int
		want       time.Duration
	}{
		{50 * time.Millisecond, 10, 400 * time.Microsecond},
		{50 * time.Millisecond, 50_000, 450 * time.Millisecond},
		{time.Second, 1_000_000, wholeMost},
		{time.Second, 0, 0},
	} {
		if got := pauseAfter(c.took, c.partitions); got != c.want {
			t.Errorf("%v for %d partitions: %v, want %v", c.took, c.partitions, got, c.want)
		}
	}
}
