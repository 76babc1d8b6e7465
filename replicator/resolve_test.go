package replicator

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// restore puts a node's orders back to its first n own batches.
func (n *node) restore(batches int) {
	n.region.edit(orders, 0, func(l *fakeLog) {
		last := l.batches[batches-1]
		l.batches = l.batches[:batches:batches]
		l.ownLast, l.ownChain = last.Envelope.Last, last.Envelope.Chain
		l.end, l.flushed = last.Last()+1, last.Last()+1
	})
}

// once reports whether each own batch of from is in to exactly once, in order,
// whatever life names it.
func once(from, to *node) bool {
	theirs := to.region.own(orders, 0, from.self.Number)
	next := 0
	for _, b := range from.region.own(orders, 0, from.self.Number) {
		found := 0
		for i := range theirs {
			if bytes.Equal(theirs[i].Batch[21:], b.Batch[21:]) {
				found++
				if i < next {
					return false
				}
				next = i
			}
		}
		if found != 1 {
			return false
		}
	}
	return true
}

// settledFlows reports whether all flows of a node say that nothing is missing.
func settledFlows(n *node) bool {
	for _, l := range n.status().Links {
		for _, p := range l.Partitions {
			if p.State != SessionClosed && (p.State != SessionIdle || !p.Lag.Known || p.Lag.Records != 0) {
				return false
			}
		}
	}
	return true
}

var ordersZero = rhumb.Partition{Topic: orders}

// parted makes a mesh in which us was restored to 25 of 40 batches and has written
// on. eu has the 40; ap had 10 and has followed the restored log.
func parted(t *testing.T, s relay.Settings, test func(ms *mesh, us, eu, ap *node)) {
	inBubble(t, s, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		ms.start()
		us.create(orders, 1)
		for i := range 40 {
			us.produce(orders, 0, 1+i%3, 200)
			if i == 9 {
				ms.untilCopied(us, ap, 0)
				ap.kill()
			}
		}
		ms.untilCopied(us, eu, 0)
		us.kill()
		us.restore(25)
		for range 5 {
			us.produce(orders, 0, 2, 200)
		}
		ap.start()
		us.start()
		ms.untilCopied(us, ap, 0)
		ms.until("diverged is shown", 10*time.Second, func() bool { return us.flow("eu").State == SessionDiverged })
		test(ms, us, eu, ap)
	})
}

func resolve(ms *mesh, n *node, dry bool) Resolution {
	ms.t.Helper()
	r, err := n.manager.Resolve(context.Background(), ordersZero, rhumb.Life{}, dry)
	if err != nil {
		ms.t.Fatal(err)
	}
	return r
}

// TestI3ResolveDivergence: an operator gives the restored source a new life. What
// eu does not have of the log comes under it, once; ap, which never differed, gets
// nothing twice.
func TestI3ResolveDivergence(t *testing.T) {
	parted(t, relay.Settings{Delay: 40 * time.Millisecond, Loss: .01}, func(ms *mesh, us, eu, ap *node) {
		had := len(eu.region.own(orders, 0, 1))
		plan := resolve(ms, us, true)
		fork := us.region.own(orders, 0, 1)[24].Envelope.Last
		if plan.Done || !plan.Exact || plan.Last != fork || len(plan.Destinations) != 1 || plan.Destinations[0].Region != "eu" {
			ms.t.Fatalf("plan %+v, the logs part behind %d", plan, fork)
		}
		if eu.region.own(orders, 0, 1)[had-1].Envelope.Life != plan.Life {
			ms.t.Fatal("the plan changed something")
		}
		done := resolve(ms, us, false)
		if !done.Done || done.Life != plan.Life || done.New == plan.Life || done.Last != fork {
			ms.t.Fatalf("done %+v", done)
		}
		us.produce(orders, 0, 3, 200)
		for _, to := range []*node{eu, ap} {
			ms.until(string(to.self.Name)+" has the log once", 20*time.Second, func() bool { return once(us, to) })
		}
		ms.until("nothing is missing", 10*time.Second, func() bool { return settledFlows(us) })
		if got := len(eu.region.own(orders, 0, 1)); got != had+6 {
			ms.t.Errorf("eu has %d batches, want the %d that it had and 6: what the source forgot stays", got, had)
		}
		if r, err := us.manager.Resolve(context.Background(), ordersZero, plan.Life, false); rhumb.KindOf(err) != rhumb.KindNotFound {
			ms.t.Errorf("a second time: %+v, %v", r, err)
		}
	})
}

// TestResolveWhileTheLinkIsDown: the command needs no link, and a source that ends
// right after it goes on where it was.
func TestResolveWhileTheLinkIsDown(t *testing.T) {
	parted(t, short, func(ms *mesh, us, eu, ap *node) {
		eu.kill()
		ms.until("the link is down", 10*time.Second, func() bool { return us.flow("eu").State == SessionDisconnected })
		first := us.region.own(orders, 0, 1)[0].Envelope.Life
		resolve(ms, us, false)
		us.kill()
		for range 3 {
			us.produce(orders, 0, 1, 200)
		}
		eu.start()
		us.start()
		for _, to := range []*node{eu, ap} {
			ms.until(string(to.self.Name)+" has the log once", 20*time.Second, func() bool { return once(us, to) })
		}
		ms.until("nothing is missing", 10*time.Second, func() bool { return settledFlows(us) })
		if life := us.region.own(orders, 0, 1)[0].Envelope.Life; life != first {
			ms.t.Errorf("the first batch's life became %s", life)
		}
	})
}

// TestResolveTwice: a second restore after the first was resolved, to a place
// before the first fork: each destination goes on from where it agrees.
func TestResolveTwice(t *testing.T) {
	parted(t, short, func(ms *mesh, us, eu, ap *node) {
		resolve(ms, us, false)
		ms.until("eu has the log once", 20*time.Second, func() bool { return once(us, eu) })
		us.kill()
		us.restore(28)
		us.produce(orders, 0, 2, 200)
		us.start()
		ms.until("diverged from both", 20*time.Second, func() bool {
			d := us.manager.Diverged()
			return len(d) == 1 && len(d[0].Destinations) == 2
		})
		resolve(ms, us, false)
		us.produce(orders, 0, 1, 200)
		for _, to := range []*node{eu, ap} {
			ms.until(string(to.self.Name)+" has the log once", 20*time.Second, func() bool { return once(us, to) })
		}
		ms.until("nothing is missing", 10*time.Second, func() bool { return settledFlows(us) })
	})
}

func TestResolveRefusals(t *testing.T) {
	parted(t, short, func(ms *mesh, us, eu, ap *node) {
		if _, err := us.manager.Resolve(context.Background(), ordersZero, rhumb.Life{1}, false); rhumb.KindOf(err) != rhumb.KindFenced {
			ms.t.Errorf("another life: %v", err)
		}
		if _, err := eu.manager.Resolve(context.Background(), ordersZero, rhumb.Life{}, false); rhumb.KindOf(err) != rhumb.KindNotFound {
			ms.t.Errorf("at the destination: %v", err)
		}
		if us.flow("eu").State != SessionDiverged {
			ms.t.Error("a refusal changed something")
		}
	})
}
