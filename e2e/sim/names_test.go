package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestNamesSimulation makes, grows, configures, deletes and makes again topics of the
// same few names in three or four regions at once, by chance, while regions lose
// power, lines are cut, and the configuration store is away from some or all.
//
//	go test ./e2e/sim -run TestNamesSimulation -sim.seed 17 -sim.seeds 1
func TestNamesSimulation(t *testing.T) {
	count := uint64(30)
	switch {
	case *seeds > 0:
		count = uint64(*seeds)
	case underRace:
		count = 4
	case testing.Short():
		count = 2
	}
	for seed := *firstSeed; seed < *firstSeed+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				w, err := newWorld(seed, plan{regions: 3 + int(seed%2), topics: 3})
				if err != nil {
					t.Fatal(err)
				}
				keep(t, w, w.runNames(120))
			})
		})
	}
}

// TestNamesModelFindsFaults: the model is worth something only if it says no.
func TestNamesModelFindsFaults(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, err := newWorld(1, plan{regions: 3, topics: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer w.end()
		n := &namesRun{world: w, model: newNamesModel()}
		for i := range w.hosts {
			if err := w.switchOn(i); err != nil {
				t.Fatal(err)
			}
		}
		orders := topicName(0)
		n.do(&act{what: deedCreate, topic: orders, partitions: 2, alone: true}, false)
		settled := func() bool { return n.checkNames() == nil }
		for end := time.Now().Add(settleLimit); !settled(); time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatal(n.checkNames())
			}
		}
		n.do(&act{what: deedProduce, topic: orders, value: "v", alone: true}, false)
		for what, spoil := range map[string]func(*namesModel){
			"partitions": func(m *namesModel) { m.life(orders, 0).partitions = 3 },
			"settings":   func(m *namesModel) { m.life(orders, 0).values["retention.ms"] = map[string]bool{"1": true} },
			"old record": func(m *namesModel) { m.counts["v"] = 7 },
			"lost":       func(m *namesModel) { m.acks[w.hosts[1].lifeOf(orders)] = map[string]bool{"lost": true} },
		} {
			honest := n.model
			n.model = newNamesModel()
			n.model.counts["v"] = 0
			spoil(n.model)
			if err := n.checkNames(); err == nil {
				t.Errorf("%s: nothing is found", what)
			}
			n.model = honest
		}
	})
}

func (h *host) lifeOf(t rhumb.Topic) rhumb.Life {
	info, _ := h.region().Topic(t)
	return info.Partitions[0].Life
}
