package process

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var (
	rounds = flag.Int("process.rounds", 12, "faults of TestI3RandomFaults")
	seed   = flag.Uint64("process.seed", 0, "seed of TestI3RandomFaults; 0: by the clock")
)

// world is a mesh whose faults are drawn.
type world struct {
	*Mesh
	luck *rand.Rand
	dead map[rhumb.RegionName]bool
}

// Faults by seed: regions die, freeze and stop in order, links are cut and bad
// in one direction or both, while all regions take records. The order of the
// faults is the seed's, their timing is not.
func TestI3RandomFaults(t *testing.T) {
	n := *rounds
	if testing.Short() {
		n = 4
	}
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-process.seed=%d -process.rounds=%d", s, n)
	w := &world{Mesh: Start(t, "us", "eu", "ap"), luck: rand.New(rand.NewPCG(s, 1)), dead: map[rhumb.RegionName]bool{}}
	w.create("us", "orders", 4)
	w.create("eu", "events", 1)
	traffic := []*Traffic{w.Produce("orders", 4, 2), w.Produce("events", 1, 1)}
	for range n {
		w.fault()
		for _, tr := range traffic {
			tr.Progress(20+w.luck.IntN(200), w.living()...)
		}
	}
	w.Heal()
	w.reviveAll()
	for _, tr := range traffic {
		tr.Finish()
	}
	w.Verify()
	for _, tr := range traffic {
		tr.Check(w.Mesh)
	}
	w.Stop()
}

func (w *world) living() (out []rhumb.RegionName) {
	for _, r := range w.Regions {
		if !w.dead[r.Name] {
			out = append(out, r.Name)
		}
	}
	return out
}

func (w *world) any() rhumb.RegionName { return w.Regions[w.luck.IntN(len(w.Regions))].Name }

// pair gives two regions.
func (w *world) pair() (from, to rhumb.RegionName) {
	i := w.luck.IntN(len(w.Regions))
	j := (i + 1 + w.luck.IntN(len(w.Regions)-1)) % len(w.Regions)
	return w.Regions[i].Name, w.Regions[j].Name
}

// fault does one thing to the mesh. At least one region stays alive.
func (w *world) fault() {
	w.t.Helper()
	at := w.any()
	switch k := w.luck.IntN(10); {
	case k < 4 && w.dead[at]:
		w.Restart(at)
		delete(w.dead, at)
	case k < 4 && len(w.living()) > 1:
		w.Kill(at)
		w.dead[at] = true
	case k == 4 && !w.dead[at]:
		w.stopInOrder(at)
	case k == 5 && !w.dead[at] && !testing.Short(): // it takes some seconds
		w.freeze(at)
	case k == 6:
		w.Heal()
		w.note("all links are healed")
	default:
		from, to := w.pair()
		w.Link(from, to, w.badness())
		if w.luck.IntN(2) == 0 {
			w.Link(to, from, w.badness())
		}
	}
}

func (w *world) badness() string {
	if w.luck.IntN(3) == 0 {
		return "cut=true"
	}
	return fmt.Sprintf("cut=false,delay=%dms,jitter=%dms,loss=%d%%,reorder=%d%%,duplicate=%d%%,rate=%dmbit", w.luck.IntN(100), w.luck.IntN(20),
		w.luck.IntN(6), w.luck.IntN(6), w.luck.IntN(6), 10+w.luck.IntN(90))
}

// stopInOrder stops a region with SIGTERM and starts it again.
func (w *world) stopInOrder(at rhumb.RegionName) {
	w.t.Helper()
	p := w.Region(at).Process()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		w.t.Errorf("%s exits with %d after SIGTERM:\n%s", at, code, lastLines(p.Output(), 20))
	}
	w.note("%s stopped in order", at)
	w.Restart(at)
}

// freeze holds a process still, as a paused virtual machine is, until another
// region has noticed or has moved on.
func (w *world) freeze(at rhumb.RegionName) {
	w.t.Helper()
	p := w.Region(at).Process()
	p.Signal(syscall.SIGSTOP)
	w.note("%s is frozen", at)
	for _, other := range w.living() {
		if other != at {
			w.awaitLink(other, at, "disconnected")
			break
		}
	}
	p.Signal(syscall.SIGCONT)
	w.note("%s goes on", at)
}

func (w *world) reviveAll() {
	w.t.Helper()
	for _, r := range w.Regions {
		if w.dead[r.Name] {
			w.Restart(r.Name)
			delete(w.dead, r.Name)
		}
	}
}
