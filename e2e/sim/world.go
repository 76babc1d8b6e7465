package sim

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator/paths"
)

// settleLimit is how long a healed mesh may take until every watermark has
// reached its origin's end.
const settleLimit = 3 * time.Minute

// settleLimitPaths is the limit where a gap may have to wait until it is clear that no
// path has the records.
const settleLimitPaths = settleLimit + paths.Grace

// errAway is the answer of a host that is switched off.
var errAway = rhumb.Errorf(rhumb.KindUnavailable, "sim: region is switched off")

// world is one run: the hosts, the network between them, what clients were told.
type world struct {
	seed  uint64
	plan  plan
	start time.Time
	net   *network
	store *embedded.Memory
	hosts []*host

	// power guards hosts' running: who uses a region takes 1, who switches takes
	// all. Not a mutex: under virtual time, who waits for one stops the clock.
	power       *semaphore.Weighted
	truth       truth
	shape       shape                // the topology now
	may         map[int]map[int]bool // for each region: where its records may be, by all topologies so far
	changes     int                  // of the topology
	resolutions []resolved           // of the end

	notes     sync.Mutex
	log       strings.Builder
	lagChecks int // flows whose lag was held against the truth
}

func newWorld(seed uint64, p plan) (*world, error) {
	w := &world{seed: seed, plan: p, start: time.Now(), net: newNetwork(seed), store: embedded.NewMemory(),
		power: semaphore.NewWeighted(everybody)}
	w.truth.init()
	ctx := context.Background()
	writer := configstore.NewWriter(w.store, "sim")
	mesh, err := writer.EnsureMesh(ctx)
	if err != nil {
		return nil, err
	}
	ca, err := certs.NewCA(mesh.UUID, 0)
	if err != nil {
		return nil, err
	}
	for i := range p.regions {
		h := &host{name: rhumb.RegionName(fmt.Sprintf("r%d", i)), ip: net.IPv4(10, 0, 0, byte(i+1)).To4()}
		w.hosts = append(w.hosts, h)
		pair, err := ca.IssueRegion(h.name, nil, 0)
		if err != nil {
			return nil, err
		}
		if h.certs, err = certs.New([]*x509.Certificate{ca.Cert}, pair); err != nil {
			return nil, err
		}
		h.wipe()
		doc := configstore.Region{Name: h.name, Geo: []string{net.JoinHostPort(h.ip.String(), "7650")}, State: configstore.RegionActive}
		if _, err := writer.RegisterRegion(ctx, doc, 0); err != nil {
			return nil, err
		}
	}
	if _, err := writer.PutTenant(ctx, rhumb.DefaultTenant, func(*configstore.Tenant) error { return nil }); err != nil {
		return nil, err
	}
	first := fullMesh(p.regions)
	if len(p.shapes) > 0 {
		first = p.shapes[0]
	}
	return w, w.change(first)
}

// note adds a line to the event log.
func (w *world) note(format string, args ...any) {
	w.notes.Lock()
	defer w.notes.Unlock()
	fmt.Fprintf(&w.log, "%9s %s\n", time.Since(w.start).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

func (w *world) logger(name rhumb.RegionName) *slog.Logger {
	return slog.New(lineHandler{w: w}).With("at", name)
}

// everybody is more than may use regions at once.
const everybody = 1 << 20

func (w *world) take(n int64) {
	if err := w.power.Acquire(context.Background(), n); err != nil {
		panic(err) // its context never ends
	}
}

// use calls f with the host's region, which is not switched off meanwhile.
func (w *world) use(i int, f func(*region.Region) error) error {
	w.take(1)
	defer w.power.Release(1)
	r := w.hosts[i].region()
	if r == nil {
		return errAway
	}
	return f(r)
}

func topicName(i int) rhumb.Topic {
	return rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: rhumb.TopicName(fmt.Sprintf("t%d", i))}
}

// errResolving says that partitions go on under new lives.
var errResolving = errors.New("partitions were given new lives")

// run plays the schedule under traffic, heals everything and waits until the
// mesh has settled.
func (w *world) run() error {
	defer w.end()
	for i := range w.hosts {
		if err := w.switchOn(i); err != nil {
			return err
		}
	}
	for i := range w.plan.topics {
		if err := w.createTopic(i%len(w.hosts), i); err != nil {
			return err
		}
		w.createEverywhere(i)
	}
	traffic, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for r := range w.hosts {
		for t := range w.plan.topics {
			clients.Go(func() { w.produce(traffic, r, t) })
		}
	}
	err := w.play()
	stop()
	clients.Wait()
	if err != nil {
		return err
	}
	if err := w.healAll(); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	return w.check()
}

func (w *world) play() error {
	rng := rand.New(rand.NewPCG(w.seed, 0x6c6167))
	for _, e := range w.plan.schedule(w.seed) {
		if err := w.sleepUntil(w.start.Add(e.at), rng); err != nil {
			return err
		}
		w.note("FAULT %s", e)
		if err := w.do(e); err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
	}
	return nil
}

func (w *world) healAll() error {
	w.note("FAULT all is healed")
	for i, a := range w.hosts {
		if err := w.switchOn(i); err != nil {
			return err
		}
		for _, b := range w.hosts {
			if a != b {
				w.net.set(a.ip, b.ip, relay.Settings{Delay: 10 * time.Millisecond})
			}
		}
	}
	for t := range w.plan.topics {
		if err := w.createTopic(t%len(w.hosts), t); err != nil {
			w.note("create %s: %v", topicName(t).Name, err)
		}
		w.createEverywhere(t)
	}
	return nil
}

// settle waits until nothing is missing anywhere.
func (w *world) settle() error {
	limit := settleLimit
	if len(w.plan.shapes) > 0 {
		limit = settleLimitPaths
	}
	deadline := time.Now().Add(limit)
	for {
		err := w.unsettled()
		if err == nil {
			any, bad := w.resolve()
			switch {
			case bad != nil:
				err = bad
			case !any:
				return nil
			default:
				err = errResolving
			}
		}
		if time.Now().After(deadline) {
			w.describe()
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// describe writes the state of every link, and where every goroutine is, into
// the event log.
func (w *world) describe() {
	stacks := make([]byte, 8<<20)
	w.note("goroutines:\n%s", stacks[:runtime.Stack(stacks, true)])
	for _, h := range w.hosts {
		for _, l := range h.running.Links().Status().Links {
			w.note("%s: link to %s is %s", h.name, l.Peer, l.State)
			for _, p := range l.Partitions {
				w.note("%s: to %s: %+v", h.name, l.Peer, p)
			}
		}
		for t := range w.plan.topics {
			for _, p := range partitionsOf(h.region(), topicName(t)) {
				st, _ := h.region().State(p.Ref)
				w.note("%s: %+v gaps %v", h.name, st, h.region().Gaps(p.Ref))
			}
		}
	}
}

// end switches everything off, so that no goroutine outlives the run.
func (w *world) end() {
	for i := range w.hosts {
		w.switchOff(i, func(h *host) error { h.crash(w.seed); return nil })
	}
	w.net.close()
}

func (w *world) switchOn(i int) error {
	w.take(everybody)
	defer w.power.Release(everybody)
	if w.hosts[i].running != nil {
		return nil
	}
	return w.hosts[i].boot(w)
}

func (w *world) switchOff(i int, how func(*host) error) error {
	w.take(everybody)
	defer w.power.Release(everybody)
	return how(w.hosts[i])
}

func (w *world) createTopic(at, topic int) error {
	return w.use(at, func(r *region.Region) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		name := topicName(topic)
		count := w.deletions(r, name)
		_, err := r.CreateTopic(ctx, region.TopicSpec{Topic: name, Partitions: 1, Deletions: count})
		if t, ok := r.Topic(name); ok && t.Deletions >= count {
			return nil // another region's creation arrived first
		}
		return err
	})
}

// createEverywhere creates a topic where no edge leads to from others that have it.
func (w *world) createEverywhere(topic int) {
	if len(w.plan.shapes) == 0 {
		return
	}
	for i := range w.hosts {
		if err := w.createTopic(i, topic); err != nil {
			w.note("create %s in r%d: %v", topicName(topic).Name, i, err)
		}
	}
}

// deletions is the count that a topic is born under: the highest that the
// region or the store knows.
func (w *world) deletions(r *region.Region, name rhumb.Topic) uint64 {
	return max(r.Deletions(name), w.truth.deletionsOf(name))
}
