package replicator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/paths"
)

// drop moves a region's log start past its first n batches.
func (n *node) drop(batches int) {
	r := n.region
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.log(orders, 0)
	last := l.batches[batches-1]
	l.logStart = last.Base + rhumb.Offset(last.Envelope.Count)
	l.ownFloor, l.batches = l.logStart-1, l.batches[batches:]
	r.signal(l.info.Ref)
}

// gapsOf gives what a region has as gaps.
func (n *node) gapsOf() []linkSkip {
	n.region.mu.Lock()
	defer n.region.mu.Unlock()
	return append([]linkSkip(nil), n.region.log(orders, 0).gaps...)
}

// cut has a region switched off, or lets it be.
func (ms *mesh) off(names ...rhumb.RegionName) {
	for _, name := range names {
		ms.nodes[name].kill()
	}
}

func (ms *mesh) on(names ...rhumb.RegionName) {
	for _, name := range names {
		ms.nodes[name].start()
	}
}

// diamond leads from us over eu and over ap to sa.
func diamond() []configstore.Edge {
	return []configstore.Edge{edge("us", "eu", false), edge("us", "ap", false), edge("eu", "sa", true), edge("ap", "sa", true)}
}

var diamondNames = []rhumb.RegionName{"us", "eu", "ap", "sa"}

// diamondWithBacklog has ten batches of us in eu and ap, while sa is away.
func diamondWithBacklog(ms *mesh) {
	ms.policy.edges = diamond()
	ms.start()
	ms.ready("us")
	ms.nodes["us"].produce(orders, 0, 1, 100)
	ms.brings("us", 20*time.Second, "eu", "ap", "sa")
	ms.off("sa")
	for range 10 {
		ms.nodes["us"].produce(orders, 0, 2, 100)
	}
	ms.brings("us", 20*time.Second, "eu", "ap")
}

// TestI3GapWaitsForTheOtherPath: what one relay has dropped comes from the other,
// whichever the destination asked first, and is no gap.
func TestI3GapWaitsForTheOtherPath(t *testing.T) {
	for _, dropped := range []rhumb.RegionName{"eu", "ap"} {
		inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, diamondNames, func(ms *mesh) {
			diamondWithBacklog(ms)
			ms.nodes[dropped].drop(6)
			ms.on("sa")
			ms.brings("us", time.Minute, "sa")
			if gaps := ms.nodes["sa"].gapsOf(); len(gaps) > 0 {
				t.Errorf("%s dropped six batches: sa has gaps %v", dropped, gaps)
			}
			ms.idle(30 * time.Second)
		})
	}
}

// TestI3GapWithTheLowestEndIsTaken: what both relays have dropped is a gap, and what
// only one has dropped comes from the other.
func TestI3GapWithTheLowestEndIsTaken(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, diamondNames, func(ms *mesh) {
		diamondWithBacklog(ms)
		ms.nodes["eu"].drop(6) // batches at 1 to 9 and the first one
		ms.nodes["ap"].drop(3)
		ms.on("sa")
		ms.until("sa has what is left", time.Minute, func() bool {
			have := ms.nodes["sa"].region.own(orders, 0, 1)
			return len(have) == 9 && have[1].Envelope.First == 5
		})
		if gaps := ms.nodes["sa"].gapsOf(); len(gaps) != 1 || gaps[0].From != 0 || gaps[0].To != 4 || gaps[0].Reason != rhumb.ReasonRetention {
			t.Errorf("gaps: %+v", gaps)
		}
		ms.idle(30 * time.Second)
	})
}

// TestI3GapWaitsForItsOrigin: while the origin cannot be asked, nobody says that its
// records are gone; when it is declared gone, what relays say is final.
func TestI3GapWaitsForItsOrigin(t *testing.T) {
	for _, back := range []bool{true, false} {
		inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, diamondNames, func(ms *mesh) {
			diamondWithBacklog(ms)
			ms.policy.change(func() { ms.policy.edges = append(diamond(), edge("us", "sa", false)) })
			ms.off("us")
			ms.nodes["eu"].drop(6)
			ms.nodes["ap"].drop(6)
			ms.on("sa")
			ms.pass(paths.Grace + 5*time.Minute)
			if gaps := ms.nodes["sa"].gapsOf(); len(gaps) > 0 {
				t.Fatalf("sa has gaps %+v, and us may be back", gaps)
			}
			waits := func(o OriginStatus) bool { return o.OriginName == "us" && strings.Contains(o.Waits, "origin us") }
			if all := ms.nodes["sa"].status().Origins; !slices.ContainsFunc(all, waits) {
				t.Errorf("nothing says that sa waits: %+v", all)
			}
			if back {
				ms.on("us")
				ms.brings("us", time.Minute, "sa")
				if gaps := ms.nodes["sa"].gapsOf(); len(gaps) > 0 {
					t.Errorf("us is back: sa has gaps %+v", gaps)
				}
				return
			}
			ms.policy.change(func() {
				ms.policy.regions = ms.policy.regions[1:]
				ms.policy.edges = diamond()[2:]
			})
			ms.until("sa has what is left", paths.Grace+2*time.Minute, func() bool {
				return len(ms.nodes["sa"].region.own(orders, 0, 1)) == 6
			})
			if gaps := ms.nodes["sa"].gapsOf(); len(gaps) != 1 || gaps[0].From != 0 || gaps[0].To != 10 {
				t.Errorf("gaps: %+v", gaps)
			}
		})
	}
}

// TestI3RelayPassesItsGapsOn: a relay that lacks something in the middle sends what
// it has before that, the gap with its cause, and what it has behind.
func TestI3RelayPassesItsGapsOn(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, names, func(ms *mesh) {
		ms.policy.edges = chainOf(names...)
		ms.start()
		ms.ready("us")
		for range 4 {
			ms.nodes["us"].produce(orders, 0, 2, 100)
		}
		ms.off("ap")
		ms.brings("us", 20*time.Second, "eu")
		ms.off("eu")
		for range 6 {
			ms.nodes["us"].produce(orders, 0, 2, 100)
		}
		ms.nodes["us"].drop(7)
		ms.on("eu")
		ms.until("eu has a gap", 20*time.Second, func() bool {
			return len(ms.nodes["eu"].gapsOf()) == 1 && len(ms.nodes["eu"].region.own(orders, 0, 1)) == 7
		})
		ms.on("ap")
		ms.until("ap has what eu has", 20*time.Second, func() bool {
			return copied(ms.nodes["us"], ms.nodes["ap"], orders, 0) || len(ms.nodes["ap"].region.own(orders, 0, 1)) == 7
		})
		if gaps := ms.nodes["ap"].gapsOf(); len(gaps) != 1 || gaps[0].From != 7 || gaps[0].To != 13 || gaps[0].Reason != rhumb.ReasonRetention {
			t.Errorf("gaps: %+v", gaps)
		}
		ms.idle(30 * time.Second)
	})
}

// TestForwardingEdgeThatStartsLatest: it carries of every origin what came to its
// source after it, and nothing from before, also after restarts.
func TestForwardingEdgeThatStartsLatest(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, names, func(ms *mesh) {
		ms.policy.edges = chainOf(names...)[:1]
		ms.nodes["ap"].create(orders, 1)
		ms.start()
		ms.ready("us")
		for range 5 {
			ms.nodes["us"].produce(orders, 0, 2, 100)
			ms.nodes["eu"].produce(orders, 0, 1, 100)
		}
		ms.brings("us", 20*time.Second, "eu")
		late := edge("eu", "ap", true)
		late.Start = configstore.StartLatest
		ms.policy.change(func() { ms.policy.edges = append(ms.policy.edges, late) })
		ms.until("the start is fixed", 20*time.Second, func() bool {
			ms.nodes["eu"].region.mu.Lock()
			defer ms.nodes["eu"].region.mu.Unlock()
			_, ok := ms.nodes["eu"].region.log(orders, 0).starts[3]
			return ok
		})
		for range 3 {
			ms.nodes["us"].produce(orders, 0, 2, 100)
			ms.nodes["eu"].produce(orders, 0, 1, 100)
		}
		got := func(origin rhumb.RegionNumber) int { return len(ms.nodes["ap"].region.own(orders, 0, origin)) }
		ms.until("ap has what came after the edge", 20*time.Second, func() bool { return got(1) == 3 && got(2) == 3 })
		ms.off("eu")
		ms.on("eu")
		ms.nodes["us"].produce(orders, 0, 2, 100)
		ms.until("ap has one more", 20*time.Second, func() bool { return got(1) == 4 })
		if gaps := ms.nodes["ap"].gapsOf(); len(gaps) > 0 || got(2) != 3 {
			t.Errorf("gaps %+v, %d batches of eu", gaps, got(2))
		}
		ms.idle(30 * time.Second)
	})
}

// TestI4EdgeWithoutForward: over an edge that does not forward come its source's own
// records only, whatever the source believes.
func TestI4EdgeWithoutForward(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, names, func(ms *mesh) {
		ms.policy.edges = []configstore.Edge{edge("us", "eu", false), edge("eu", "ap", false)}
		wrong := &fakePolicy{regions: ms.policy.regions, docs: ms.policy.docs, subs: map[int]func(){}, edges: chainOf(names...)}
		ms.nodes["eu"].policy = wrong // it has not heard yet, or does not want to
		ms.start()
		ms.ready("us")
		ms.nodes["us"].produce(orders, 0, 2, 100)
		ms.nodes["eu"].produce(orders, 0, 2, 100)
		ms.brings("us", 20*time.Second, "eu")
		ms.until("ap has all of eu", 20*time.Second, func() bool { return len(ms.nodes["ap"].region.own(orders, 0, 2)) == 1 })
		ms.pass(time.Minute)
		if got := ms.nodes["ap"].region.own(orders, 0, 1); len(got) > 0 {
			t.Errorf("ap has %d batches of us", len(got))
		}
	})
}

// TestI4RebuiltRegionGetsItsEarlierLifeBack: a region that lost its disk gets what it
// had published from whoever holds it and has an edge to it, and never what it
// publishes now.
func TestI4RebuiltRegionGetsItsEarlierLifeBack(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, names, func(ms *mesh) {
		ms.start()
		ms.ready("us")
		us := ms.nodes["us"]
		for range 5 {
			us.produce(orders, 0, 2, 100)
		}
		ms.brings("us", 20*time.Second, "eu", "ap")
		before := us.region.own(orders, 0, 1)
		ms.off("us")
		us.region = newFakeRegion(1)
		ms.policy.change(func() { ms.policy.regions[0].Rebuilds++ })
		ms.on("us")
		ms.until("us has its earlier records", time.Minute, func() bool {
			got := us.region.own(orders, 0, 1)
			return len(got) == 5 && got[4].Envelope.Chain == before[4].Envelope.Chain
		})
		for range 3 {
			us.produce(orders, 0, 2, 100)
		}
		ms.until("eu and ap have the new ones", time.Minute, func() bool {
			return len(ms.nodes["eu"].region.own(orders, 0, 1)) == 8 && len(ms.nodes["ap"].region.own(orders, 0, 1)) == 8
		})
		ms.idle(time.Minute)
		for _, name := range []rhumb.RegionName{"eu", "ap"} {
			owesNothing(ms, ms.nodes[name], "us")
		}
		ms.off("us")
		ms.until("the link is down", time.Minute, func() bool { return !ms.nodes["eu"].connected("us") })
		owesNothing(ms, ms.nodes["eu"], "us")
		ms.on("us")
		if n := len(us.region.own(orders, 0, 1)); n != 8 {
			t.Errorf("us holds %d batches of its own, want 5 earlier and 3 new ones", n)
		}
	})
}

// owesNothing fails the test if a flow of a node to a peer says that something is
// missing there, or if the log is to keep anything for it.
func owesNothing(ms *mesh, n *node, peer rhumb.RegionName) {
	ms.t.Helper()
	flows := n.link(peer).Partitions
	if len(flows) == 0 {
		ms.t.Fatalf("%s has no flow to %s", n.self.Name, peer)
	}
	for _, p := range flows {
		if p.Lag != (Lag{Known: true}) {
			ms.t.Errorf("%s to %s: life %s of region %d is %s, lag %+v", n.self.Name, peer, p.Life, p.Origin, p.State, p.Lag)
		}
	}
	if owed := n.manager.Owed(); len(owed) > 0 {
		ms.t.Errorf("%s owes %v", n.self.Name, owed)
	}
}

// TestRebuiltRegionsAreLeftInPeace: two regions were rebuilt and refuse what they write
// now when a third offers it back. That is the end of it: the two refusals do not wake
// each other.
func TestRebuiltRegionsAreLeftInPeace(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, names, func(ms *mesh) {
		ms.start()
		ms.ready("us")
		ms.nodes["us"].produce(orders, 0, 2, 100)
		ms.nodes["ap"].produce(orders, 0, 2, 100)
		ms.brings("us", 20*time.Second, "eu", "ap")
		ms.brings("ap", 20*time.Second, "eu", "us")
		ms.off("us", "ap")
		for i, name := range []rhumb.RegionName{"us", "ap"} {
			ms.nodes[name].region = newFakeRegion(rhumb.RegionNumber(1 + 2*i))
			ms.policy.change(func() { ms.policy.regions[2*i].Rebuilds++ })
		}
		ms.on("us", "ap")
		ms.ready("us")
		ms.nodes["us"].produce(orders, 0, 2, 100)
		ms.nodes["ap"].produce(orders, 0, 2, 100)
		ms.idle(time.Minute)
		eu := ms.nodes["eu"].region
		before := eu.asked.Load()
		ms.pass(time.Minute)
		if n := eu.asked.Load() - before; n > 1000 {
			t.Errorf("eu looked %d times at a partition that rests", n)
		}
	})
}

// TestI8LagOfAStandbyIsASecondOld: what a source shows of a life that its peer takes over
// another path is what the peer had a moment ago, also while producers go on: it does not
// grow for seconds and fall again.
func TestI8LagOfAStandbyIsASecondOld(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, diamondNames, func(ms *mesh) {
		ms.policy.edges = diamond()
		ms.start()
		ms.ready("us")
		ms.nodes["us"].produce(orders, 0, 1, 100)
		ms.brings("us", 20*time.Second, "eu", "ap", "sa")
		standby := func() (lag Lag, from rhumb.RegionName) {
			for _, name := range []rhumb.RegionName{"eu", "ap"} {
				for _, p := range ms.nodes[name].link("sa").Partitions {
					if p.State == SessionStandby {
						return p.Lag, name
					}
				}
			}
			return lag, ""
		}
		ms.until("a path stands by", time.Minute, func() bool { _, from := standby(); return from != "" })
		for i := range 1200 { // two minutes of ten records a second
			ms.nodes["us"].produce(orders, 0, 1, 100)
			ms.pass(100 * time.Millisecond)
			lag, from := standby()
			if i > 100 && from != "" && (lag.Age > 2500*time.Millisecond || lag.Records > 25) {
				ms.t.Fatalf("after %d records %s says that sa lacks %+v", i, from, lag)
			}
		}
		ms.idle(30 * time.Second)
	})
}

// TestOffersOfManyAreRarer bounds what lives that stand by cost, however many they are.
func TestOffersOfManyAreRarer(t *testing.T) {
	for n, want := range map[int]time.Duration{0: time.Second, 99: time.Second, 100: 2 * time.Second, 399: 4 * time.Second, 100_000: 5 * time.Second} {
		l := &link{standing: map[*flow]struct{}{}}
		for range n {
			l.standing[&flow{}] = struct{}{}
		}
		if got := l.offersEvery(); got != want {
			t.Errorf("%d stand by: offered each %s, want %s", n, got, want)
		}
	}
}
