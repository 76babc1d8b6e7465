package cases

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// timesOf gives the times that the producers of a region gave their batches.
func timesOf(origin *node, log []region.Stored) []int64 {
	var out []int64
	for _, b := range log {
		if b.Envelope.Region == origin.running.Self().Number {
			h, err := codec.ParseBatch(b.Batch)
			origin.mesh.must(err)
			out = append(out, h.MaxTimestamp)
		}
	}
	return out
}

// TestG50RemovedRegionBlocksNothing: a region dies, is taken out of the policy
// and out of the mesh. The others flow all the time, start without it, and keep
// what it published (G70).
func TestG50RemovedRegionBlocksNothing(t *testing.T) {
	t.Parallel()
	run(t, []rhumb.RegionName{"us", "eu", "ap"}, func(ms *mesh, nodes []*node) {
		us, eu, ap := nodes[0], nodes[1], nodes[2]
		us.create(orders, 1, nil)
		ms.everywhere(orders, 1)
		ap.produce(orders, 0, "from ap")
		ms.untilCopied(ap, us, orders, 0)
		number := ap.running.Self().Number
		ap.kill()
		us.produce(orders, 0, "one")
		ms.untilCopied(us, eu, orders, 0)
		ms.flowBetween(usEu)
		ms.must(ms.writer.DeleteRegion(ms.ctx, "ap"))
		us.kill()
		us.start()
		us.produce(orders, 0, "two")
		ms.untilCopied(us, eu, orders, 0)
		ms.same(us, eu, []string{"one", "two"})
		kept := slices.ContainsFunc(us.read(orders, 0), func(b region.Stored) bool { return b.Envelope.Region == number })
		if !kept {
			t.Error("what ap published is gone with it")
		}
	})
}

// TestG79G80GrownFromTheOtherRegion: a topic made in one region is given more
// partitions in another one that no client has touched.
func TestG79G80GrownFromTheOtherRegion(t *testing.T) {
	t.Parallel()
	run(t, usEu, func(ms *mesh, nodes []*node) {
		us, eu := nodes[0], nodes[1]
		us.create(orders, 4, nil)
		ms.everywhere(orders, 4)
		if _, err := eu.region().GrowTopic(ms.ctx, orders, 6); err != nil {
			t.Fatal(err)
		}
		ms.everywhere(orders, 6)
		us.produce(orders, 5, "new")
		ms.untilCopied(us, eu, orders, 5)
		if got := eu.from(us, orders, 5); !slices.Equal(got, []string{"new"}) {
			t.Errorf("partition 5 has %q", got)
		}
	})
}

// recreate deletes a topic in the whole mesh, by way of one region, and makes it
// again there.
func (n *node) recreate(t rhumb.Topic) {
	n.mesh.Helper()
	count, err := n.mesh.writer.CountDeletion(n.mesh.ctx, t)
	n.mesh.must(err)
	n.mesh.must(n.region().DeleteTopic(n.mesh.ctx, t, count))
	n.create(t, 1, nil)
}

// TestH7RecreatedOnBothSidesOfACut: both regions delete and create the same topic
// while they cannot reach each other. Afterwards there is one topic, and nothing
// of what was deleted.
func TestH7RecreatedOnBothSidesOfACut(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, "old us")
		ms.untilCopied(us, eu, orders, 0)
		ms.path(us, eu, relay.Settings{Cut: true})
		us.produce(orders, 0, "backlog that must not come")
		us.recreate(orders)
		eu.recreate(orders)
		ms.pass(10 * time.Second)
		eu.produce(orders, 0, "new eu")
		ms.path(us, eu, near)
		agree := func() bool {
			a, here := us.region().Topic(orders)
			b, there := eu.region().Topic(orders)
			return here && there && a.Ready() && b.Ready() && a.Deletions == 2 && b.Deletions == 2
		}
		ms.until("one topic, of deletion count 2", agree)
		us.produce(orders, 0, "new us")
		ms.untilCopied(us, eu, orders, 0)
		ms.untilCopied(eu, us, orders, 0)
		for _, n := range []*node{us, eu} {
			if got := slices.Concat(n.from(us, orders, 0), n.from(eu, orders, 0)); !slices.Equal(got, []string{"new us", "new eu"}) {
				t.Errorf("%s has %q", n.name, got)
			}
		}
	})
}

// TestH9RebuiltFromEmptyDisks: a region comes back under its name with nothing.
// It is refused until an operator says so; then it gets the others' records
// again, and its new life is not taken for the old one.
func TestH9RebuiltFromEmptyDisks(t *testing.T) {
	pair(t, func(ms *mesh, us, eu *node) {
		us.produce(orders, 0, "us0", "us1")
		eu.produce(orders, 0, "old eu")
		ms.untilCopied(us, eu, orders, 0)
		ms.untilCopied(eu, us, orders, 0)
		old := eu.partition(orders, 0).Life
		before, err := eu.region().ProducerID(ms.ctx)
		ms.must(err)
		eu.kill()
		eu.fs, eu.keeper = vfs.NewMem(vfs.MemConfig{}), &configstore.MemoryKeeper{}
		if err := eu.boot(); !errors.Is(err, configstore.ErrOtherData) {
			t.Fatalf("a second data directory of eu: %v", err)
		}
		if _, err := ms.writer.ReplaceRegion(ms.ctx, "eu"); err != nil {
			t.Fatal(err)
		}
		ms.pass(time.Second) // nobody replaces a region within one, and the clock keeps producer ids apart by that
		eu.start()
		ms.everywhere(orders, 1)
		if after, err := eu.region().ProducerID(ms.ctx); err != nil || after <= before {
			t.Errorf("producer id %#x after %#x: %v", after, before, err)
		}
		if eu.partition(orders, 0).Life == old {
			t.Fatal("the new log has the old life")
		}
		eu.produce(orders, 0, "new eu")
		ms.untilCopied(us, eu, orders, 0)
		ms.untilCopied(eu, us, orders, 0)
		ms.same(us, eu, []string{"us0", "us1"})
		ms.same(eu, us, []string{"old eu", "new eu"})
	})
}
