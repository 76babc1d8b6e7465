package replicator

import (
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// lanesOpen has the lanes of us to eu opened, and gives those of new data when no session is
// open any more.
func (ms *mesh) lanesOpen() (*conn, []*lane) {
	ms.t.Helper()
	warm := ms.named("warm", 40)
	for _, x := range warm {
		ms.nodes["us"].produce(x, 0, 1, 100)
	}
	ms.until("the lanes are open", 30*time.Second, func() bool { return ms.copies(warm) == len(warm) })
	c := ms.nodes["us"].manager.link("eu").connection()
	ms.until("no session is open", time.Minute, func() bool { return len(c.lanes.all()) == 0 })
	c.lanes.mu.Lock()
	defer c.lanes.mu.Unlock()
	var all []*lane
	for _, l := range c.lanes.open {
		if l.kind == fresh {
			all = append(all, l)
		}
	}
	if len(all) < 2 {
		ms.t.Fatalf("%d lanes of new data are open", len(all))
	}
	return c, all
}

// copies is of how many topics eu has all of us.
func (ms *mesh) copies(topics []rhumb.Topic) (n int) {
	for _, x := range topics {
		if copied(ms.nodes["us"], ms.nodes["eu"], x, 0) {
			n++
		}
	}
	return n
}

// parts are the partitions of topics in a node's region.
func (n *node) parts(topics ...rhumb.Topic) map[rhumb.PartitionRef]bool {
	refs := map[rhumb.PartitionRef]bool{}
	for _, x := range topics {
		info, _ := n.region.Topic(x)
		refs[info.Partitions[0].Ref] = true
	}
	return refs
}

// TestBatchesGoAlonePastALaneThatTakesNothing: one lane of new data takes nothing for a while.
// Flows that go over the others do; when the watchdog gives the lane up, the rest follow.
func TestBatchesGoAlonePastALaneThatTakesNothing(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, _ *node) {
		_, lanes := ms.lanesOpen()
		late, last := ms.named("late", 300), ms.named("last", 8)
		stuck := lanes[0]
		stuck.baton <- struct{}{} // a writer is in the middle of a batch
		for _, x := range late {
			us.produce(x, 0, 1, 7000)
		}
		ms.until("most go past it", 4*time.Second, func() bool { return ms.copies(late) > 200 })
		for _, x := range last {
			us.produce(x, 0, 1, 100)
		}
		ms.until("new ones, too", 4*time.Second, func() bool { return ms.copies(last) > 5 })
		ms.until("it is given up", time.Minute, stuck.broken.Load)
		<-stuck.baton
		ms.untilLevel(append(late, last...))
		if n := stuck.link.send.inUse(); n != 0 {
			ms.t.Errorf("%d bytes of the budget are taken yet", n)
		}
	})
}

// TestBatchIsNotAloneOnALaneThatDeclines: what is taken for it is given back.
func TestBatchIsNotAloneOnALaneThatDeclines(t *testing.T) {
	for name, broke := range map[string]bool{"full": false, "broken": true} {
		t.Run(name, func(t *testing.T) {
			ls := &lanes{}
			ls.init(&conn{m: &Manager{}})
			l := &lane{kind: fresh}
			ls.open = []*lane{l}
			x := &alone{size: 10, aged: true, edge: true}
			if !ls.take(x) {
				t.Fatal("an empty lane takes nothing")
			}
			if broke {
				ls.loseAlone(l)
			}
			undone := ls.untake(x, 0, false)
			if undone == broke {
				t.Errorf("undone %v", undone)
			}
			if n := len(ls.alone.ended); (n == 1) != broke {
				t.Errorf("%d have ended, but who undoes it goes on with a session", n)
			}
			if l.sessions != 0 || ls.alone.aged != 0 || len(ls.alone.batches) != 0 {
				t.Errorf("%d on the lane, %d bytes, %d batches", l.sessions, ls.alone.aged, len(ls.alone.batches))
			}
		})
	}
}

// TestNoBatchGoesAloneOverAnEdgeThatWentMeanwhile: its edge is paused, or removed, while its flow
// waits for the right to open a session.
func TestNoBatchGoesAloneOverAnEdgeThatWentMeanwhile(t *testing.T) {
	for name, gone := range map[string]func(ms *mesh, l *link){
		"paused": func(ms *mesh, _ *link) {
			if err := ms.nodes["us"].manager.Pause(ms.t.Context(), "eu", rhumb.Space{Tenant: "public", Namespace: "default"}, "ann"); err != nil {
				ms.t.Fatal(err)
			}
		},
		"removed": func(_ *mesh, l *link) {
			l.mu.Lock()
			now := l.linkPolicy
			l.mu.Unlock()
			now.out = map[scope]configstore.Edge{}
			l.setPolicy(now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair(t, short, 1, func(ms *mesh, us, eu *node) {
				c, _ := ms.lanesOpen()
				topics := ms.named("x", 2)
				all := c.opening.limit.Load()
				ms.until("nobody opens", time.Minute, func() bool { return c.opening.try(all) })
				before := ms.wentAlone()
				for _, x := range topics {
					us.produce(x, 0, 1, 100)
				}
				ms.pass(time.Second)
				gone(ms, c.link)
				c.opening.release(all)
				ms.pass(time.Second)
				if n, m := ms.wentAlone()-before, ms.copies(topics); n > 0 || m > 0 {
					ms.t.Errorf("%d went alone, %d arrived", n, m)
				}
				for _, x := range topics {
					us.region.edit(x, 0, func(l *fakeLog) {
						if at, ok := l.starts[eu.self.Number]; ok {
							ms.t.Errorf("the start of an edge that is %s is fixed at %d", name, at)
						}
					})
				}
				ms.until("nobody opens", time.Minute, func() bool { return c.opening.inUse() == 0 })
			})
		})
	}
}

// TestBatchThatGoesAloneIsNotAnswered: the destination does not answer for one partition. The
// lane that brought its batch stays, with the sessions of others.
func TestBatchThatGoesAloneIsNotAnswered(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.limits.Watchdog, ms.limits.Lanes = 5*time.Second, 1
		ms.start()
		us.create(orders, 1)
		ms.until("eu has the topic", 10*time.Second, func() bool { _, ok := eu.region.Topic(orders); return ok })
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		mute := ms.named("mute", 1)
		eu.with(func(r *fakeRegion) { r.mutes = map[rhumb.PartitionRef]bool{r.topics[mute[0]].Partitions[0].Ref: true} })
		c := us.manager.link("eu").connection()
		c.lanes.mu.Lock()
		all := slices.Clone(c.lanes.open) // giving one up moves the others
		c.lanes.mu.Unlock()
		us.produce(mute[0], 0, 1, 100)
		for range 80 {
			us.produce(orders, 0, 1, 100)
			ms.pass(100 * time.Millisecond)
		}
		if ms.wentAlone() == 0 || us.link("eu").Rebuilds == 0 {
			ms.t.Errorf("%d went alone, and %d had no answer", ms.wentAlone(), us.link("eu").Rebuilds)
		}
		for _, l := range all {
			if l.broken.Load() {
				ms.t.Error("the lane of all others was given up")
			}
		}
		ms.untilCopied(us, eu, 0)
		eu.with(func(r *fakeRegion) { r.mutes = nil })
		ms.until("it is asked again", 2*time.Minute, func() bool { return ms.copies(mute) == 1 })
	})
}

// TestBatchesThatGoAloneLeaveRoom: of many partitions the destination can say and store nothing.
// Their batches do not take all that it receives into, and another partition goes on.
func TestBatchesThatGoAloneLeaveRoom(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.limits.Watchdog, ms.limits.ReceiveBudget = 5*time.Second, 1<<20
		ms.start()
		us.create(orders, 1)
		ms.until("eu has the topic", 10*time.Second, func() bool { _, ok := eu.region.Topic(orders); return ok })
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		ms.lanesOpen()
		hung := ms.named("hung", 200)
		refs := eu.parts(hung...)
		eu.with(func(r *fakeRegion) { r.hangs, r.mutes = refs, refs })
		before := ms.wentAlone()
		for i, x := range hung {
			if us.produce(x, 0, 1, 7000); i%10 == 9 {
				ms.pass(10 * time.Millisecond)
			}
		}
		ms.pass(30 * time.Second)
		l := eu.manager.link("us")
		if n, most := l.cameAlone.Load(), l.receive.limit.Load()/aloneShare; n == 0 || n > most || int64(ms.wentAlone()-before) <= most/7000 {
			ms.t.Errorf("eu holds %d bytes of %d batches that came alone, at most %d are meant", n, ms.wentAlone()-before, most)
		}
		us.produce(orders, 0, 1, 9000)
		ms.untilCopied(us, eu, 0)
	})
}

// TestBatchesGoAloneAndTheirStartsComeLate: the region tells of the starts of edges when the
// connection over which the batches went is over.
func TestBatchesGoAloneAndTheirStartsComeLate(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		c, _ := ms.lanesOpen()
		topics := ms.lonelyTopics(50)
		us.with(func(r *fakeRegion) { r.late = true })
		for _, x := range topics {
			us.produce(x, 0, 1, 100)
		}
		ms.until("they are there", 10*time.Second, func() bool { return ms.copies(topics) == len(topics) })
		if n := len(us.region.own(topics[0], 0, us.self.Number)); n != 1 {
			ms.t.Fatalf("%d batches", n)
		}
		done := make(chan struct{})
		go func() { // at the same moment
			us.region.started()
			close(done)
		}()
		c.end(errRenewed)
		<-done
		ms.until("the next connection is there", time.Minute, func() bool {
			now := us.manager.link("eu").connection()
			return now != nil && now != c
		})
		us.with(func(r *fakeRegion) { r.late = false })
		us.region.started()
		for _, x := range topics {
			us.produce(x, 0, 1, 100)
		}
		ms.untilLevel(topics)
	})
}

// TestBatchThatWentAloneIsOver: what comes of an edge's start afterwards is nobody's (for the
// race detector).
func TestBatchThatWentAloneIsOver(t *testing.T) {
	l := &link{send: newGate(100), flows: map[sourceKey]*flow{}}
	c := &conn{link: l, stopped: make(chan struct{}), opening: newGate(10)}
	c.lanes.init(c)
	x := &alone{flow: &flow{link: l, source: &source{}}, conn: c, lane: &lane{sessions: 1}, size: 1, edge: true}
	c.lanes.alone.batches[1] = x
	l.conn = c
	if !l.send.try(1) || !c.opening.try(1) {
		t.Fatal("no budget")
	}
	c.lanes.answerAlone(x, true) // the peer has it
	c.lanes.loseAlone(nil)       // the connection is over
	done := make(chan struct{})
	go func() {
		c.lanes.edgeStarted(x, true)
		close(done)
	}()
	c.settled()
	<-done
	if x.started {
		t.Error("the start of an edge was taken for fixed after the batch was over")
	}
}

// TestBatchesGoAloneOfLivesWithoutEnd: a peer opens sessions of one batch for lives that nobody
// has, and closes each. The destination does not keep what it chose for all of them.
func TestBatchesGoAloneOfLivesWithoutEnd(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		for i := range ms.policy.edges {
			ms.policy.edges[i].Forward = true
		}
		ms.start()
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 1)
		ms.until("eu has the topic", 10*time.Second, func() bool { _, ok := eu.region.Topic(orders); return ok })
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		_, lanes := ms.lanesOpen()
		choices := func(life rhumb.Life) (n int, has bool) {
			o := &eu.manager.origins
			o.mu.Lock()
			defer o.mu.Unlock()
			for key := range o.choices {
				has = has || key.life == life
			}
			return len(o.choices), has
		}
		before, _ := choices(rhumb.Life{})
		for i := range 2000 {
			id, life := wire.SessionID(1<<40+i), rhumb.NewLife()
			_, err := lanes[0].write(&wire.Open{Session: id, Partition: rhumb.Partition{Topic: orders}, Region: us.self.Number, Life: life, Head: 1,
				Producer: "x", Alone: true}, &wire.Close{Session: id, Code: wire.CodeIdle})
			if err != nil {
				ms.t.Fatal(err)
			}
			if i%100 == 99 {
				ms.until("eu chooses for the last of them", time.Minute, func() bool { _, has := choices(life); return has })
			}
		}
		if n, _ := choices(rhumb.Life{}); n > before+maxStrangers {
			ms.t.Errorf("of 2000 lives that nobody has %d are remembered", n-before)
		}
		own := us.parts(orders)
		for ref := range own {
			st, _ := us.region.Glance(ref)
			if _, has := choices(st.Life); !has {
				ms.t.Error("of the life that is there nothing is remembered")
			}
		}
	})
}
