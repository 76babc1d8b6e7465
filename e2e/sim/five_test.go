package sim

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

var pathSeeds = flag.Int("sim.paths", 0, "how many seeds of five regions to run (default: 32, 3 under the race detector, 2 with -short)")

// TestFiveRegions runs meshes of five regions whose records go over relays. Of ten
// seeds, eight keep one topology each, which is changed in the two others all the
// time; in every second seed regions drop old records, too.
//
//	go test ./e2e/sim -run TestFiveRegions -sim.seed 17 -sim.paths 1
func TestFiveRegions(t *testing.T) {
	count := uint64(32)
	switch {
	case *pathSeeds > 0:
		count = uint64(*pathSeeds)
	case underRace:
		count = 3
	case testing.Short():
		count = 2
	}
	for seed := *firstSeed; seed < *firstSeed+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) { simulate(t, seed, pathsOf(seed)) })
		})
	}
}

// pathsOf is the plan of a seed of five regions.
func pathsOf(seed uint64) plan {
	n := int(seed % 10)
	var p plan
	if n < len(shapes) {
		p = pathsPlan(shapes[n : n+1])
	} else {
		p = pathsPlan(slices.Concat(shapes[n%len(shapes):], shapes[:n%len(shapes)]))
	}
	if seed/10%2 == 1 != (n%2 == 1) {
		p.weights[actTrim] = 10
	}
	return p
}
