package replicator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/session"
)

var short = relay.Settings{Delay: 5 * time.Millisecond}

// pair runs a test of two linked regions that both have orders.
func pair(t *testing.T, s relay.Settings, partitions int32, test func(ms *mesh, us, eu *node)) {
	inBubble(t, s, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		ms.limits.Watchdog = 5 * time.Second
		ms.start()
		us.create(orders, partitions)
		ms.until("eu has the topic", 10*time.Second, func() bool {
			info, ok := eu.region.Topic(orders)
			return ok && len(info.Partitions) == int(partitions)
		})
		test(ms, us, eu)
	})
}

func (ms *mesh) untilCopied(from, to *node, partition int) {
	ms.t.Helper()
	ms.until(fmt.Sprintf("%s has all of %s, partition %d", to.self.Name, from.self.Name, partition), 30*time.Second,
		func() bool { return copied(from, to, orders, partition) })
}

// edit changes a region's log under its lock and wakes who waits for it.
func (r *fakeRegion) edit(t rhumb.Topic, partition int, change func(*fakeLog)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.log(t, partition)
	change(l)
	r.signal(l.info.Ref)
}

// TestI8LagIsWhatIsNotConfirmed: no lag of zero before the destination has said so.
func TestI8LagIsWhatIsNotConfirmed(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 5, 100)
		ms.untilCopied(us, eu, 0)
		ms.until("idle", 3*time.Second, func() bool { return us.flow("eu").State == SessionIdle && us.flow("eu").Lag == Lag{Known: true} })
		eu.kill()
		us.produce(orders, 0, 7, 100)
		ms.pass(10 * time.Second)
		f := us.flow("eu")
		if f.State != SessionDisconnected || f.Lag.Records != 7 || f.Lag.Bytes == 0 || f.Lag.Age < 9*time.Second || f.Lag.Age > 11*time.Second {
			ms.t.Errorf("a dead destination shows %+v", f)
		}
		eu.start()
		ms.until("idle again", 5*time.Second, func() bool { return us.flow("eu").State == SessionIdle && us.flow("eu").Lag.Records == 0 })
	})
}

func TestG08RetentionGapIsSaid(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 4, 100)
		ms.untilCopied(us, eu, 0)
		eu.kill()
		for range 10 {
			us.produce(orders, 0, 2, 100)
		}
		us.region.edit(orders, 0, func(l *fakeLog) {
			l.batches = l.batches[6:] // offsets 4 to 13 are gone
			l.logStart, l.ownFloor = 14, 13
		})
		eu.start()
		ms.until("eu has the rest", 10*time.Second, func() bool { return us.flow("eu").Confirmed == 23 })
		eu.region.edit(orders, 0, func(l *fakeLog) {
			if len(l.gaps) != 1 || l.gaps[0].From != 3 || l.gaps[0].To != 13 || l.gaps[0].Reason != rhumb.ReasonRetention {
				ms.t.Errorf("gaps %+v, want one of (3, 13] by retention", l.gaps)
			}
		})
	})
}

// TestG11 and G16: nothing is forgotten by the source, or counted as there,
// before the destination has stored it.
func TestG11G16OnlyStoredCountsAsConfirmed(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		eu.region.mu.Lock()
		eu.region.mute = true
		eu.region.mu.Unlock()
		us.produce(orders, 0, 3, 100)
		ms.pass(2 * time.Second)
		if f := us.flow("eu"); f.Confirmed != rhumb.NoOffset || f.Lag.Records != 3 {
			ms.t.Errorf("with nothing stored the source shows %+v", f)
		}
		eu.kill()
		us.kill() // between sending and confirmation
		eu.region.mu.Lock()
		eu.region.mute = false
		eu.region.mu.Unlock()
		us.start()
		eu.start()
		ms.untilCopied(us, eu, 0)
	})
}

func TestG20FlapsUnderLoadDoubleNothing(t *testing.T) {
	pair(t, relay.Settings{Delay: 20 * time.Millisecond, Loss: .02, Duplicate: .02, Reorder: .02}, 2, func(ms *mesh, us, eu *node) {
		for i := range 400 {
			us.produce(orders, i%2, 1+i%3, 3000)
			eu.produce(orders, i%2, 1, 100)
			switch i % 50 {
			case 20:
				ms.cut("us", "eu", relay.Settings{Cut: true})
			case 35:
				ms.cut("us", "eu", relay.Settings{Delay: 20 * time.Millisecond, Loss: .02, Duplicate: .02})
			case 45:
				eu.kill()
				eu.start()
			}
			ms.pass(300 * time.Millisecond)
		}
		for p := range 2 {
			ms.untilCopied(us, eu, p)
			ms.untilCopied(eu, us, p)
		}
	})
}

func TestG31ResumesWhenTheDestinationHasRoom(t *testing.T) {
	pair(t, short, 2, func(ms *mesh, us, eu *node) {
		full := true
		ref := eu.region.log(orders, 0).info.Ref
		eu.region.mu.Lock()
		eu.region.failAppend = func(r rhumb.PartitionRef, _ *codec.Envelope) error {
			if full && r == ref {
				return rhumb.Errorf(rhumb.KindNoSpace, "disk below its reserve")
			}
			return nil
		}
		eu.region.mu.Unlock()
		for range 20 {
			us.produce(orders, 0, 2, 1000)
			us.produce(orders, 1, 2, 1000)
			ms.pass(500 * time.Millisecond)
		}
		ms.untilCopied(us, eu, 1) // the other partition does not care
		if f := us.flow("eu"); f.State != SessionHeld || f.LastError == "" || f.Lag.Records != 40 {
			ms.t.Errorf("the full partition shows %+v", f)
		}
		eu.region.mu.Lock()
		full = false
		eu.region.mu.Unlock()
		ms.until("it resumes within one back-off", retryPauseMost+time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

func TestG41WatchdogRebuildsAWedgedSession(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		ms.pass(2 * time.Second)
		eu.region.mu.Lock()
		eu.region.mute = true // appends are swallowed: a wedged consumer that says nothing
		eu.region.mu.Unlock()
		us.produce(orders, 0, 3, 100)
		ms.pass(30 * time.Second)
		eu.region.mu.Lock()
		eu.region.mute = false
		eu.region.mu.Unlock()
		ms.untilCopied(us, eu, 0)
		if l := us.link("eu"); l.Rebuilds == 0 || us.flow("eu").Rebuilds == 0 || l.Connects != 1 {
			ms.t.Errorf("%d rebuilds of the link, %d of the partition, %d connections", l.Rebuilds, us.flow("eu").Rebuilds, l.Connects)
		}
		if us.logs.count("sessions made no progress") == 0 {
			ms.t.Errorf("nobody was told:\n%s", us.logs)
		}
	})
}

// TestG41WatchdogReplacesAConnection: where no session gets anywhere, the
// connection itself is not trusted any more.
func TestG41WatchdogReplacesAConnection(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		eu.region.mu.Lock()
		eu.region.hang = true
		eu.region.mu.Unlock()
		eu.kill()
		eu.start()
		us.produce(orders, 0, 3, 100)
		ms.until("a second connection", time.Minute, func() bool { return us.link("eu").Connects >= 3 })
		eu.region.mu.Lock()
		eu.region.hang = false
		eu.region.mu.Unlock()
		ms.untilCopied(us, eu, 0)
	})
}

// TestG91MuteTargetFreesTheBudget: a target that takes everything and stores
// nothing does not keep the budget from the others.
func TestG91MuteTargetFreesTheBudget(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, short, names, func(ms *mesh) {
		ms.limits.SendBudget = 256 << 10
		ms.limits.Read = 64 << 10
		ms.start()
		us := ms.nodes["us"]
		us.create(orders, 20)
		for _, n := range names {
			ms.until("has the topic", 10*time.Second, func() bool { _, ok := ms.nodes[n].region.Topic(orders); return ok })
		}
		ap := ms.nodes["ap"].region
		ap.mu.Lock()
		ap.mute = true
		ap.mu.Unlock()
		for i := range 100 {
			us.produce(orders, i%20, 1, 20000)
		}
		ms.until("eu has everything", 10*time.Minute, func() bool {
			for p := range 20 {
				if !copied(us, ms.nodes["eu"], orders, p) {
					return false
				}
			}
			return true
		})
	})
}

func TestG43WrittenWhileAwayComesAtOnce(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		eu.kill()
		ms.pass(time.Hour)
		for range 50 {
			us.produce(orders, 0, 10, 2000)
		}
		eu.start()
		ms.until("everything is there", 3*time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

func TestG47OneBrokenPartitionStopsOnlyItself(t *testing.T) {
	pair(t, short, 4, func(ms *mesh, us, eu *node) {
		down := true
		ref := eu.region.log(orders, 2).info.Ref
		eu.region.mu.Lock()
		eu.region.failOpen = func(r rhumb.PartitionRef) error {
			if down && r == ref {
				return rhumb.Errorf(rhumb.KindNotLeader, "no leader")
			}
			return nil
		}
		eu.region.mu.Unlock()
		eu.kill() // sessions open anew
		eu.start()
		for i := range 40 {
			us.produce(orders, i%4, 1, 100)
		}
		for _, p := range []int{0, 1, 3} {
			ms.untilCopied(us, eu, p)
		}
		eu.region.mu.Lock()
		down = false
		eu.region.mu.Unlock()
		ms.until("the leader is back", retryPauseMost+time.Second, func() bool { return copied(us, eu, orders, 2) })
	})
}

// TestG67NothingLoops: three regions that all send to each other, and no topic
// and no record more than were made.
func TestG67NothingLoops(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, short, names, func(ms *mesh) {
		ms.start()
		ms.nodes["us"].create(orders, 1)
		ms.until("all have the topic", 10*time.Second, func() bool {
			return len(ms.nodes["eu"].region.Topics()) == 1 && len(ms.nodes["ap"].region.Topics()) == 1
		})
		for _, n := range names {
			for range 10 {
				ms.nodes[n].produce(orders, 0, 1, 100)
			}
		}
		ms.pass(time.Minute)
		for _, n := range names {
			r := ms.nodes[n].region
			r.mu.Lock()
			if got := len(r.log(orders, 0).batches); got != 30 || len(r.topics) != 1 {
				ms.t.Errorf("%s has %d batches in %d topics, want 30 in 1", n, got, len(r.topics))
			}
			r.mu.Unlock()
		}
	})
}

func TestG77PartitionsComeBeforeRecords(t *testing.T) {
	pair(t, short, 2, func(ms *mesh, us, eu *node) {
		if _, err := us.region.GrowTopic(ms.net.ctx, orders, 5); err != nil {
			ms.t.Fatal(err)
		}
		us.produce(orders, 4, 3, 100)
		ms.untilCopied(us, eu, 4)
		if info, _ := eu.region.Topic(orders); len(info.Partitions) != 5 || len(eu.region.Topics()) != 1 {
			ms.t.Errorf("eu has %d topics, orders with %d partitions", len(eu.region.Topics()), len(info.Partitions))
		}
		// The smaller count never wins.
		eu.kill()
		eu.start()
		ms.pass(10 * time.Second)
		if info, _ := us.region.Topic(orders); len(info.Partitions) != 5 {
			ms.t.Errorf("us has %d partitions", len(info.Partitions))
		}
	})
}

func TestG82TopicCreationIsTriedAgain(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		tries := 0
		eu.region.failCreate = func(rhumb.Topic) error {
			if tries++; tries <= 5 {
				return rhumb.Errorf(rhumb.KindUnavailable, "too few nodes")
			}
			return nil
		}
		ms.start()
		us.create(orders, 1)
		us.produce(orders, 0, 1, 100)
		ms.until("eu has said that it lacks it", 20*time.Second, func() bool {
			f := us.flow("eu")
			return f.State == SessionStalled && f.Lag.Known && f.Lag.Records == 1
		})
		ms.until("copied", 20*time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

func TestG91BudgetIsPerNode(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, short, names, func(ms *mesh) {
		ms.limits.SendBudget = 1 << 20
		ms.limits.Read = 64 << 10
		ms.start()
		us := ms.nodes["us"]
		us.create(orders, 40)
		for _, n := range []rhumb.RegionName{"eu", "ap"} {
			r := ms.nodes[n].region
			ms.until("has the topic", 10*time.Second, func() bool { _, ok := r.Topic(orders); return ok })
			r.mu.Lock()
			r.delay = 3 * time.Second // slow targets
			r.mu.Unlock()
		}
		for i := range 400 {
			us.produce(orders, i%40, 1, 20000)
		}
		most := int64(0)
		ms.until("everything is copied", 10*time.Minute, func() bool {
			most = max(most, us.status().SendBytes)
			for p := range 40 {
				if !copied(us, ms.nodes["eu"], orders, p) || !copied(us, ms.nodes["ap"], orders, p) {
					return false
				}
			}
			return true
		})
		if most > 1<<20+64<<10 || most < 1<<19 {
			ms.t.Errorf("at most %d bytes were taken of a budget of %d", most, 1<<20)
		}
		ms.until("the budget is given back", time.Minute, func() bool { return us.status().SendBytes == 0 })
	})
}

func TestG94FreshDataGoesBeforeBacklog(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		eu.kill()
		us.stop()
		ms.limits.Rate = 100 << 10
		us.start()
		for range 60 {
			us.produce(orders, 0, 1, 100_000) // a minute of the link's rate
		}
		live := rhumb.Topic{Tenant: "public", Namespace: "default", Name: "live"}
		us.create(live, 1)
		ms.pass(time.Minute)
		eu.start()
		ms.until("the backlog flows", 20*time.Second, func() bool { return us.flow("eu").Confirmed >= 0 })
		for range 10 {
			us.produce(live, 0, 1, 1000)
			ms.until("new data passes the backlog", 8*time.Second, func() bool { return copied(us, eu, live, 0) })
		}
		if copied(us, eu, orders, 0) {
			ms.t.Error("the backlog came faster than the rate limit allows")
		}
		ms.until("the backlog is through as well", 2*time.Minute, func() bool { return copied(us, eu, orders, 0) })
	})
}

func TestDivergedStopsThatPartitionLoudly(t *testing.T) {
	pair(t, short, 2, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 3, 100)
		us.produce(orders, 1, 3, 100)
		ms.untilCopied(us, eu, 0)
		ms.untilCopied(us, eu, 1)
		eu.kill()
		us.region.edit(orders, 0, func(l *fakeLog) { // restored from an old copy
			l.batches, l.end, l.flushed, l.ownLast, l.ownChain = nil, 0, 0, rhumb.NoOffset, 0
		})
		us.produce(orders, 0, 3, 100)
		us.produce(orders, 1, 3, 100)
		eu.start()
		ms.untilCopied(us, eu, 1)
		ms.until("diverged is shown", 5*time.Second, func() bool { return us.flow("eu").State == SessionDiverged })
		if n := us.logs.count("logs have diverged"); n != 1 {
			ms.t.Errorf("logged %d times:\n%s", n, us.logs)
		}
		if got := len(eu.region.own(orders, 0, 1)); got != 1 {
			ms.t.Errorf("eu has %d batches, want the first one only", got)
		}
	})
}

// TestDivergedIsLoggedOnce: a partition whose logs have parted is tried again and again, with
// other offsets each time while producers go on, over new connections and, where a relay brings
// the same life, in turns with it. One line tells of it; tries are counted.
func TestDivergedIsLoggedOnce(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 3, 100)
		ms.untilCopied(us, eu, 0)
		eu.kill()
		us.region.edit(orders, 0, func(l *fakeLog) { // restored from an old copy
			l.batches, l.end, l.flushed, l.ownLast, l.ownChain = nil, 0, 0, rhumb.NoOffset, 0
		})
		us.produce(orders, 0, 3, 100)
		eu.start()
		ms.until("diverged is shown", time.Minute, func() bool { return us.flow("eu").State == SessionDiverged })
		for range 10 {
			us.produce(orders, 0, 1, 100)
			ms.pass(20 * time.Second)
		}
		f := us.manager.link("eu").all()[0]
		for range 5 { // as when the destination takes the life over another path, and lacks something again
			f.stand(session.Status{State: session.Standby, Text: "over ap"})
			ms.until("diverged again", 10*time.Minute, func() bool { return us.flow("eu").State == SessionDiverged })
		}
		if n := us.logs.count("logs have diverged"); n != 1 {
			ms.t.Errorf("logged %d times:\n%s", n, us.logs)
		}
		if tries := us.link("eu").DivergedTries; tries < 10 {
			ms.t.Errorf("%d tries are counted", tries)
		}
	})
}

func TestI4DestinationChecksThePolicy(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		view := &fakePolicy{regions: ms.policy.regions, edges: ms.policy.edges, docs: map[rhumb.Topic]configstore.Topic{}, subs: map[int]func(){}}
		eu.policy = view
		ms.start()
		us.create(orders, 1)
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		view.change(func() { view.edges = fullMesh("us", "eu")[1:] }) // eu knows of eu -> us only
		us.produce(orders, 0, 1, 100)
		ms.pass(20 * time.Second)
		if got := len(eu.region.own(orders, 0, 1)); got != 1 {
			ms.t.Errorf("eu took %d batches against its policy", got)
		}
		if f := us.flow("eu"); f.State != SessionRefused || f.LastError == "" {
			ms.t.Errorf("us shows %+v", f)
		}
		view.change(func() { view.edges = fullMesh("us", "eu") })
		ms.until("the edge is back", refusedRetryMost+time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

func TestI7RemovingAnEdgeStopsAndDeletesNothing(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		ms.policy.change(func() { ms.policy.edges = nil })
		us.produce(orders, 0, 1, 100)
		ms.pass(20 * time.Second)
		if got := len(eu.region.own(orders, 0, 1)); got != 1 || us.link("eu").State != LinkUnused {
			ms.t.Errorf("eu has %d batches, the link is %s", got, us.link("eu").State)
		}
		ms.policy.change(func() { ms.policy.edges = fullMesh("us", "eu") })
		ms.untilCopied(us, eu, 0) // goes on where it stopped
	})
}

// TestDeletionCount: what was born under a lower count never comes back, and what
// is made anew flows.
func TestDeletionCount(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		eu.kill()
		us.produce(orders, 0, 1, 100) // a backlog for a topic that is deleted meanwhile
		ms.policy.change(func() { ms.policy.docs[orders] = configstore.Topic{Topic: orders, Deletions: 1} })
		if err := eu.region.DeleteTopic(ms.net.ctx, orders, 1); err != nil {
			ms.t.Fatal(err)
		}
		eu.start()
		ms.pass(20 * time.Second)
		if _, ok := eu.region.Topic(orders); ok {
			ms.t.Error("the neighbour's backlog filled the deleted topic again")
		}
		if err := us.region.DeleteTopic(ms.net.ctx, orders, 1); err != nil {
			ms.t.Fatal(err)
		}
		us.create(orders, 2)
		us.produce(orders, 1, 4, 100)
		ms.untilCopied(us, eu, 1)
	})
}

func TestEdgeThatStartsLatest(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		for i := range ms.policy.edges {
			ms.policy.edges[i].Start = configstore.StartLatest
		}
		us.create(orders, 1)
		us.produce(orders, 0, 5, 100)
		ms.start()
		ms.until("the start is fixed", 10*time.Second, func() bool { return us.flow("eu").Confirmed == 4 })
		us.produce(orders, 0, 2, 100)
		ms.until("what comes after it flows", 5*time.Second, func() bool { return us.flow("eu").Confirmed == 6 })
		eu.region.edit(orders, 0, func(l *fakeLog) {
			if len(l.batches) != 1 || len(l.gaps) != 0 || l.mark(1, us.region.log(orders, 0).info.Life).Floor != 4 {
				ms.t.Errorf("eu has %d batches, gaps %v", len(l.batches), l.gaps)
			}
		})
	})
}

// TestI3StartInsideOfABatchCarriesItWhole: records were deleted from the middle of
// a batch before the edge started. A batch is never split, so it comes whole.
func TestI3StartInsideOfABatchCarriesItWhole(t *testing.T) {
	inBubble(t, short, usEu, func(ms *mesh) {
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		us.create(orders, 1)
		us.produce(orders, 0, 3, 100)
		us.produce(orders, 0, 4, 100)
		us.produce(orders, 0, 2, 100)
		us.region.edit(orders, 0, func(l *fakeLog) {
			l.batches = l.batches[1:]
			l.logStart, l.ownFloor = 5, 4
		})
		ms.start()
		ms.until("eu has the rest", 10*time.Second, func() bool { return us.flow("eu").Confirmed == 8 })
		eu.region.edit(orders, 0, func(l *fakeLog) {
			if len(l.batches) != 2 || l.batches[0].Envelope.First != 3 || len(l.gaps) != 0 {
				ms.t.Errorf("eu has %d batches, gaps %v", len(l.batches), l.gaps)
			}
		})
	})
}

// TestG43GrowthWakesEveryLink: while a session of one link is busy with a
// partition, the link on which it was idle learns that it grew.
func TestG43GrowthWakesEveryLink(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		us.create(orders, 1)
		ms.start()
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") && ms.linked("us", "ap") })
		ap.region.mu.Lock()
		ap.region.mute = true
		ap.region.mu.Unlock()
		us.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		ms.pass(14 * time.Second) // the session to eu closes, the one to ap waits for its answer
		if f := us.flow("ap"); f.State != SessionFlowing {
			ms.t.Fatalf("the session to ap is %s", f.State)
		}
		us.produce(orders, 0, 1, 100)
		ms.until("eu has the second record", time.Second, func() bool { return copied(us, eu, orders, 0) })
	})
}

// TestI3WatermarkReachesTheEndOverOthersRecords: in a log that holds only records
// of others, a watermark of its own life follows its end: late, since that is said of
// tens of thousands of logs, but it does.
func TestI3WatermarkReachesTheEndOverOthersRecords(t *testing.T) {
	inBubble(t, short, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		us.create(orders, 1)
		ms.start()
		followed := func() bool {
			log := ap.region.log(orders, 0)
			if log == nil || eu.region.log(orders, 0) == nil {
				return false
			}
			end := rhumb.NoOffset
			ap.region.edit(orders, 0, func(l *fakeLog) { end = l.end - 1 })
			at := rhumb.NoOffset
			eu.region.edit(orders, 0, func(l *fakeLog) { at = l.mark(3, log.info.Life).Offset })
			return end > 0 && at == end
		}
		for range 3 {
			us.produce(orders, 0, 5, 100)
			ms.until("ap's watermark follows", barrenEvery+10*time.Second, func() bool { return copied(us, ap, orders, 0) && followed() })
			ms.pass(time.Minute) // until the sessions have closed
		}
		for range 120 { // and while others never rest
			us.produce(orders, 0, 1, 100)
			ms.pass(500 * time.Millisecond)
		}
		eu.region.edit(orders, 0, func(l *fakeLog) {
			if at := l.mark(3, ap.region.log(orders, 0).info.Life).Offset; at < 60 {
				ms.t.Errorf("under traffic of others, ap's watermark stayed at %d", at)
			}
		})
	})
}

// TestI12NothingUnflushedLeaves: what the region may still forget stays in it.
func TestI12NothingUnflushedLeaves(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.region.edit(orders, 0, func(l *fakeLog) { l.held = true })
		us.produce(orders, 0, 3, 100)
		ms.pass(10 * time.Second)
		if got := eu.region.own(orders, 0, 1); len(got) > 0 {
			ms.t.Errorf("%d unflushed batches left", len(got))
		}
		us.region.edit(orders, 0, func(l *fakeLog) { l.held, l.flushed = false, l.end })
		ms.untilCopied(us, eu, 0)
	})
}

// TestIdleSessionsClose: what has nothing to send costs no session, and wakes up.
func TestIdleSessionsClose(t *testing.T) {
	pair(t, short, 8, func(ms *mesh, us, eu *node) {
		for p := range 8 {
			us.produce(orders, p, 1, 100)
		}
		ms.pass(30 * time.Second)
		if in := eu.link("us").Inbound; len(in) != 0 {
			ms.t.Errorf("%d sessions are open in a quiet mesh", len(in))
		}
		us.produce(orders, 3, 1, 100)
		ms.until("it wakes up", time.Second, func() bool { return copied(us, eu, orders, 3) })
	})
}

// TestEmptyTopicsCostNoSession: a topic that never had a record is in both regions
// without a session; the first record opens one, and who is idle is not looked at.
func TestEmptyTopicsCostNoSession(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		many := orders
		many.Name = "many"
		us.create(many, 1000)
		ms.everywhere(many, 1000)
		ms.pass(100 * time.Millisecond)
		for _, n := range []*node{us, eu} {
			for _, p := range n.link(peerOf(n)).Partitions {
				if p.Topic == many && (p.State != SessionIdle || p.Lag != (Lag{Known: true})) {
					ms.t.Fatalf("%s shows %+v of an empty partition", n.self.Name, p)
				}
			}
			if in := n.link(peerOf(n)).Inbound; len(in) > 1 { // that of the other topic
				ms.t.Errorf("%s has %d sessions", n.self.Name, len(in))
			}
		}
		before := us.region.asked.Load()
		us.produce(many, 17, 1, 100)
		ms.until("the first record came", time.Second, func() bool { return copied(us, eu, many, 17) })
		if n := us.region.asked.Load() - before; n > 20 {
			ms.t.Errorf("one record had partitions looked at %d times", n)
		}
	})
}

func peerOf(n *node) rhumb.RegionName {
	if n.self.Name == "us" {
		return "eu"
	}
	return "us"
}

// TestForeignTailIsPassed: where the log ends in others' records, the watermark
// still reaches the end.
func TestForeignTailIsPassed(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 2, 100)
		ms.untilCopied(us, eu, 0)
		for range 5 {
			eu.produce(orders, 0, 1, 100)
		}
		ms.untilCopied(eu, us, 0)
		ms.until("the watermark is at the end", 10*time.Second, func() bool {
			st, _ := us.region.State(us.region.log(orders, 0).info.Ref)
			mark := dedup.Watermark{}
			eu.region.edit(orders, 0, func(l *fakeLog) { mark = l.mark(1, st.Life) })
			return mark.Offset == st.End-1 && mark.Floor == rhumb.NoOffset
		})
	})
}

func TestLargeBatchAlone(t *testing.T) {
	pair(t, relay.Settings{Delay: 50 * time.Millisecond}, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 20<<20) // more than a window
		us.produce(orders, 0, 1, 10)
		ms.until("copied", 2*time.Minute, func() bool { return copied(us, eu, orders, 0) })
		if l := us.link("eu"); l.Rebuilds != 0 || l.SendRate < 0 || !slices.ContainsFunc(l.Partitions, func(p PartitionStatus) bool { return p.Lag.Known }) {
			ms.t.Errorf("link shows %+v", l)
		}
	})
}

// TestI4TopicsOwnTopologyReplacesTheNamespaces: a topic that is kept local crosses
// no edge of its namespace, one with edges of its own crosses only those, and both
// go on where they stopped when the topology is taken away again.
func TestI4TopicsOwnTopologyReplacesTheNamespaces(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 1, 100)
		eu.produce(orders, 0, 1, 100)
		ms.untilCopied(us, eu, 0)
		ms.untilCopied(eu, us, 0)
		own := func(edges ...configstore.Edge) func() {
			return func() {
				ms.policy.docs[orders] = configstore.Topic{Topic: orders, Topology: &configstore.Topology{FullMesh: []rhumb.RegionName{}}}
				ms.policy.edges = append(fullMesh("us", "eu"), edges...)
			}
		}
		ms.policy.change(own())
		us.produce(orders, 0, 1, 100)
		ms.pass(20 * time.Second)
		if got := len(eu.region.own(orders, 0, 1)); got != 1 {
			ms.t.Errorf("eu has %d batches of a topic that is local", got)
		}
		ms.policy.change(own(configstore.Edge{Tenant: "public", Namespace: "default", Topic: orders.Name, From: "us", To: "eu"}))
		eu.produce(orders, 0, 1, 100)
		ms.until("its own edge carries", refusedRetryMost+time.Second, func() bool { return copied(us, eu, orders, 0) })
		ms.pass(20 * time.Second)
		if got := len(us.region.own(orders, 0, 2)); got != 1 {
			ms.t.Errorf("us has %d batches against the topic's topology", got)
		}
		ms.policy.change(func() { delete(ms.policy.docs, orders); ms.policy.edges = fullMesh("us", "eu") })
		ms.untilCopied(eu, us, 0)
	})
}
