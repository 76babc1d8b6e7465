package replicator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// refuseAt makes a region refuse every batch of orders that begins at an offset of
// its origin, until the function that is given is called.
func (n *node) refuseAt(offset rhumb.Offset) (stop func()) {
	on := true
	n.region.mu.Lock()
	defer n.region.mu.Unlock()
	n.region.failAppend = func(_ rhumb.PartitionRef, e *codec.Envelope) error {
		if on && e.First == offset {
			return rhumb.Errorf(rhumb.KindInvalid, "not this one")
		}
		return nil
	}
	return func() {
		n.region.mu.Lock()
		defer n.region.mu.Unlock()
		on = false
	}
}

// flowOf gives what a region says of one partition's flow.
func (n *node) flowOf(peer rhumb.RegionName, partition int32) PartitionStatus {
	for _, l := range n.manager.Status().Links {
		for _, p := range l.Partitions {
			if l.Peer == peer && p.Partition == partition {
				return p
			}
		}
	}
	return PartitionStatus{}
}

// TestG07G17RefusedBatchStopsItsPartitionOnly: what the destination will not have
// stops its partition, with place and reason, and no other one; a retry goes on once
// it will, and nothing is skipped by itself.
func TestG07G17RefusedBatchStopsItsPartitionOnly(t *testing.T) {
	pair(t, short, 2, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 3, 100)
		us.produce(orders, 1, 3, 100)
		ms.untilCopied(us, eu, 0)
		stop := eu.refuseAt(5)
		us.produce(orders, 0, 2, 100) // 3, 4
		us.produce(orders, 0, 2, 100) // 5, 6
		us.produce(orders, 0, 2, 100) // 7, 8
		us.produce(orders, 1, 2, 100)
		ms.untilCopied(us, eu, 1)
		ms.until("refused", 5*time.Second, func() bool { return us.flowOf("eu", 0).State == SessionRefused })
		for range 20 { // it stays so while it is tried again
			ms.pass(7 * time.Second)
			f := us.flowOf("eu", 0)
			if f.State != SessionRefused || f.Refused == nil || f.Refused.At != 5 || f.Refused.Code != wire.CodeInvalid ||
				!strings.Contains(f.Refused.Text, "not this one") || f.Lag.Records != 4 || f.Confirmed != 4 || f.Sent < 4 {
				ms.t.Fatalf("flow %+v, refused %+v", f, f.Refused)
			}
		}
		stop()
		if done, err := us.manager.Retry("eu", &rhumb.Partition{Topic: orders}); done != (Retried{Flows: 1, Partitions: 1, Waiting: 1}) || err != nil {
			ms.t.Fatalf("retry: %+v, %v", done, err)
		}
		ms.until("it goes on at once", 2*time.Second, func() bool { return copied(us, eu, orders, 0) })
		ms.until("it shows", 2*time.Second, func() bool { f := us.flowOf("eu", 0); return f.State == SessionIdle && f.Refused == nil })
		if done, err := us.manager.Retry("eu", nil); done != (Retried{Flows: 2, Partitions: 2}) || err != nil {
			ms.t.Errorf("retry where nothing waits: %+v, %v", done, err)
		}
		ms.cut("us", "eu", relay.Settings{Cut: true})
		ms.until("cut", 30*time.Second, func() bool { return us.link("eu").State == LinkDisconnected })
		if done, err := us.manager.Retry("eu", nil); !done.Dialled || done.Partitions != 2 || err != nil {
			ms.t.Errorf("retry without a connection: %+v, %v", done, err)
		}
	})
}

// TestSteeringNamesTheNearestRegion: who mistypes a region is told which may be meant, by
// each command that steers a link, and who names the region that is asked is told that.
func TestSteeringNamesTheNearestRegion(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, _ *node) {
		for peer, want := range map[rhumb.RegionName]string{"eur": "nearest: eu", "us": "is the one that is asked"} {
			ctx, m := context.Background(), us.manager
			_, skip := m.Skip(ctx, SkipRequest{Peer: peer, Partition: rhumb.Partition{Topic: orders}, To: 1}, true)
			_, check := m.Check(ctx, peer)
			_, retry := m.Retry(peer, nil)
			for what, err := range map[string]error{"skip": skip, "check": check, "retry": retry,
				"pause": m.Pause(ctx, peer, rhumb.Space{}, "ann"), "resume": m.Resume(ctx, peer, rhumb.Space{})} {
				if err == nil || !strings.Contains(err.Error(), want) {
					ms.t.Errorf("%s of %s: %v, want %q", what, peer, err, want)
				}
			}
		}
	})
}

// TestG17SkipIsAnOperatorsAct: an operator skips the refused batch. The destination
// keeps a gap that says so and by whom, and goes on behind it; a skip that is asked
// for inside a batch, or while nobody can confirm it, changes nothing.
func TestG17SkipIsAnOperatorsAct(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 3, 100)
		ms.untilCopied(us, eu, 0)
		eu.refuseAt(3)
		us.produce(orders, 0, 2, 100) // 3, 4
		us.produce(orders, 0, 2, 100) // 5, 6
		ms.until("refused", 5*time.Second, func() bool { return us.flow("eu").State == SessionRefused })
		ask := func(to rhumb.Offset, dry bool) (SkipResult, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return us.manager.Skip(ctx, SkipRequest{Peer: "eu", Partition: rhumb.Partition{Topic: orders}, To: to, By: "ann"}, dry)
		}
		if _, err := ask(4, false); rhumb.KindOf(err) != rhumb.KindInvalid || !strings.Contains(err.Error(), "3 or 5") {
			ms.t.Errorf("inside a batch: %v", err)
		}
		if _, err := ask(8, false); rhumb.KindOf(err) != rhumb.KindInvalid {
			ms.t.Errorf("past the end: %v", err)
		}
		if r, err := ask(5, true); err != nil || r.Done || r.From != 3 || r.To != 4 {
			ms.t.Errorf("dry: %+v, %v", r, err)
		}
		ms.cut("us", "eu", relay.Settings{Cut: true})
		if _, err := ask(5, false); rhumb.KindOf(err) != rhumb.KindTimeout && rhumb.KindOf(err) != rhumb.KindUnavailable {
			ms.t.Errorf("over a cut line: %v", err)
		}
		ms.cut("us", "eu", short)
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") && us.flow("eu").State == SessionRefused })
		if r, err := ask(5, false); err != nil || !r.Done || r.From != 3 || r.To != 4 {
			ms.t.Fatalf("skip: %+v, %v", r, err)
		}
		ms.until("eu has the rest", 5*time.Second, func() bool { return us.flow("eu").Confirmed == 6 })
		eu.region.edit(orders, 0, func(l *fakeLog) {
			if len(l.gaps) != 1 || l.gaps[0].From != 2 || l.gaps[0].To != 4 || l.gaps[0].Reason != rhumb.ReasonSkipped || l.gaps[0].By != "ann" {
				ms.t.Errorf("gaps %+v", l.gaps)
			}
		})
		if r, err := ask(5, false); err != nil || r.From <= r.To {
			ms.t.Errorf("again: %+v, %v", r, err)
		}
	})
}

// TestPausedEdgeSurvivesRestarts: what an operator paused stays so over restarts and
// reconnects, is seen at both ends and in the lag, and goes on when resumed.
func TestPausedEdgeSurvivesRestarts(t *testing.T) {
	pair(t, short, 2, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, 3, 100)
		ms.untilCopied(us, eu, 0)
		must := func(err error) {
			ms.t.Helper()
			if err != nil {
				ms.t.Fatal(err)
			}
		}
		space := orders.Space()
		must(us.manager.Pause(context.Background(), "eu", space, "ann"))
		ms.until("paused", time.Second, func() bool {
			return us.flowOf("eu", 0).State == SessionPaused && us.flowOf("eu", 1).State == SessionPaused
		})
		us.produce(orders, 0, 2, 100)
		eu.produce(orders, 0, 1, 100) // the other direction flows
		ms.untilCopied(eu, us, 0)
		check := func() {
			ms.t.Helper()
			f := us.flowOf("eu", 0)
			if f.State != SessionPaused || f.Lag.Records < 2 || copied(us, eu, orders, 0) {
				ms.t.Fatalf("flow %+v", f)
			}
			links := us.manager.Status().Links
			if len(links[0].Pauses) != 1 || links[0].Pauses[0].By != "ann" || links[0].Pauses[0].Space != space {
				ms.t.Fatalf("us says %+v", links[0].Pauses)
			}
			there := eu.manager.Status().Links[0].PeerPauses
			if len(there) != 1 || there[0].Space != space {
				ms.t.Fatalf("eu says %+v", there)
			}
		}
		ms.pass(time.Minute)
		check()
		us.kill()
		us.start()
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("us", "eu") })
		ms.pass(time.Minute)
		check()
		if err := us.manager.Pause(context.Background(), "eu", space, "bob"); err != nil {
			ms.t.Fatal(err)
		}
		ms.pass(time.Second)
		check() // paused again, it stays as it was
		_, err := us.skipTo("eu", "", 5, true)
		ms.wantRefusal(err, rhumb.KindInvalid, "'rhumb link resume eu --namespace "+space.String()+" --region us' first")
		must(us.manager.Pause(context.Background(), "eu", rhumb.Space{}, "bob"))
		_, err = us.skipTo("eu", "", 5, true)
		ms.wantRefusal(err, rhumb.KindInvalid, "'rhumb link resume eu --region us' first")
		must(us.manager.Resume(context.Background(), "eu", rhumb.Space{}))
		ms.untilCopied(us, eu, 0)
		ms.until("eu is told", 2*time.Second, func() bool { return len(eu.manager.Status().Links[0].PeerPauses) == 0 })
		if err := us.manager.Resume(context.Background(), "eu", space); rhumb.KindOf(err) != rhumb.KindNotFound {
			ms.t.Errorf("resumed twice: %v", err)
		}
	})
}

// TestPauseAndResumeUnderLoad: pauses that come and go while records flow lose and
// double nothing.
func TestPauseAndResumeUnderLoad(t *testing.T) {
	pair(t, relay.Settings{Delay: 20 * time.Millisecond, Loss: .02}, 2, func(ms *mesh, us, eu *node) {
		for i := range 200 {
			us.produce(orders, i%2, 1+i%3, 2000)
			switch i % 20 {
			case 5:
				_ = us.manager.Pause(context.Background(), "eu", rhumb.Space{}, "ann")
			case 6, 15:
				_ = us.manager.Resume(context.Background(), "eu", rhumb.Space{})
			case 14:
				_ = us.manager.Pause(context.Background(), "eu", orders.Space(), "ann")
			}
			ms.pass(time.Duration(i%7) * 50 * time.Millisecond)
		}
		_ = us.manager.Resume(context.Background(), "eu", rhumb.Space{})
		for p := range 2 {
			ms.untilCopied(us, eu, p)
		}
		ms.until("no lag", 5*time.Second, func() bool {
			return us.flowOf("eu", 0).Lag == Lag{Known: true} && us.flowOf("eu", 0).State == SessionIdle
		})
	})
}

// rateMesh is pair with a limit on the edge from us to eu.
func limited(t *testing.T, rate int64, story func(ms *mesh, us, eu *node, set func(int64))) {
	pair(t, short, 4, func(ms *mesh, us, eu *node) {
		set := func(rate int64) {
			ms.policy.change(func() {
				edges := fullMesh("us", "eu")
				for i := range edges {
					if edges[i].From == "us" {
						edges[i].Rate = rate
					}
				}
				ms.policy.edges = edges
			})
		}
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		set(rate)
		ms.pass(time.Second)
		story(ms, us, eu, set)
	})
}

// confirmedBytes is what the peer has confirmed since us started.
func (n *node) confirmedBytes() int64 { return int64(n.manager.Status().Links[0].ConfirmedBytes) }

// TestG94EdgeRateLimitsABacklog: an edge carries no more than its limit, partitions
// get fair shares of it, new data goes first, the state says why it is slow, and a
// new limit holds at once, without a restart.
func TestG94EdgeRateLimitsABacklog(t *testing.T) {
	limited(t, 100_000, func(ms *mesh, us, eu *node, set func(int64)) {
		before := us.confirmedBytes()
		for i := range 800 { // 200 each
			us.produce(orders, i%4, 1, 10_000)
		}
		ms.pass(20 * time.Second)
		if got := us.confirmedBytes() - before; got < 1_700_000 || got > 2_400_000 {
			ms.t.Errorf("%d bytes in 20 s at 100 kB/s", got)
		}
		for p := range int32(4) {
			f := us.flowOf("eu", p)
			if f.Confirmed < 35 || f.Confirmed > 70 {
				ms.t.Errorf("partition %d has got %d of 200: not a fair share", p, f.Confirmed+1)
			}
			if !f.Limited || f.State != SessionFlowing {
				ms.t.Errorf("partition %d shows %s, limited %v", p, f.State, f.Limited)
			}
		}
		set(2_000_000)
		ms.until("the new limit holds", 8*time.Second, func() bool { return copied(us, eu, orders, 0) && copied(us, eu, orders, 3) })
		set(0)
		us.produce(orders, 0, 100, 1000)
		ms.untilCopied(us, eu, 0)
		ms.until("nothing limits", 5*time.Second, func() bool { return !us.flowOf("eu", 0).Limited })
	})
}

// TestG94ALowLimitIsShownAllTheTime: what waits for seconds between two turns shows why
// while it waits, not only after that.
func TestG94ALowLimitIsShownAllTheTime(t *testing.T) {
	limited(t, 2000, func(ms *mesh, us, eu *node, set func(int64)) {
		for range 60 {
			us.produce(orders, 0, 1, 1000)
		}
		ms.until("it waits", 10*time.Second, func() bool { return us.flowOf("eu", 0).Limited })
		for second := range 12 {
			ms.pass(time.Second)
			if f := us.flowOf("eu", 0); !f.Limited || f.State != SessionFlowing || f.Lag.Records == 0 {
				ms.t.Errorf("after %d s it shows %s, limited %v, lag %+v", second+1, f.State, f.Limited, f.Lag)
			}
		}
		set(0)
		ms.untilCopied(us, eu, 0)
		ms.until("nothing limits", 5*time.Second, func() bool { return !us.flowOf("eu", 0).Limited })
	})
}

// TestG94NewDataPassesALimitedBacklog: where the limit of the edge is what all wait
// for, new records of one partition do not wait for the backlog of the others.
func TestG94NewDataPassesALimitedBacklog(t *testing.T) {
	limited(t, 50_000, func(ms *mesh, us, eu *node, _ func(int64)) {
		for i := range 600 {
			us.produce(orders, i%3, 1, 10_000)
		}
		ms.pass(10 * time.Second) // it is a backlog now
		for range 5 {
			us.produce(orders, 3, 1, 100)
			ms.until("new data there", 6*time.Second, func() bool { return copied(us, eu, orders, 3) })
			ms.pass(time.Second)
		}
		if copied(us, eu, orders, 0) {
			ms.t.Error("the backlog is gone: nothing was shown")
		}
	})
}

// skipTo asks a region for a skip, as an operator would.
func (n *node) skipTo(peer, origin rhumb.RegionName, to rhumb.Offset, dry bool) (SkipResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.manager.Skip(ctx, SkipRequest{Peer: peer, Partition: rhumb.Partition{Topic: orders}, Origin: origin, To: to, By: "ann"}, dry)
}

// wantRefusal checks that an error is of a kind and says what to do.
func (ms *mesh) wantRefusal(err error, kind rhumb.Kind, text string) {
	ms.t.Helper()
	if rhumb.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		ms.t.Errorf("%v, want %v with %q", err, kind, text)
	}
}

// TestG17SkipAtARelay: in a chain the last region refuses a batch of the first one. The
// origin says where to skip it, and the relay does: a gap in the last region, and the
// rest behind it; the relay keeps the batch.
func TestG17SkipAtARelay(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, short, names, func(ms *mesh) {
		ms.policy.edges = chainOf(names...)
		ms.start()
		ms.ready("us")
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		us.produce(orders, 0, 3, 100)
		ms.brings("us", 20*time.Second, "eu", "ap")
		ap.refuseAt(3)
		us.produce(orders, 0, 2, 100) // 3, 4
		us.produce(orders, 0, 2, 100) // 5, 6
		ms.until("refused", 10*time.Second, func() bool { return eu.forwarded("ap").State == SessionRefused })
		_, err := us.skipTo("ap", "", 5, false)
		ms.wantRefusal(err, rhumb.KindNotFound, "rhumb link skip ap orders --origin us --partition 0 --to 5 --region eu")
		_, err = eu.skipTo("ap", "", 5, false)
		ms.wantRefusal(err, rhumb.KindInvalid, "was published by region us: say --origin us")
		_, err = eu.skipTo("ap", "sa", 5, false)
		ms.wantRefusal(err, rhumb.KindNotFound, "nothing that region sa published goes from here")
		_, err = eu.skipTo("ap", "us", 4, false)
		ms.wantRefusal(err, rhumb.KindInvalid, "3 or 5")
		_, err = eu.skipTo("ap", "us", 8, false)
		ms.wantRefusal(err, rhumb.KindInvalid, "lies below 7")
		if r, err := eu.skipTo("ap", "us", 5, true); err != nil || r.Done || r.From != 3 || r.To != 4 {
			ms.t.Errorf("dry: %+v, %v", r, err)
		}
		ms.cut("eu", "ap", relay.Settings{Cut: true})
		if _, err := eu.skipTo("ap", "us", 5, false); rhumb.KindOf(err) != rhumb.KindTimeout && rhumb.KindOf(err) != rhumb.KindUnavailable {
			ms.t.Errorf("over a cut line: %v", err)
		}
		ms.cut("eu", "ap", short)
		ms.until("linked", 10*time.Second, func() bool { return ms.linked("eu", "ap") && eu.forwarded("ap").State == SessionRefused })
		if r, err := eu.skipTo("ap", "us", 5, false); err != nil || !r.Done || r.From != 3 || r.To != 4 {
			ms.t.Fatalf("skip: %+v, %v", r, err)
		}
		ms.until("ap has the rest", 10*time.Second, func() bool { return eu.forwarded("ap").Confirmed == 6 })
		gaps := ap.gapsOf()
		if len(gaps) != 1 || gaps[0].From != 2 || gaps[0].To != 4 || gaps[0].Reason != rhumb.ReasonSkipped || gaps[0].By != "ann" {
			ms.t.Errorf("gaps %+v", gaps)
		}
		if gaps := eu.gapsOf(); len(gaps) > 0 {
			ms.t.Errorf("eu has gaps %+v", gaps)
		}
		if r, err := eu.skipTo("ap", "us", 5, false); err != nil || r.From <= r.To {
			ms.t.Errorf("again: %+v, %v", r, err)
		}
	})
}

// TestG17SkipIsPassedOnWithItsName: a skip on the first edge of a chain is a gap in both
// regions behind it, with the name of who asked.
func TestG17SkipIsPassedOnWithItsName(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, short, names, func(ms *mesh) {
		ms.policy.edges = chainOf(names...)
		ms.start()
		ms.ready("us")
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		us.produce(orders, 0, 3, 100)
		ms.brings("us", 20*time.Second, "eu", "ap")
		eu.refuseAt(3)
		us.produce(orders, 0, 2, 100) // 3, 4
		us.produce(orders, 0, 2, 100) // 5, 6
		ms.until("refused", 10*time.Second, func() bool { return us.flow("eu").State == SessionRefused })
		if r, err := us.skipTo("eu", "us", 5, false); err != nil || !r.Done {
			ms.t.Fatalf("skip: %+v, %v", r, err)
		}
		ms.until("ap has the rest", 10*time.Second, func() bool { return eu.forwarded("ap").Confirmed == 6 })
		for _, n := range []*node{eu, ap} {
			if gaps := n.gapsOf(); len(gaps) != 1 || gaps[0].To != 4 || gaps[0].Reason != rhumb.ReasonSkipped || gaps[0].By != "ann" {
				ms.t.Errorf("%s has gaps %+v", n.self.Name, gaps)
			}
		}
	})
}

// TestG17SkipOnEveryPath: a batch that comes over two relays is skipped at both: the one
// that is asked first names the other. Where its origin has an edge, it decides.
func TestG17SkipOnEveryPath(t *testing.T) {
	inBubble(t, short, diamondNames, func(ms *mesh) {
		ms.policy.edges = diamond()
		ms.start()
		ms.ready("us")
		us, sa := ms.nodes["us"], ms.nodes["sa"]
		us.produce(orders, 0, 1, 100)
		ms.brings("us", 20*time.Second, "eu", "ap", "sa")
		sa.refuseAt(1)
		us.produce(orders, 0, 2, 100) // 1, 2
		us.produce(orders, 0, 2, 100) // 3, 4
		ms.brings("us", 20*time.Second, "eu", "ap")
		ms.pass(time.Minute) // both are tried
		named := false
		ms.until("it is skipped on both", 5*time.Minute, func() bool {
			for _, relay := range []rhumb.RegionName{"eu", "ap"} {
				r, err := ms.nodes[relay].skipTo("sa", "us", 3, false)
				if r.Done || err == nil && r.From > r.To {
					return true
				}
				named = named || rhumb.KindOf(err) == rhumb.KindInvalid && strings.Contains(err.Error(), "skipped there, too")
			}
			return false
		})
		ms.until("sa has the rest", time.Minute, func() bool {
			w, ok := ms.nodes["eu"].forwarded("sa"), true
			return ok && w.Confirmed == 4
		})
		if gaps := sa.gapsOf(); len(gaps) != 1 || gaps[0].To != 2 || gaps[0].Reason != rhumb.ReasonSkipped {
			ms.t.Errorf("gaps %+v", gaps)
		}
		if !named {
			ms.t.Error("no relay named the other path")
		}
		ms.policy.change(func() { ms.policy.edges = append(diamond(), edge("us", "sa", false)) })
		ms.pass(time.Second)
		_, err := ms.nodes["eu"].skipTo("sa", "us", 5, true)
		ms.wantRefusal(err, rhumb.KindInvalid, "rhumb link skip sa orders --partition 0 --to 5 --region us")
	})
}

// forwarded gives what a region says of the flow of others' records to a peer.
func (n *node) forwarded(peer rhumb.RegionName) PartitionStatus {
	for _, l := range n.manager.Status().Links {
		for _, p := range l.Partitions {
			if l.Peer == peer && p.Forwarded {
				return p
			}
		}
	}
	return PartitionStatus{}
}
