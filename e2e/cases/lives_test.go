package cases

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// replace has a region lose its disk and come back from nothing.
func (n *node) replace() {
	n.mesh.Helper()
	n.kill()
	n.fs, n.keeper = vfs.NewMem(vfs.MemConfig{}), &configstore.MemoryKeeper{}
	_, err := n.mesh.writer.ReplaceRegion(n.mesh.ctx, n.name)
	n.mesh.must(err)
	n.mesh.pass(time.Second) // no two within one
	n.start()
}

// TestI3NewestValueIsTheLastOneInARegionThatJoins: keys were written before a region was
// rebuilt, twice, and written again since. A region that joins then, whose power fails
// and whose line breaks while it fetches, ends with the newest value of each, and so
// do all after compaction.
func TestI3NewestValueIsTheLastOneInARegionThatJoins(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	for name, topology := range map[string]*configstore.Topology{
		"mesh":  {FullMesh: names},
		"chain": {Chain: []rhumb.RegionName{"eu", "us", "ap"}},
		"both": {Edges: []configstore.EdgeSpec{
			{From: "eu", To: "us"}, {From: "us", To: "eu"}, {From: "eu", To: "ap"}, {From: "us", To: "ap", Forward: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, names, func(ms *mesh, nodes []*node) { ms.joins(topology, nodes[0], nodes[1], nodes[2]) })
		})
	}
}

// hasTable reports whether a region has the topic, and a reader of it ends with a table.
func (n *node) hasTable(want map[string]string) bool {
	if !n.has(prices, 1) {
		return false
	}
	got, _, _ := n.table(prices)
	return maps.Equal(got, want)
}

func (ms *mesh) joins(topology *configstore.Topology, us, eu, ap *node) {
	ms.flowBetween([]rhumb.RegionName{us.name, eu.name})
	for _, topic := range []rhumb.Topic{prices, filling} {
		us.create(topic, 1, eagerly)
		ms.until("eu has the topic", func() bool { return eu.has(topic, 1) })
	}
	want := map[string]string{}
	noise := make([]byte, 4<<10)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	write := func(from, to, version int) {
		for i := from; i < to; i++ {
			key, value := fmt.Sprint("key ", i), fmt.Sprintf("%d of %d %x", version, i, noise)
			eu.put(prices, key, value)
			want[key] = value
		}
		ms.untilCopied(eu, us, prices, 0)
	}
	write(0, 60, 1)
	eu.replace()
	ms.until("eu has its own back", func() bool { return eu.hasTable(want) })
	write(20, 60, 2)
	eu.replace()
	ms.until("eu has its own back again", func() bool { return eu.hasTable(want) })
	write(40, 50, 3)
	slow := relay.Settings{Delay: 40 * time.Millisecond, Rate: 1_000_000}
	for _, n := range []*node{us, eu} {
		ms.path(n, ap, slow)
	}
	_, err := ms.writer.PutNamespace(ms.ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = topology
		return nil
	})
	ms.must(err)
	ms.until("ap begins to fetch", func() bool { return ap.has(prices, 1) && len(ap.read(prices, 0)) > 5 })
	ap.kill()
	ap.start()
	ms.until("ap goes on", func() bool { return ap.has(prices, 1) && len(ap.read(prices, 0)) > 20 })
	for _, cut := range []bool{true, false} {
		ms.cut(ap, cut)
		ms.pass(10 * time.Second)
	}
	for _, n := range []*node{us, eu} {
		ms.path(n, ap, near)
	}
	eu.put(prices, "key 55", "newest")
	want["key 55"] = "newest"
	all := []*node{us, eu, ap}
	ms.until("all have all", func() bool {
		return ms.copied(eu, us, prices, 0) && ms.copied(eu, ap, prices, 0) && len(ap.read(prices, 0)) == 111
	})
	ms.alike(want, all...)
	for range 3 {
		for _, n := range all {
			n.fill()
		}
	}
	ms.alike(want, all...)
	if _, records, _ := ap.table(prices); records >= 111 {
		ms.Errorf("ap has compacted nothing of %d records", records)
	}
}
