package replicator

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/codec"
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

// lives is a mesh of which eu is rebuilt while ap is away.
type lives struct {
	*mesh
	eu, us, ap *node
	want       int // batches of eu
}

var livesNames = []rhumb.RegionName{"us", "eu", "ap"}

// usRelays has what eu publishes come to ap over us, alone.
var usRelays = []configstore.Edge{edge("eu", "us", false), edge("us", "eu", false), edge("us", "ap", true)}

// twoPaths has it come straight, too.
var twoPaths = append([]configstore.Edge{edge("eu", "ap", true)}, usRelays...)

// rebuilt runs a test of a mesh in which eu published some batches before it was
// rebuilt, of which ap has some, and some since.
func rebuilt(t *testing.T, edges []configstore.Edge, had, times int, test func(ms *lives)) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, livesNames, func(m *mesh) {
		ms := &lives{mesh: m, eu: m.nodes["eu"], us: m.nodes["us"], ap: m.nodes["ap"]}
		ms.policy.edges = edges
		ms.start()
		ms.ready("eu")
		ms.publish(had)
		ms.until("ap has all of it", time.Minute, func() bool { return ms.ap.holds(ms.eu.self.Number) == ms.want })
		ms.off("ap")
		ms.publish(60 - had)
		for range times {
			ms.rebuild("eu")
			ms.until("eu has its own back", 2*time.Minute, func() bool { return ms.eu.holds(ms.eu.self.Number) == ms.want })
			ms.publish(40)
		}
		test(ms)
	})
}

// publish has eu publish batches and us get them.
func (ms *lives) publish(batches int) {
	ms.t.Helper()
	for range batches {
		ms.eu.produce(orders, 0, 2, 20_000)
		ms.pass(3 * time.Millisecond)
	}
	ms.want += batches
	ms.until("us has all of it", 2*time.Minute, func() bool { return ms.us.holds(ms.eu.self.Number) == ms.want })
}

// whole waits until ap has all of eu, and checks the order.
func (ms *lives) whole(within time.Duration) {
	ms.t.Helper()
	ms.until("ap has all of eu", within, func() bool { return ms.ap.holds(ms.eu.self.Number) == ms.want })
	ms.ap.inOrderOf(ms.eu.self.Number, ms.want)
}

// first is the life of the first batch that us has of eu.
func (ms *lives) first() rhumb.Life {
	return ms.us.region.own(orders, 0, ms.eu.self.Number)[0].Envelope.Life
}

// ofLife tells how many batches of a life ap has, and how many of other lives of eu.
func (ms *lives) ofLife(life rhumb.Life) (of, others int) {
	for _, b := range ms.ap.region.own(orders, 0, ms.eu.self.Number) {
		if b.Envelope.Life == life {
			of++
		} else {
			others++
		}
	}
	return of, others
}

// looks is how often flows of a region to ap looked how far former lives are.
func (n *node) looks() uint64 { return n.manager.link("ap").counters.olderLooks.Load() }

// sessions is how many sessions a region opened to a peer over its connection.
func (n *node) sessions(peer rhumb.RegionName) uint64 {
	ls := &n.conn(peer).lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return uint64(ls.lastID)
}

// failLife has ap refuse what it is given of a life from its nth batch on, until stop is called.
func (ms *lives) failLife(life rhumb.Life, n int, err error) (stop func()) {
	r := ms.ap.region
	on := true
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failAppend = func(_ rhumb.PartitionRef, e *codec.Envelope) error {
		if on && e.Life == life && e.First >= rhumb.Offset(2*n) {
			return err
		}
		return nil
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		on = false
	}
}

// TestI3LivesOfAnOriginKeepTheirOrder: what a region published before it was rebuilt
// reaches a region that was away before what it published since: directly, over a relay,
// over both, and where the region that was away has a part of the former already.
func TestI3LivesOfAnOriginKeepTheirOrder(t *testing.T) {
	for name, c := range map[string]struct {
		edges []configstore.Edge
		had   int // of the former life, of 60
		times int // that eu is rebuilt
	}{
		"direct":               {fullMesh(livesNames...), 0, 1},
		"over a relay":         {usRelays, 0, 1},
		"some is there":        {fullMesh(livesNames...), 25, 1},
		"more than once":       {fullMesh(livesNames...), 0, 2},
		"relay, and often":     {usRelays, 10, 2},
		"two paths":            {twoPaths, 0, 1},
		"two paths, and often": {twoPaths, 10, 3},
	} {
		t.Run(name, func(t *testing.T) {
			rebuilt(t, c.edges, c.had, c.times, func(ms *lives) {
				ms.on("ap")
				ms.whole(2 * time.Minute)
				ms.us.inOrderOf(ms.eu.self.Number, ms.want)
				ms.publish(10) // and it goes on
				ms.whole(time.Minute)
			})
		})
	}
}

// TestI3LivesKeepTheirOrderOverCutsAndPauses: links that break while the later life
// waits, that are paused, and sources that start anew change nothing.
func TestI3LivesKeepTheirOrderOverCutsAndPauses(t *testing.T) {
	slow := relay.Settings{Delay: 40 * time.Millisecond, Rate: 640_000}
	for name, disturb := range map[string]func(ms *lives){
		"cut": func(ms *lives) {
			ms.cut("eu", "ap", relay.Settings{Cut: true})
			ms.pass(20 * time.Second)
			ms.cut("eu", "ap", slow)
		},
		"pause": func(ms *lives) {
			if err := ms.eu.manager.Pause(ms.net.ctx, "ap", rhumb.Space{}, "x"); err != nil {
				ms.t.Fatal(err)
			}
			ms.until("no right to open is in use, by nobody", time.Minute, func() bool { return ms.eu.conn("ap").opening.inUse() == 0 })
			if err := ms.eu.manager.Resume(ms.net.ctx, "ap", rhumb.Space{}); err != nil {
				ms.t.Fatal(err)
			}
		},
		"source": func(ms *lives) {
			ms.off("eu")
			ms.on("eu")
		},
		"destination": func(ms *lives) {
			ms.off("ap")
			ms.on("ap")
		},
	} {
		t.Run(name, func(t *testing.T) {
			rebuilt(t, fullMesh(livesNames...), 0, 1, func(ms *lives) {
				ms.cut("eu", "ap", slow)
				ms.on("ap")
				former := ms.first()
				for _, batches := range []int{10, 20, 30} {
					ms.until("some is there", time.Minute, func() bool { n, _ := ms.ofLife(former); return n >= batches })
					disturb(ms)
				}
				ms.whole(5 * time.Minute)
			})
		})
	}
}

// TestI13FormerLifeThatDoesNotGetOnHoldsNobodyUp: one that the destination refuses for
// good, that differs there, or of which the flow is skipped is not waited for; one that just does not get on
// for a minute, once, also if the link breaks then.
func TestI13FormerLifeThatDoesNotGetOnHoldsNobodyUp(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		most time.Duration
	}{
		"refused": {rhumb.Errorf(rhumb.KindInvalid, "not this one"), 15 * time.Second},
		"stalled": {rhumb.Errorf(rhumb.KindUnavailable, "not now"), olderPatience + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			rebuilt(t, fullMesh(livesNames...), 0, 1, func(ms *lives) {
				former := ms.first()
				stop := ms.failLife(former, 30, c.err)
				begin := time.Now()
				ms.on("ap")
				ms.until("ap has the present life", c.most, func() bool { _, n := ms.ofLife(former); return n == 40 })
				if n, _ := ms.ofLife(former); n != 30 {
					t.Fatalf("ap has %d batches of the former life, want 30", n)
				}
				t.Logf("after %s", time.Since(begin))
				ms.publish(1) // what is published now is late for nobody
				ms.until("ap has that, too", 2*time.Second, func() bool { _, n := ms.ofLife(former); return n == 41 })
				ms.off("ap")
				ms.on("ap")
				ms.until("they are linked", 20*time.Second, func() bool { return ms.linked("eu", "ap") })
				ms.publish(1)
				ms.until("ap has that at once", 2*time.Second, func() bool { _, n := ms.ofLife(former); return n == 42 })
				stop()
				ms.until("ap has all", 2*time.Minute, func() bool { return ms.ap.holds(ms.eu.self.Number) == ms.want })
			})
		})
	}
}

// TestI13PatienceIsSpentOnce: a life that waited for a minute in vain, and whose link broke before
// it could begin, does not wait for the same again.
func TestI13PatienceIsSpentOnce(t *testing.T) {
	rebuilt(t, fullMesh(livesNames...), 0, 1, func(ms *lives) {
		former := ms.first()
		ms.failLife(former, 30, rhumb.Errorf(rhumb.KindUnavailable, "not now"))
		ms.ap.region.mu.Lock()
		fail := ms.ap.region.failAppend
		all := true
		ms.ap.region.failAppend = func(ref rhumb.PartitionRef, e *codec.Envelope) error {
			if all && e.Life != former {
				return rhumb.Errorf(rhumb.KindUnavailable, "not now either")
			}
			return fail(ref, e)
		}
		ms.ap.region.mu.Unlock()
		ms.on("ap")
		own := func() PartitionStatus {
			for _, p := range ms.eu.link("ap").Partitions {
				if !p.Forwarded {
					return p
				}
			}
			return PartitionStatus{}
		}
		ms.until("it says why", 20*time.Second, func() bool { return own().LastError == errOlder.Error() && own().State == SessionStalled })
		ms.until("it goes", 2*time.Minute, func() bool { return own().LastError != errOlder.Error() })
		if n := ms.eu.logs.count("goes before it"); n != 1 {
			t.Fatalf("that is logged %d times\n%s", n, ms.eu.logs)
		}
		ms.cut("eu", "ap", relay.Settings{Cut: true})
		ms.until("the cut is noticed", 10*time.Second, func() bool { return !ms.eu.connected("ap") })
		ms.ap.region.mu.Lock()
		all = false
		ms.ap.region.mu.Unlock()
		ms.cut("eu", "ap", relay.Settings{Delay: 40 * time.Millisecond})
		ms.until("they are linked", 20*time.Second, func() bool { return ms.linked("eu", "ap") })
		ms.until("ap has the present life", 10*time.Second, func() bool { _, n := ms.ofLife(former); return n == 40 })
	})
}

// TestFlowsThatWaitForFormerLivesDoNotSpin: while a life waits, it looks now and then, opens no session
// and is worked on by nobody; nor do its looks make those it waits for busy.
func TestFlowsThatWaitForFormerLivesDoNotSpin(t *testing.T) {
	for name, edges := range map[string][]configstore.Edge{"direct": fullMesh(livesNames...), "two paths": twoPaths} {
		t.Run(name, func(t *testing.T) {
			rebuilt(t, edges, 0, 2, func(ms *lives) {
				for _, n := range []*node{ms.eu, ms.us} {
					n.limits = &Limits{Rate: 15_000}
				}
				ms.off("eu", "us")
				ms.on("eu", "us", "ap")
				ms.until("something is there", 2*time.Minute, func() bool { return ms.ap.holds(ms.eu.self.Number) > 0 })
				peers := []*node{ms.eu}
				if len(edges) == len(twoPaths) {
					peers = append(peers, ms.us)
				}
				var looks, sessions []uint64
				for _, n := range peers {
					looks, sessions = append(looks, n.looks()), append(sessions, n.sessions("ap"))
				}
				const minutes = 2
				ms.pass(minutes * time.Minute)
				for i, n := range peers {
					l, s := n.looks()-looks[i], n.sessions("ap")-sessions[i]
					t.Logf("%s: %d looks, %d sessions", n.self.Name, l, s)
					// Two flows look every 3.75 to 5 s at last; a path that stands by is offered once a second at most.
					if l > minutes*60 {
						t.Errorf("%s: %d looks in %d minutes", n.self.Name, l, minutes)
					}
					if s > minutes*60*3 {
						t.Errorf("%s: %d sessions in %d minutes", n.self.Name, s, minutes)
					}
				}
				ms.whole(5 * time.Minute)
			})
		})
	}
}

// TestLivesThatAreCompleteCostNothing: where former lives are complete, nothing waits
// for them: neither topics that are idle, when a link or a process begins, nor what is published.
func TestLivesThatAreCompleteCostNothing(t *testing.T) {
	const topics = 60
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, livesNames, func(ms *mesh) {
		eu, ap := ms.nodes["eu"], ms.nodes["ap"]
		ms.start()
		eu.create(orders, topics)
		ms.until("all have the topic", 20*time.Second, func() bool {
			return ap.partitions(orders) == topics && ms.nodes["us"].partitions(orders) == topics
		})
		fill := func() {
			for i := range topics {
				eu.produce(orders, i, 2, 100)
			}
			for _, n := range []*node{ap, ms.nodes["us"]} {
				ms.until(fmt.Sprintf("%s has it", n.self.Name), time.Minute, func() bool {
					for i := range topics {
						if !copied(eu, n, orders, i) {
							return false
						}
					}
					return true
				})
			}
		}
		fill()
		ms.rebuild("eu")
		ms.until("eu has its own back", time.Minute, func() bool {
			for i := range topics {
				if len(eu.region.own(orders, i, eu.self.Number)) != 1 {
					return false
				}
			}
			return true
		})
		fill()
		ms.pass(10 * time.Second)
		for _, again := range []func(){
			func() { ms.off("ap"); ms.on("ap") },
			func() { ms.off("eu"); ms.on("eu") },
		} {
			again()
			ms.until("they are linked", 20*time.Second, func() bool { return ms.linked("eu", "ap") })
			eu.produce(orders, 7, 2, 100)
			ms.until("what is published is there at once", time.Second, func() bool { return copied(eu, ap, orders, 7) })
			ms.pass(20 * time.Second)
			if n := eu.looks(); n > 0 {
				t.Errorf("%d looks for former lives that are complete", n)
			}
		}
	})
}

// TestI13RestoredRegionsNewRecordsGoAtOnce: while a rebuilt region gets its own back, what
// it publishes reaches those that have its former life, and is not kept for as long as that takes.
func TestI13RestoredRegionsNewRecordsGoAtOnce(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, livesNames, func(m *mesh) {
		ms := &lives{mesh: m, eu: m.nodes["eu"], us: m.nodes["us"], ap: m.nodes["ap"]}
		ms.start()
		ms.ready("eu")
		ms.publish(60)
		ms.until("ap has all of it", time.Minute, func() bool { return ms.ap.holds(ms.eu.self.Number) == ms.want })
		former := ms.first()
		ms.cut("us", "eu", relay.Settings{Delay: 40 * time.Millisecond, Rate: 400_000})
		ms.cut("ap", "eu", relay.Settings{Delay: 40 * time.Millisecond, Rate: 400_000})
		ms.rebuild("eu")
		ms.until("eu has its topic", time.Minute, func() bool { _, ok := ms.eu.region.Topic(orders); return ok })
		ms.until("eu has some back", time.Minute, func() bool { n := ms.eu.holds(ms.eu.self.Number); return n > 2 })
		for i := range 10 {
			ms.eu.produce(orders, 0, 1, 10)
			ms.until("ap has the new one", 5*time.Second, func() bool { _, n := ms.ofLife(former); return n == i+1 })
		}
		if n := ms.eu.holds(ms.eu.self.Number); n >= 60 {
			t.Fatal("eu has all of its own back already: that tells nothing")
		}
	})
}

// lagging is a policy that does not show edges to ap until told.
type lagging struct {
	*fakePolicy
	late *bool
}

func (p lagging) Edges() []configstore.Edge {
	all := p.fakePolicy.Edges()
	if *p.late {
		all = slices.DeleteFunc(all, func(e configstore.Edge) bool { return e.To == "ap" })
	}
	return all
}

// bothLives has eu write a batch to each of many topics before it is rebuilt, and one since, while
// ap is away.
func (ms *lives) bothLives(topics int) {
	ms.t.Helper()
	ms.start()
	ms.eu.create(orders, int32(topics))
	ms.until("all have the topic", time.Minute, func() bool {
		return ms.ap.partitions(orders) == topics && ms.us.partitions(orders) == topics
	})
	ms.off("ap")
	for n := range 2 {
		if n > 0 {
			ms.rebuild("eu")
			ms.until("eu has its own back", 5*time.Minute, ms.each(ms.eu, topics, n))
		}
		for i := range topics {
			ms.eu.produce(orders, i, 2, 100)
		}
		ms.until("us has it", 5*time.Minute, ms.each(ms.us, topics, n+1))
	}
}

// each tells whether a region has so many batches of eu in each partition.
func (ms *lives) each(n *node, topics, batches int) func() bool {
	return func() bool {
		for i := range topics {
			if len(n.region.own(orders, i, ms.eu.self.Number)) < batches {
				return false
			}
		}
		return true
	}
}

// inOrder fails unless what ap has of eu in each partition begins with the former life.
func (ms *lives) inOrder(topics int) {
	ms.t.Helper()
	wrong := 0
	for i := range topics {
		got := ms.ap.region.own(orders, i, ms.eu.self.Number)
		if got[0].Envelope.AppendTime > got[1].Envelope.AppendTime || got[0].Envelope.Life == got[1].Envelope.Life {
			wrong++
		}
	}
	if wrong > 0 {
		ms.t.Fatalf("%d of %d partitions are out of order", wrong, topics)
	}
}

// TestI3LivesKeepTheirOrderWhereTheViewIsLate: a region that joins hears of its edges later
// than the others, and refuses all sessions until then; those that rest long after it are asked again.
func TestI3LivesKeepTheirOrderWhereTheViewIsLate(t *testing.T) {
	const topics = 40
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, livesNames, func(m *mesh) {
		ms := &lives{mesh: m, eu: m.nodes["eu"], us: m.nodes["us"], ap: m.nodes["ap"]}
		late := true
		ms.ap.policy = lagging{ms.policy, &late}
		ms.bothLives(topics)
		ms.on("ap")
		ms.until("they are linked", 20*time.Second, func() bool { return ms.linked("eu", "ap") })
		ms.pass(2 * time.Second)
		ms.policy.change(func() { late = false })
		ms.until("ap has all", 2*time.Minute, ms.each(ms.ap, topics, 2))
		ms.inOrder(topics)
	})
}

// TestI3LivesKeepTheirOrderWhereManyTopicsAsk: former lives are asked for before all else, where
// opening what there is takes long and something comes to each topic all the time.
func TestI3LivesKeepTheirOrderWhereManyTopicsAsk(t *testing.T) {
	topics := 200
	if testing.Short() {
		topics = 100
	}
	inBubble(t, relay.Settings{Delay: 100 * time.Millisecond}, livesNames, func(m *mesh) {
		ms := &lives{mesh: m, eu: m.nodes["eu"], us: m.nodes["us"], ap: m.nodes["ap"]}
		ms.limits.Opening = 4 // as 256 of many thousands
		ms.bothLives(topics)
		ms.on("ap")
		ms.until("they are linked", 20*time.Second, func() bool { return ms.linked("eu", "ap") })
		for range 10 {
			for i := range topics {
				ms.eu.produce(orders, i, 1, 100)
			}
			ms.pass(time.Second)
		}
		ms.until("ap has all", 10*time.Minute, ms.each(ms.ap, topics, 12))
		ms.inOrder(topics)
	})
}

// TestI3LivesBehindOneThatIsStuckKeepTheirOrder: of three lives the first does not get on; the third
// waits for the second all the same.
func TestI3LivesBehindOneThatIsStuckKeepTheirOrder(t *testing.T) {
	rebuilt(t, fullMesh(livesNames...), 0, 2, func(ms *lives) {
		first := ms.first()
		us := ms.us.region.own(orders, 0, ms.eu.self.Number)
		third := us[len(us)-1].Envelope.Life
		ms.failLife(first, 5, rhumb.Errorf(rhumb.KindUnavailable, "not now"))
		ms.cut("eu", "ap", relay.Settings{Delay: 40 * time.Millisecond, Rate: 1_000_000})
		ms.on("ap")
		ms.until("ap has both others", 5*time.Minute, func() bool { _, n := ms.ofLife(first); return n == 80 })
		begun := false
		for i, b := range ms.ap.region.own(orders, 0, ms.eu.self.Number) {
			switch l := b.Envelope.Life; {
			case l == third:
				begun = true
			case l != first && begun:
				t.Fatalf("batch %d is of the second life, and comes after one of the third", i)
			}
		}
	})
}

// TestI3PatienceWithAPeerEndsWithItsDisk: a peer that begins anew gets all lives in their order, also
// those that its former log did not get on with.
func TestI3PatienceWithAPeerEndsWithItsDisk(t *testing.T) {
	rebuilt(t, fullMesh(livesNames...), 0, 1, func(ms *lives) {
		former := ms.first()
		stop := ms.failLife(former, 30, rhumb.Errorf(rhumb.KindUnavailable, "not now"))
		ms.on("ap")
		ms.until("ap has the present life", 2*time.Minute, func() bool { _, n := ms.ofLife(former); return n == 40 })
		stop()
		ms.until("ap has all", 2*time.Minute, func() bool { return ms.ap.holds(ms.eu.self.Number) == ms.want })
		ms.off("ap")
		ms.ap.self.Data = rhumb.NewUUID()
		ms.policy.change(func() {
			for i := range ms.policy.regions {
				if r := &ms.policy.regions[i]; r.Name == "ap" {
					r.Rebuilds, r.DataUUID = r.Rebuilds+1, ms.ap.self.Data
				}
			}
		})
		ms.ap.region = newFakeRegion(ms.ap.self.Number)
		ms.cut("eu", "ap", relay.Settings{Delay: 40 * time.Millisecond, Rate: 1_000_000})
		ms.on("ap")
		ms.whole(5 * time.Minute)
	})
}

// TestEndedFlowsAreNotKept: a flow remembers where it gave up waiting for a former life, and
// does not keep that one's flow, which may have ended long ago.
func TestEndedFlowsAreNotKept(t *testing.T) {
	f := &flow{source: &source{life: rhumb.NewLife()}}
	give := func() weak.Pointer[flow] {
		a := ancestor{flow: &flow{source: &source{life: rhumb.NewLife()}}, at: 7}
		f.despair(&a, nil)
		if !f.despairs(&a, nil) {
			t.Error("it waits again for a life that has not moved")
		}
		if a.at++; f.despairs(&a, nil) {
			t.Error("it does not wait for one that has")
		}
		again := ancestor{flow: &flow{source: a.flow.source}, at: 7}
		if f.despairs(&again, nil) {
			t.Error("it takes another flow of the life for the one that it waited for")
		}
		return weak.Make(a.flow)
	}
	ended := give()
	for range 3 {
		runtime.GC()
	}
	if ended.Value() != nil {
		t.Error("the flow of the former life is still in memory")
	}
	runtime.KeepAlive(f)
}
