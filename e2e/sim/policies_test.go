package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestPoliciesChangeAllTheTime changes the topology 1,000 times (60 with -short) in
// eight virtual minutes, at random, while producers write, lines are bad and regions
// crash: edges go and come back, in every shape. In the end the last policy holds:
// what it says is there, once and in order, and nothing crossed an edge that no policy
// had (I3, I4, I7).
//
//	go test ./e2e/sim -run TestPoliciesChange -sim.seed 17
func TestPoliciesChangeAllTheTime(t *testing.T) {
	seeds, changes := uint64(3), 1000
	if underRace || testing.Short() {
		seeds, changes = 1, 60
	}
	for seed := *firstSeed; seed < *firstSeed+seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) { simulate(t, seed, policiesPlan(seed, changes)) })
		})
	}
}

// policiesPlan has so many changes of the topology, and a fault for every twenty.
func policiesPlan(seed uint64, changes int) plan {
	length := 8 * time.Minute * time.Duration(changes) / 1000
	p := plan{
		regions: 4, topics: 2, length: length, every: length / time.Duration(changes*21/20),
		weights: map[action]int{actShape: 400, actLink: 8, actCut: 6, actCrash: 4, actStop: 2},
	}
	rng := rand.New(rand.NewPCG(seed, 0x706f6c69637900))
	for i := range 97 { // a prime, since places are drawn by the time of the event
		p.shapes = append(p.shapes, randomShape(rng, i, p.regions))
	}
	return p
}

// randomShape draws one of the named shapes, or custom edges, over some regions.
func randomShape(rng *rand.Rand, i, regions int) shape {
	var names []rhumb.RegionName
	for _, r := range rng.Perm(regions)[:2+rng.IntN(regions-1)] {
		names = append(names, regionName(r))
	}
	kinds := []string{"full-mesh", "fan-in", "fan-out", "chain", "ring", "edges"}
	kind := kinds[rng.IntN(len(kinds))]
	t := &configstore.Topology{}
	switch kind {
	case "full-mesh":
		t.FullMesh = names
	case "fan-in":
		t.FanIn = &configstore.FanIn{From: names[1:], To: names[0]}
	case "fan-out":
		t.FanOut = &configstore.FanOut{From: names[0], To: names[1:]}
	case "chain":
		t.Chain = names
	case "ring":
		t.Ring = names
	default:
		t.Edges = []configstore.EdgeSpec{}
		for _, from := range names {
			for _, to := range names {
				if from != to && rng.IntN(2) == 0 {
					t.Edges = append(t.Edges, configstore.EdgeSpec{From: from, To: to, Forward: rng.IntN(2) == 0})
				}
			}
		}
	}
	s := shape{name: fmt.Sprintf("%d, %s of %v", i, kind, names), topology: t}
	edges, err := configstore.Compile(&configstore.Namespace{Tenant: rhumb.DefaultTenant, Name: rhumb.DefaultNamespace, Topology: t})
	if err != nil {
		panic(err) // drawn to be legal
	}
	for _, e := range edges {
		s.edges = append(s.edges, configstore.EdgeSpec{From: e.From, To: e.To, Forward: e.Forward})
	}
	return s
}

// TestRandomShapesAreOfEveryKind: the drawing reaches each shape, and the same seed
// draws the same.
func TestRandomShapesAreOfEveryKind(t *testing.T) {
	a, b := policiesPlan(1, 1000), policiesPlan(1, 1000)
	kinds := map[string]bool{}
	for i, s := range a.shapes {
		kinds[s.topology.Shape()] = true
		if s.name != b.shapes[i].name || !slices.EqualFunc(s.edges, b.shapes[i].edges, func(x, y configstore.EdgeSpec) bool {
			return cmp.Compare(x.From, y.From) == 0 && x.To == y.To && x.Forward == y.Forward
		}) {
			t.Fatalf("shape %d differs: %s and %s", i, s.name, b.shapes[i].name)
		}
	}
	if len(kinds) != 6 {
		t.Errorf("drawn are only %v", kinds)
	}
	changes := 0
	for _, e := range a.schedule(1) {
		if e.do == actShape {
			changes++
		}
	}
	if changes < 800 {
		t.Errorf("%d changes", changes)
	}
}
