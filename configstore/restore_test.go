package configstore_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestI5RandomRestores runs two regions through stores that go back and are changed
// there, by administrators who never saw the newer documents too, while operators put
// back what one region or the other has seen. No region ever shows an older version
// than before; when each has put back its own, both follow one store and have seen
// the same.
func TestI5RandomRestores(t *testing.T) {
	for seed := range uint64(40) {
		bubble.Test(t, func(t *testing.T) { randomRestores(t, seed) })
	}
}

func randomRestores(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	a := small(t)
	keepers := []*configstore.MemoryKeeper{{}, {}}
	views, stops := make([]*configstore.View, 2), make([]func(), 2)
	open := func(i int) {
		views[i] = openView(t, a.store, keepers[i])
		stops[i] = run(t, views[i])
	}
	open(0)
	open(1)
	all := []rhumb.RegionName{"us", "eu", "ap"}
	backup, highest := a.store.Snapshot(), make([]uint64, 2)
	check := func(step int) {
		for i, v := range views {
			n, _ := v.Namespace("acme", "n")
			if n.Version < highest[i] {
				t.Fatalf("seed %d step %d: region %d: version fell from %d to %d", seed, step, i, highest[i], n.Version)
			}
			highest[i] = n.Version
		}
	}
	for step := range 60 {
		i := rng.IntN(2)
		switch rng.IntN(8) {
		case 0:
			backup = a.store.Snapshot()
		case 1:
			a.store.Rollback(backup)
		case 2:
			stops[i]()
			open(i)
		case 3:
			a.store.SetDown(rng.IntN(2) == 0)
		case 4:
			_, _ = views[i].Restore(t.Context(), "operator", rng.IntN(4) == 0) // refused while the store is down
		default:
			w := a.Writer
			if rng.IntN(2) == 0 {
				w = views[i].Writer("region")
			}
			_, _ = w.PutNamespace(t.Context(), "acme", "n", func(n *configstore.Namespace) error {
				n.Topology = &configstore.Topology{FullMesh: all[:rng.IntN(4)]}
				return nil
			})
		}
		pass(time.Duration(rng.IntN(7000)) * time.Millisecond)
		synctest.Wait()
		check(step)
	}
	a.store.SetDown(false)
	for range 2 {
		for _, v := range views {
			if _, err := v.Restore(t.Context(), "operator", false); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	pass(10 * time.Second)
	synctest.Wait()
	check(-1)
	one, other := views[0].Status(), views[1].Status()
	if one.State != configstore.StateCurrent || other.State != configstore.StateCurrent || one.Digest != other.Digest {
		t.Fatalf("seed %d: after all was put back: %+v and %+v", seed, one, other)
	}
	stops[0]()
	stops[1]()
}
