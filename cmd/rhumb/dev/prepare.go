package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Sizes of a development mesh: several regions share one machine.
const (
	devMinFree  = 64 << 20
	devReserve  = 4 << 20
	devLogFile  = 32 << 20
	devCache    = 32 << 20
	devBlocks   = 8 << 20
	devMemtable = 4 << 20
	devShards   = 8

	devCompactionKeys = 8 << 20
)

// writer is who writes the documents of a development mesh.
const writer = "rhumb dev"

// prepare makes what an operator would: the mesh's documents, its certificates
// and a file for each region. What is there already stays.
func (m *mesh) prepare(ctx context.Context) error {
	var err error
	geo := map[rhumb.RegionName]string{}
	for _, r := range m.regions {
		geo[r.name] = r.at.geo
		if err := os.MkdirAll(m.regionDir(r.name), 0o755); err != nil {
			return err
		}
	}
	meshDoc, err := m.seedStore(ctx)
	if err != nil {
		return err
	}
	if err := m.makeCerts(meshDoc.UUID); err != nil {
		return err
	}
	if m.links, err = openLinks(m.opts.Regions, func(n rhumb.RegionName) string { return geo[n] }); err != nil {
		return err
	}
	for _, r := range m.regions {
		if err := m.writeConfig(r); err != nil {
			m.links.close()
			return err
		}
	}
	return nil
}

// storeName is the configuration store's directory in that of the mesh.
const storeName = "config-store"

// regionsName is the directory of the regions in that of the mesh.
const regionsName = "regions"

func (m *mesh) storeDir() string { return filepath.Join(m.dir, storeName) }

// openStore opens the mesh's configuration store.
func (m *mesh) openStore() (configstore.Store, error) {
	if m.opts.Consul != nil {
		return consul.Open(*m.opts.Consul)
	}
	return embedded.Open(embedded.Config{Dir: m.storeDir()})
}

// storeConfig is the store in the regions' files.
func (m *mesh) storeConfig() config.ConfigStore {
	if m.opts.Consul != nil {
		return config.ConfigStore{Consul: config.ConsulOf(*m.opts.Consul)}
	}
	return config.ConfigStore{Embedded: &config.EmbeddedStore{Path: m.storeDir()}}
}

// seedStore registers the regions, in order, and lets public/default flow
// between all of them.
func (m *mesh) seedStore(ctx context.Context) (configstore.Mesh, error) {
	store, err := m.openStore()
	if err != nil {
		return configstore.Mesh{}, err
	}
	defer store.Close()
	w := configstore.NewWriter(store, writer)
	meshDoc, err := w.EnsureMesh(ctx)
	if err != nil {
		return meshDoc, err
	}
	for _, r := range m.regions {
		doc := configstore.Region{
			Name: r.name, Geo: []string{r.at.geo}, State: configstore.RegionActive,
			Addresses: map[string][]string{configstore.ProtocolKafka: {r.at.kafka}, configstore.ProtocolAdmin: {r.at.admin}},
		}
		if err := register(ctx, store, w, doc); err != nil {
			return meshDoc, fmt.Errorf("register region %s: %w", r.name, err)
		}
	}
	if _, err := w.PutTenant(ctx, rhumb.DefaultTenant, func(*configstore.Tenant) error { return nil }); err != nil {
		return meshDoc, err
	}
	_, err = w.PutNamespace(ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: m.opts.Regions}
		return nil
	})
	return meshDoc, err
}

// register writes the region's document if there is none yet; a region that is
// there brings it up to date itself when it starts.
func register(ctx context.Context, store configstore.Store, w *configstore.Writer, doc configstore.Region) error {
	_, err := store.Get(ctx, configstore.RegionKey(doc.Name))
	if errors.Is(err, configstore.ErrNotFound) {
		_, err = w.RegisterRegion(ctx, doc, 0)
	}
	return err
}

func (m *mesh) certFiles(name string) (cert, key string) {
	dir := filepath.Join(m.dir, "certs")
	return filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
}

// makeCerts makes the mesh's CA and a certificate for each region.
func (m *mesh) makeCerts(id rhumb.UUID) error {
	caCert, caKey := m.certFiles("ca")
	if err := os.MkdirAll(filepath.Dir(caCert), 0o700); err != nil {
		return err
	}
	ca, err := certs.LoadCA(caCert, caKey)
	if errors.Is(err, fs.ErrNotExist) {
		if ca, err = certs.NewCA(id, 0); err == nil {
			err = ca.Save(caCert, caKey)
		}
	}
	if err != nil {
		return err
	}
	for _, r := range m.regions {
		cert, key := m.certFiles("region-" + string(r.name))
		pair, err := ca.IssueRegion(r.name, []string{"localhost", "127.0.0.1", "::1"}, 0)
		if err != nil {
			return err
		}
		if err := pair.Save(cert, key); err != nil {
			return err
		}
	}
	return nil
}

// writeConfig writes the region's file, which `rhumb server` reads too.
func (m *mesh) writeConfig(r *region) error {
	ca, _ := m.certFiles("ca")
	cert, key := m.certFiles("region-" + string(r.name))
	cfg := config.Defaults()
	cfg.Region.Name = r.name
	cfg.DataDir = filepath.Join(m.regionDir(r.name), "data")
	cfg.Shards = devShards
	cfg.LogWrites = config.LogWritesCached // direct gains nothing where regions and clients share a machine
	cfg.ConfigStore = m.storeConfig()
	cfg.Listeners = []config.Listener{
		{Name: config.ProtocolKafka, Protocol: config.ProtocolKafka, Bind: r.at.kafka},
		{Name: config.ProtocolAdmin, Protocol: config.ProtocolAdmin, Bind: r.at.admin},
		{Name: config.ProtocolGeo, Protocol: config.ProtocolGeo, Bind: r.at.geo, TLS: &config.TLS{CA: ca, Cert: cert, Key: key}},
	}
	cfg.MinFree = config.MinFree{Bytes: devMinFree}
	cfg.Limits.DiskReserve, cfg.Limits.LogFile = devReserve, devLogFile
	cfg.Limits.TailCache, cfg.Limits.StateMemtable, cfg.Limits.StateCache = devCache, devMemtable, devMemtable
	cfg.Limits.ReadCache, cfg.Limits.CompactionKeys = devBlocks, devCompactionKeys
	cfg.Groups.InitialRebalanceDelay = 0
	cfg.ShutdownGrace = config.Duration(stopGrace / 2)
	for _, peer := range slices.DeleteFunc(slices.Clone(m.opts.Regions), func(n rhumb.RegionName) bool { return n == r.name }) {
		cfg.Links = append(cfg.Links, config.Link{Region: peer, Via: m.links.via(r.name, peer)})
	}
	text, err := yaml.Marshal(cfg)
	if err != nil {
		return err
	}
	r.config = filepath.Join(m.regionDir(r.name), "region.yaml")
	return os.WriteFile(r.config, text, 0o644)
}
