package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// meshOf is a full mesh of the regions of some places, as its shape says it.
func meshOf(places ...int) shape {
	s := shape{name: fmt.Sprintf("full mesh of %v", places), topology: &configstore.Topology{FullMesh: []rhumb.RegionName{}}}
	for _, a := range places {
		s.topology.FullMesh = append(s.topology.FullMesh, regionName(a))
		for _, b := range places {
			if a != b {
				s.edges = append(s.edges, plain(a, b)...)
			}
		}
	}
	return s
}

// TestI3RegionIsRemovedAndOthersAreRebuilt: r3 dies under traffic and bad lines, while
// the others have not all of its records, and is removed by force. Then r1 loses its
// disk, and r4 joins, which never met r3; both lose power while they fetch. In the end
// each region has what any of them had of r3, once, in order and without a gap.
//
//	go test ./e2e/sim -run TestI3RegionIsRemoved -sim.seed 17
func TestI3RegionIsRemovedAndOthersAreRebuilt(t *testing.T) {
	seeds := uint64(8)
	if underRace || testing.Short() {
		seeds = 1
	}
	for seed := *firstSeed; seed < *firstSeed+seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				w, err := newWorld(seed, plan{regions: 5, topics: 1, shapes: []shape{meshOf(0, 1, 2, 3)}})
				if err != nil {
					t.Fatal(err)
				}
				defer w.end()
				keep(t, w, w.removeAndRebuild())
			})
		})
	}
}

func (w *world) removeAndRebuild() error {
	rng := rand.New(rand.NewPCG(w.seed, 0x676f6e65))
	for i := range w.hosts {
		if err := w.switchOn(i); err != nil {
			return err
		}
	}
	w.createEverywhere(0)
	traffic, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for r := range 4 {
		clients.Go(func() { w.produce(traffic, r, 0) })
	}
	defer clients.Wait()
	defer stop()
	number := w.hosts[3].running.Self().Number
	time.Sleep(20 * time.Second)
	for _, b := range []int{1, 2} { // one has more of r3 than the other
		if err := w.do(event{do: actCut, a: 3, b: b}); err != nil {
			return err
		}
		time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
	}
	if err := w.switchOff(3, func(h *host) error { h.crash(w.seed); return nil }); err != nil {
		return err
	}
	if _, err := configstore.NewWriter(w.store, "sim").RemoveRegion(context.Background(), "r3", true); err != nil {
		return err
	}
	w.note("FAULT r3 is removed")
	time.Sleep(time.Duration(rng.IntN(10)) * time.Second)
	if err := w.rebuild(event{a: 1}); err != nil {
		return err
	}
	if err := w.change(meshOf(0, 1, 2, 4)); err != nil {
		return err
	}
	for _, i := range []int{1, 4, 1} {
		if err := w.switchOn(i); err != nil {
			return err
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		if err := w.switchOff(i, func(h *host) error { h.crash(w.seed ^ uint64(i)); return nil }); err != nil {
			return err
		}
	}
	for _, i := range []int{1, 4} {
		if err := w.switchOn(i); err != nil {
			return err
		}
	}
	w.createEverywhere(0)
	stop()
	clients.Wait()
	return w.awaitSame(number, 0, 1, 2, 4)
}

// awaitSame waits until regions have the same records of an origin, each at least one.
func (w *world) awaitSame(number rhumb.RegionNumber, places ...int) error {
	for deadline := time.Now().Add(settleLimitPaths); ; time.Sleep(time.Second) {
		err := w.sameOf(number, places)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (w *world) sameOf(number rhumb.RegionNumber, places []int) error {
	var first []rhumb.Origin
	for n, i := range places {
		if !w.has(i) {
			return fmt.Errorf("r%d has no topic", i)
		}
		c, err := w.read(i, topicName(0))
		if err != nil {
			return err
		}
		var got []rhumb.Origin
		for _, r := range c.records {
			if r.origin.Region == number {
				got = append(got, r.origin)
			}
		}
		switch {
		case len(c.gaps) > 0:
			return fmt.Errorf("I3: r%d has gaps %v", i, c.gaps)
		case n == 0 && len(got) == 0:
			return fmt.Errorf("r%d has nothing of region %d", i, number)
		case n == 0:
			first = got
		case !slices.Equal(got, first):
			return fmt.Errorf("I3: of region %d r%d has %d records, r%d %d, or others", number, places[0], len(first), i, len(got))
		}
	}
	return nil
}

// has reports whether a region has the topic, ready.
func (w *world) has(i int) bool {
	r := w.hosts[i].region()
	if r == nil {
		return false
	}
	t, ok := r.Topic(topicName(0))
	return ok && t.Ready()
}
