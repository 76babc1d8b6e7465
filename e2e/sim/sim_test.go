package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

var (
	seeds     = flag.Int("sim.seeds", 0, "how many seeds to run (default: 100, 8 under the race detector, 4 with -short)")
	firstSeed = flag.Uint64("sim.seed", 0, "first seed")
	keepLog   = flag.Bool("sim.log", false, "keep the event log of every seed, not only of failures")
)

// TestSimulation runs meshes of three regions, ten virtual minutes each. Every
// fourth seed has disasters: lost disks and restored backups; every second of
// these restores backups above all.
//
//	go test ./e2e/sim -run TestSimulation -sim.seed 17 -sim.seeds 1
func TestSimulation(t *testing.T) {
	count := uint64(100)
	switch {
	case *seeds > 0:
		count = uint64(*seeds)
	case underRace:
		count = 8
	case testing.Short():
		count = 4
	}
	for seed := *firstSeed; seed < *firstSeed+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) { simulate(t, seed, planOf(seed)) })
		})
	}
}

// planOf is the plan of a seed of three regions.
func planOf(seed uint64) plan {
	switch seed % 8 {
	case 3:
		return disasters
	case 7:
		return restores
	}
	return ordinary
}

func simulate(t *testing.T, seed uint64, p plan) {
	w, err := newWorld(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	// The regions are switched off within the bubble, whatever happens.
	keep(t, w, w.run())
}

// keep tells of a run's failure, and keeps its event log then, or if it shall.
func keep(t *testing.T, w *world, failure error) {
	seed := w.seed
	if failure == nil && !*keepLog {
		return
	}
	dir := os.Getenv("SIM_LOGS")
	if dir == "" {
		dir = os.TempDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("rhumb-sim-%d-%d.log", w.plan.regions, seed))
	if err := os.WriteFile(path, []byte(w.log.String()), 0o644); err != nil {
		t.Error(err)
	}
	if failure != nil {
		t.Errorf("seed %d after %s: %v\nevents: %s", seed, time.Since(w.start), failure, path)
	}
}
