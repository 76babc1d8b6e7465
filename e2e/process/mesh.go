package process

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul/consultest"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/porttest"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Mesh is a mesh of `rhumb server` processes that share a configuration store,
// each pair with a relay between them. public/default flows between all.
type Mesh struct {
	Dir     string
	Regions []*Region
	// Consul is the agent that holds the configuration; nil: a directory does.
	Consul *consultest.Agent

	// bare: regions reach each other without relays.
	bare bool

	t      testing.TB
	begin  time.Time
	relays map[string]*relay.Relay // by "a-b"
	limits string                  // of the regions' files
	before func(*Region) string    // a line of shell that each process starts with, nil: none
}

// smallLimits make files end, and what is read leave memory, with little data.
const smallLimits = "{log_file: 4MiB, disk_reserve: 4MiB, tail_cache: 1MiB}"

// Region is one region of a mesh.
type Region struct {
	Name              rhumb.RegionName
	Config            string // path of its file
	Kafka, Admin, Geo string // host:port

	running *Process
	lives   int // how often it was started
}

// Start makes a mesh as an operator would and waits until it is ready.
func Start(t testing.TB, names ...rhumb.RegionName) *Mesh {
	t.Helper()
	return start(&Mesh{t: t, limits: smallLimits}, names)
}

// StartWithLimits is Start with limits as they stand in the regions' files.
func StartWithLimits(t testing.TB, limits string, names ...rhumb.RegionName) *Mesh {
	t.Helper()
	return start(&Mesh{t: t, limits: limits}, names)
}

// StartBare is Start for a mesh that is measured: nothing lies between its regions, and
// they have the default limits.
func StartBare(t testing.TB, names ...rhumb.RegionName) *Mesh {
	t.Helper()
	return start(&Mesh{t: t, limits: "{}", bare: true}, names)
}

// start starts a mesh that is not started.
func start(m *Mesh, names []rhumb.RegionName) *Mesh {
	t := m.t
	t.Helper()
	m.Dir, m.begin, m.relays = t.TempDir(), time.Now(), map[string]*relay.Relay{}
	offset := porttest.Offset(t, len(names))
	for i, name := range names {
		p := config.PortsOf(i, 0)
		at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port+offset) }
		m.Regions = append(m.Regions, &Region{Name: name, Kafka: at(p.Kafka), Admin: at(p.HTTP), Geo: at(p.Geo),
			Config: filepath.Join(m.Dir, string(name)+".yaml")})
	}
	if !m.bare {
		m.openRelays()
	}
	if err := m.seed(context.Background(), names); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Regions {
		m.writeConfig(r)
		m.launch(r)
	}
	for _, r := range m.Regions {
		m.awaitReady(r)
	}
	return m
}

// note tells what happens, and when.
func (m *Mesh) note(format string, args ...any) {
	m.t.Helper()
	m.t.Logf("%6s %s", time.Since(m.begin).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

func (m *Mesh) openRelays() {
	for i, a := range m.Regions {
		for _, b := range m.Regions[i+1:] {
			m.openRelay(a, b)
		}
	}
}

func (m *Mesh) openRelay(a, b *Region) {
	m.t.Helper()
	r, err := relay.Listen(relay.Config{A: a.Geo, B: b.Geo, Seed: uint64(len(m.relays))})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	m.t.Cleanup(func() { cancel(); <-ended })
	m.relays[string(a.Name)+"-"+string(b.Name)] = r
}

// seed writes what `rhumb server` does not: the policy and the certificates.
func (m *Mesh) seed(ctx context.Context, names []rhumb.RegionName) error {
	store, err := m.openStore("region")
	if err != nil {
		return err
	}
	defer store.Close()
	w := configstore.NewWriter(store, "test")
	mesh, err := w.EnsureMesh(ctx)
	if err != nil {
		return err
	}
	ca, err := certs.NewCA(mesh.UUID, 0)
	if err != nil {
		return err
	}
	if err := ca.Save(filepath.Join(m.Dir, "ca.crt"), filepath.Join(m.Dir, "ca.key")); err != nil {
		return err
	}
	for _, r := range m.Regions {
		pair, err := ca.IssueRegion(r.Name, []string{"127.0.0.1"}, 0)
		if err != nil {
			return err
		}
		file := filepath.Join(m.Dir, "region-"+string(r.Name)) // as rhumb certs names it
		if err := pair.Save(file+".crt", file+".key"); err != nil {
			return err
		}
		doc := configstore.Region{Name: r.Name, Geo: []string{r.Geo}, State: configstore.RegionActive, Addresses: map[string][]string{
			configstore.ProtocolKafka: {r.Kafka}, configstore.ProtocolAdmin: {r.Admin}}}
		if _, err := w.RegisterRegion(ctx, doc, 0); err != nil {
			return err
		}
	}
	if _, err := w.PutTenant(ctx, rhumb.DefaultTenant, func(*configstore.Tenant) error { return nil }); err != nil {
		return err
	}
	_, err = w.PutNamespace(ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: names}
		return nil
	})
	return err
}

// logWrites has eu write its log through the page cache and the others past it, whatever
// this machine's file system makes the default: both ways, regions are killed and compared.
func logWrites(region rhumb.RegionName) config.LogWrites {
	if region == "eu" {
		return config.LogWritesCached
	}
	return config.LogWritesDirect
}

// writeConfig writes the region's file by hand, as an operator does: relative
// paths, and only what differs from the defaults.
func (m *Mesh) writeConfig(r *Region) {
	var b strings.Builder
	fmt.Fprintf(&b, `region: {name: %[1]s}
data_dir: data-%[1]s
log_writes: %[7]s
shards: 4
config_store: %[5]s
listeners:
  - {protocol: kafka, bind: "%[2]s"}
  - {protocol: admin, bind: "%[3]s"}
  - protocol: geo
    bind: "%[4]s"
    tls: {ca: ca.crt, cert: region-%[1]s.crt, key: region-%[1]s.key}
limits: %[6]s
min_free: {percent: 0, bytes: 64MiB}
groups: {initial_rebalance_delay: 0s}
shutdown_grace: 50s
log: {level: info}
`, r.Name, r.Kafka, r.Admin, r.Geo, m.storeConfig(), m.limits, logWrites(r.Name))
	if !m.bare {
		m.writeLinks(&b, r)
	}
	if err := os.WriteFile(r.Config, []byte(b.String()), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// writeLinks writes that a region reaches the others over relays.
func (m *Mesh) writeLinks(b *strings.Builder, r *Region) {
	b.WriteString("links:\n")
	for _, peer := range m.Regions {
		if peer != r {
			link, way := m.link(r.Name, peer.Name)
			via := link.FrontA()
			if way == relay.BToA {
				via = link.FrontB()
			}
			fmt.Fprintf(b, "  - {region: %s, via: \"%s\"}\n", peer.Name, via)
		}
	}
}

func (m *Mesh) launch(r *Region) {
	m.t.Helper()
	r.lives++
	if m.before != nil {
		r.running = LaunchAfter(m.t, m.before(r), "server", "--config", r.Config)
	} else {
		r.running = Launch(m.t, nil, "server", "--config", r.Config)
	}
	p, life := r.running, r.lives
	m.t.Cleanup(func() {
		if m.t.Failed() {
			m.t.Logf("%s, life %d:\n%s", r.Name, life, lastLines(p.Output(), 40))
		}
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (m *Mesh) awaitReady(r *Region) {
	m.t.Helper()
	Until(m.t, string(r.Name)+" is ready", func() bool {
		select {
		case <-r.running.Ended():
			m.t.Fatalf("%s ended instead of being ready:\n%s", r.Name, r.running.Output())
		default:
		}
		return Ready(r.Admin) == http.StatusOK
	})
}

// Ready gives the status code of a region's /readyz, 0 if nobody answers.
func Ready(admin string) int {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + admin + "/readyz")
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Region finds a region by its name.
func (m *Mesh) Region(name rhumb.RegionName) *Region {
	m.t.Helper()
	i := slices.IndexFunc(m.Regions, func(r *Region) bool { return r.Name == name })
	if i < 0 {
		m.t.Fatalf("no region %s", name)
	}
	return m.Regions[i]
}

// Process gives the region's process, the last one if it does not run.
func (r *Region) Process() *Process { return r.running }

// Kill kills a region's process with SIGKILL.
func (m *Mesh) Kill(name rhumb.RegionName) {
	m.t.Helper()
	m.note("kill -9 %s", name)
	m.Region(name).running.Kill()
}

// Restart starts a region that was stopped or killed and waits until it is ready.
func (m *Mesh) Restart(name rhumb.RegionName) {
	m.t.Helper()
	r := m.Region(name)
	begin := time.Now()
	m.launch(r)
	m.awaitReady(r)
	m.note("%s is ready again after %s", name, time.Since(begin).Round(time.Millisecond))
}

// Stop stops all regions with SIGTERM; each must exit with 0.
func (m *Mesh) Stop() {
	m.t.Helper()
	for _, r := range m.Regions {
		r.running.Signal(syscall.SIGTERM)
	}
	for _, r := range m.Regions {
		if code := r.running.Wait(); code != 0 {
			m.t.Errorf("%s exits with %d after SIGTERM:\n%s", r.Name, code, lastLines(r.running.Output(), 20))
		}
	}
}

func (m *Mesh) link(from, to rhumb.RegionName) (*relay.Relay, relay.Direction) {
	if r := m.relays[string(from)+"-"+string(to)]; r != nil {
		return r, relay.AToB
	}
	if r := m.relays[string(to)+"-"+string(from)]; r != nil {
		return r, relay.BToA
	}
	m.t.Fatalf("no link between %s and %s", from, to)
	return nil, 0
}

// Link changes the network from one region to another, for example "cut=true".
func (m *Mesh) Link(from, to rhumb.RegionName, settings string) {
	m.t.Helper()
	m.note("link %s>%s: %s", from, to, settings)
	r, way := m.link(from, to)
	if err := r.Change(way, settings); err != nil {
		m.t.Fatal(err)
	}
}

// Heal makes every link perfect.
func (m *Mesh) Heal() {
	for _, r := range m.relays {
		r.Set(relay.Both, relay.Settings{})
	}
}

// Run runs a command that asks the first region.
func (m *Mesh) Run(args ...string) Result {
	m.t.Helper()
	return Run(m.t, []string{"RHUMB_ADDR=http://" + m.Regions[0].Admin}, args...)
}
