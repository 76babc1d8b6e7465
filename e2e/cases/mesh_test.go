package cases

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/cmd/rhumb/server"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// patience is how long a mesh may take to do what a test waits for.
const patience = time.Minute

// begin is when stories begin: a bubble's clock is at the year 2000, when what is
// derived from a clock is smaller than it ever is.
var begin = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// mesh is a few regions, all to all, and the network between them.
type mesh struct {
	*testing.T
	ctx    context.Context
	net    *network
	store  *embedded.Memory
	writer *configstore.Writer
	nodes  []*node
}

// node is one region, running or switched off.
type node struct {
	mesh   *mesh
	name   rhumb.RegionName
	ip     net.IP
	certs  *certs.Source
	fs     *vfs.Mem
	keeper *configstore.MemoryKeeper
	away   atomic.Bool // the store, for this region

	running *server.Server // nil: switched off
	socket  net.PacketConn
	cancel  context.CancelFunc
	ended   chan error // capacity 1: what Run returned
}

// run plays a story on a mesh of these regions, in virtual time.
func run(t *testing.T, names []rhumb.RegionName, story func(ms *mesh, nodes []*node)) {
	bubble.Test(t, func(t *testing.T) {
		ms := &mesh{T: t, ctx: t.Context(), net: newNetwork(), store: embedded.NewMemory()}
		defer ms.end()
		ms.pass(time.Until(begin))
		ms.writer = configstore.NewWriter(ms.store, "test")
		doc, err := ms.writer.EnsureMesh(ms.ctx)
		ms.must(err)
		ca, err := certs.NewCA(doc.UUID, 0)
		ms.must(err)
		for i, name := range names {
			ms.add(ca, name, i)
		}
		_, err = ms.writer.PutTenant(ms.ctx, rhumb.DefaultTenant, func(*configstore.Tenant) error { return nil })
		ms.must(err)
		ms.flowBetween(names)
		for _, n := range ms.nodes {
			n.start()
		}
		story(ms, ms.nodes)
	})
}

func (ms *mesh) must(err error) {
	ms.Helper()
	if err != nil {
		ms.Fatal(err)
	}
}

func (ms *mesh) add(ca *certs.CA, name rhumb.RegionName, i int) {
	n := &node{mesh: ms, name: name, ip: net.IPv4(10, 0, 0, byte(i+1)).To4()}
	pair, err := ca.IssueRegion(name, nil, 0)
	ms.must(err)
	n.certs, err = certs.New([]*x509.Certificate{ca.Cert}, pair)
	ms.must(err)
	n.fs, n.keeper = vfs.NewMem(vfs.MemConfig{}), &configstore.MemoryKeeper{}
	_, err = ms.writer.RegisterRegion(ms.ctx, configstore.Region{Name: name, Geo: []string{n.geo()}, State: configstore.RegionActive}, 0)
	ms.must(err)
	ms.nodes = append(ms.nodes, n)
}

// flowBetween lets public/default flow between these regions.
func (ms *mesh) flowBetween(names []rhumb.RegionName) {
	ms.Helper()
	_, err := ms.writer.PutNamespace(ms.ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: names}
		return nil
	})
	ms.must(err)
}

func (ms *mesh) end() {
	for _, n := range ms.nodes {
		n.kill()
	}
	ms.net.close()
}

// until waits for what is true soon.
func (ms *mesh) until(what string, done func() bool) {
	ms.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			ms.Fatalf("after %s: not %s", patience, what)
		}
	}
}

// pass lets virtual time go by.
func (ms *mesh) pass(d time.Duration) { time.Sleep(d) }

// path sets both directions between two regions.
func (ms *mesh) path(a, b *node, s relay.Settings) {
	ms.net.set(a.ip, b.ip, s)
	ms.net.set(b.ip, a.ip, s)
}

func (n *node) geo() string { return net.JoinHostPort(n.ip.String(), "7650") }

func (n *node) region() *region.Region { return n.running.Region() }

func (n *node) config() config.Config {
	cfg := config.Defaults()
	cfg.Region.Name, cfg.DataDir, cfg.Shards = n.name, "/data", 2
	cfg.Listeners = []config.Listener{{Name: "geo", Protocol: config.ProtocolGeo, Bind: n.geo()}}
	cfg.Limits.LogFile, cfg.Limits.DiskReserve = 1<<20, 0
	cfg.Limits.StateMemtable, cfg.Limits.StateCache = 1<<20, 1<<20
	cfg.MinFree = config.MinFree{}
	return cfg
}

// store is the mesh's store as one region reaches it, or does not.
type store struct {
	configstore.Store
	away *atomic.Bool
}

var errAway = rhumb.Errorf(rhumb.KindUnavailable, "the store is not reached from here")

// Get fails while the store is away, as List and Put do.
func (s *store) Get(ctx context.Context, key string) (configstore.Document, error) {
	if s.away.Load() {
		return configstore.Document{}, errAway
	}
	return s.Store.Get(ctx, key)
}

// List: see Get.
func (s *store) List(ctx context.Context, prefix string) ([]configstore.Document, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.List(ctx, prefix)
}

// Put: see Get.
func (s *store) Put(ctx context.Context, d configstore.Document) error {
	if s.away.Load() {
		return errAway
	}
	return s.Store.Put(ctx, d)
}

// start starts the region, which must work.
func (n *node) start() {
	n.mesh.Helper()
	if err := n.boot(); err != nil {
		n.mesh.Fatalf("region %s: %v", n.name, err)
	}
}

// boot starts the region and waits until it serves.
func (n *node) boot() error {
	s := server.New(n.config(), server.Options{
		FS: n.fs, Store: &store{n.mesh.store, &n.away}, Keeper: n.keeper, GeoTLS: n.certs,
		ListenGeo: func(string) (net.PacketConn, error) {
			n.socket = n.mesh.net.listen(n.ip)
			return n.socket, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var err error
	select {
	case <-s.Ready():
		n.running, n.cancel, n.ended = s, cancel, ended
		return nil
	case err = <-ended:
	case <-time.After(patience):
		s.Kill()
		err = errors.New("not ready in time")
	}
	cancel()
	return err
}

// kill cuts the power: what was not synced is gone.
func (n *node) kill() {
	if n.running == nil {
		return
	}
	after := n.fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
	n.socket.Close()
	n.running.Kill()
	<-n.ended
	n.cancel()
	n.fs, n.running = after, nil
}
