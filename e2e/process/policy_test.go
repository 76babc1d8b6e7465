package process

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var policyChanges = flag.Int("process.changes", 1000, "changes of TestI4PoliciesChangeUnderTraffic")

// drawTopology draws a topology: of all kinds that carry records to and fro, over some or
// all of the regions.
func drawTopology(luck *rand.Rand, all []rhumb.RegionName) *configstore.Topology {
	regions := make([]rhumb.RegionName, len(all))
	for i, at := range luck.Perm(len(all)) {
		regions[i] = all[at]
	}
	some := regions[:2+luck.IntN(len(regions)-1)]
	switch luck.IntN(7) {
	case 0:
		return &configstore.Topology{FullMesh: []rhumb.RegionName{}} // local only
	case 1:
		return &configstore.Topology{FanIn: &configstore.FanIn{From: some[1:], To: some[0]}}
	case 2:
		return &configstore.Topology{FanOut: &configstore.FanOut{From: some[0], To: some[1:]}}
	case 3:
		return &configstore.Topology{Chain: some}
	case 4:
		return &configstore.Topology{Ring: regions}
	case 5:
		edges := []configstore.EdgeSpec{} // none is a shape too
		for _, from := range regions {
			for _, to := range regions {
				if from != to && luck.IntN(2) == 0 {
					edges = append(edges, configstore.EdgeSpec{From: from, To: to, Forward: luck.IntN(2) == 0})
				}
			}
		}
		return &configstore.Topology{Edges: edges}
	}
	return &configstore.Topology{FullMesh: some}
}

// Two administrators change the policy in Consul a thousand times, at random and at
// once, while all regions take records over bad lines: edges go and come back, with
// and without forwarding. Once every region sends to every other again, all hold the
// same, each record once.
func TestI4PoliciesChangeUnderTraffic(t *testing.T) {
	slow(t)
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-process.seed=%d -process.changes=%d", s, *policyChanges)
	all := []rhumb.RegionName{"us", "eu", "ap"}
	m := StartWithConsul(t, all...)
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 1)
	for _, from := range all {
		for _, to := range all {
			if from != to {
				m.Link(from, to, "delay=5ms,loss=2%")
			}
		}
	}
	store, err := m.openStore("admin")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*Limit)
	defer cancel()
	var admins sync.WaitGroup
	for i := range 2 {
		luck := rand.New(rand.NewPCG(s, uint64(i)))
		admins.Go(func() {
			w := configstore.NewWriter(store, fmt.Sprintf("admin-%d", i))
			for range *policyChanges / 2 {
				_, err := w.PutNamespace(ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
					n.Topology = drawTopology(luck, all)
					return nil
				})
				if err != nil {
					t.Errorf("admin %d: %v", i, err)
					return
				}
				pause := time.NewTimer(time.Duration(luck.IntN(20)) * time.Millisecond) // some changes come at once, some have time to act
				<-pause.C
			}
		})
	}
	admins.Wait()
	m.note("the policy has changed %d times", *policyChanges)
	tr.Progress(50, all...)
	m.Heal()
	if _, err := configstore.NewWriter(store, "admin").PutNamespace(ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: all}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
	m.comesTo(0, "config", "status")
	m.Stop()
}
