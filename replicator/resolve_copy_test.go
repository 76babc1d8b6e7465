package replicator

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// orphaned makes a mesh in which us was restored to 25 of 40 batches, wrote n more, and
// was removed before anybody resolved what differs: eu has the 40, ap the other log.
func orphaned(t *testing.T, n int, test func(ms *mesh, eu, ap *node)) {
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond, Loss: .01}, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh) {
		us, eu, ap := ms.nodes["us"], ms.nodes["eu"], ms.nodes["ap"]
		ms.policy.edges = gathering(fullMesh("us", "eu", "ap")...)
		ms.start()
		us.create(orders, 1)
		for i := range 40 {
			us.produce(orders, 0, 2, 200)
			if i == 9 {
				ms.untilCopied(us, ap, 0)
				ap.kill()
			}
		}
		ms.untilCopied(us, eu, 0)
		us.kill()
		us.restore(25)
		for range n {
			us.produce(orders, 0, 2, 200)
		}
		ap.start()
		us.start()
		ms.untilCopied(us, ap, 0)
		ms.remove("us", gathering(fullMesh("eu", "ap")...))
		ms.until("the copies are known to differ", time.Minute, func() bool {
			return n < 14 == (len(ap.manager.Diverged()) == 0) && n > 15 == (len(eu.manager.Diverged()) == 0)
		})
		test(ms, eu, ap)
	})
}

// copies gives the batches that a region holds of us.
func (n *node) copies() (all [][]byte) {
	for _, b := range n.region.own(orders, 0, 1) {
		all = append(all, b.Batch[21:])
	}
	return all
}

// apartNoMore reports whether nothing of a node's flows differs or is missing.
func apartNoMore(n *node) bool {
	for _, l := range n.status().Links {
		for _, p := range l.Partitions {
			if p.Apart != nil || !p.Lag.Known || p.Lag.Records != 0 || p.State != SessionIdle && p.State != SessionStandby {
				return false
			}
		}
	}
	return true
}

// TestI3CopiesOfARemovedRegionAreLeftApart: two copies of a life whose origin was removed
// differ, which the one that reaches further tells, or both. An operator has it leave them
// as they are: both keep what they have, the other one gets a gap that says so, nothing is
// diverged or missing any more, also after a kill, and who joins gets one of them whole.
func TestI3CopiesOfARemovedRegionAreLeftApart(t *testing.T) {
	for _, n := range []int{5, 14, 15, 25} { // ap's copy is shorter, just so, as long, longer
		for _, at := range []rhumb.RegionName{"eu", "ap"} {
			if n < 14 && at == "ap" || n > 15 && at == "eu" {
				continue // it cannot know
			}
			orphaned(t, n, func(ms *mesh, eu, ap *node) {
				had := [][][]byte{eu.copies(), ap.copies()}
				asked := ms.nodes[at]
				d := asked.manager.Diverged()[0]
				if !d.Copy || d.Origin != 1 || len(d.Destinations) != 1 || !d.Destinations[0].Exact || d.Destinations[0].Common.Offset != 49 {
					t.Fatalf("n %d, %s: diverged %+v", n, at, d)
				}
				if _, err := asked.manager.Resolve(context.Background(), ordersZero, rhumb.Life{}, false); rhumb.KindOf(err) != rhumb.KindNotFound {
					t.Fatalf("a new life for a log that is not there: %v", err)
				}
				plan, err := asked.manager.ResolveCopy(context.Background(), ordersZero, d.Life, "ann", true)
				if err != nil || plan.Done || plan.Last != 49 || len(eu.gapsOf())+len(ap.gapsOf()) > 0 {
					t.Fatalf("n %d, %s: plan %+v, %v", n, at, plan, err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if done, err := asked.manager.ResolveCopy(ctx, ordersZero, d.Life, "ann", false); err != nil || !done.Done {
					t.Fatalf("n %d, %s: done %+v, %v", n, at, done, err)
				}
				ms.off("eu")
				ms.on("eu")
				ms.until("nothing is diverged, nothing missing", 2*time.Minute, func() bool {
					return len(eu.manager.Diverged())+len(ap.manager.Diverged()) == 0 && apartNoMore(eu) && apartNoMore(ap)
				})
				gaps := append(eu.gapsOf(), ap.gapsOf()...)
				if len(gaps) != 1 || gaps[0].Reason != rhumb.ReasonDiverged || gaps[0].From != 49 || gaps[0].By != "ann" {
					t.Errorf("n %d, %s: gaps %+v", n, at, gaps)
				}
				af := ms.add("af")
				af.start()
				ms.policy.change(func() { ms.policy.edges = gathering(fullMesh("eu", "ap", "af")...) })
				whole := func(have [][]byte) bool { return bytes.Equal(bytes.Join(af.copies(), nil), bytes.Join(have, nil)) }
				ms.until("who joins has one of the copies", 2*time.Minute, func() bool { return whole(had[0]) || whole(had[1]) })
				ms.until("nothing is missing", 2*time.Minute, func() bool { return apartNoMore(eu) && apartNoMore(ap) })
				for i, node := range []*node{eu, ap} {
					if got := node.copies(); !bytes.Equal(bytes.Join(got, nil), bytes.Join(had[i], nil)) {
						t.Errorf("n %d, %s: %s has %d batches, had %d", n, at, node.self.Name, len(got), len(had[i]))
					}
				}
			})
		}
	}
}
