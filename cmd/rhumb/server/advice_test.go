package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// flipIn flips a byte in each of the files that match, at a part of its length.
func flipIn(t *testing.T, part float64, pattern ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %v: %v", pattern, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[int(part*float64(len(text)))] ^= 0x55
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func removeFirst(t *testing.T, pattern ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %v: %v", pattern, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
}

// meshOf gives the mesh of a configuration's store.
func meshOf(t *testing.T, c *config.Config) rhumb.UUID {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: storePath(c), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mesh, err := configstore.NewWriter(store, "test").EnsureMesh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return mesh.UUID
}

// withCertificate adds a listener for links with a region's certificate of a mesh.
func withCertificate(t *testing.T, c *config.Config, mesh rhumb.UUID, name string) {
	t.Helper()
	folder := certs.NewFolder(t.TempDir())
	if _, err := folder.Init(mesh, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Issue(certs.RoleRegion, name, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	l := listen("geo", config.ProtocolGeo, "127.0.0.1:0")
	ca, _ := folder.CAFiles()
	cert, key := folder.Files(certs.RoleRegion, name)
	l.TLS = &config.TLS{CA: ca, Cert: cert, Key: key}
	c.Listeners = append(slices.Clone(c.Listeners), l)
}

func storePath(c *config.Config) string { return c.ConfigStore.Embedded.Path }

// refusals are ways to spoil what a stopped region needs, and what it then says.
var refusals = []struct {
	name  string
	spoil func(t *testing.T, c *config.Config)
	next  string
}{
	{"state database damaged", func(t *testing.T, c *config.Config) {
		flipIn(t, 0.1, c.DataDir, "state", "*.sst")
	}, "empty it and run 'rhumb region replace us --yes --config-store "},
	{"state database gone", func(t *testing.T, c *config.Config) {
		removeFirst(t, c.DataDir, "state", "*.sst")
	}, "rhumb log verify "},
	{"log file gone", func(t *testing.T, c *config.Config) { removeFirst(t, c.DataDir, "log", "*.log") }, "rhumb log verify "},
	{"FORMAT damaged", func(t *testing.T, c *config.Config) { flipIn(t, 0.5, c.DataDir, "FORMAT") }, "rhumb log verify "},
	{"other number of shards", func(_ *testing.T, c *config.Config) { c.Shards = 3 }, "correct the region's file"},
	{"directory in use", func(t *testing.T, c *config.Config) {
		lock, err := vfs.OS().Lock(filepath.Join(c.DataDir, "LOCK"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lock.Close() })
	}, "stop the process that uses the directory"},
	{"other data directory", func(t *testing.T, c *config.Config) { c.DataDir = t.TempDir() }, "add --config-store "},
	{"other mesh", func(t *testing.T, c *config.Config) {
		other := configure(t)
		g := start(t, other)
		g.stop()
		if err := g.end(); err != nil {
			t.Fatal(err)
		}
		c.ConfigStore = other.ConfigStore
	}, "correct config_store or data_dir in the region's file; or if it is the right store, which was emptied and in which somebody made a new mesh, remove that one's id ('rm "},
	{"other mesh at a first start", func(t *testing.T, c *config.Config) {
		withCertificate(t, c, rhumb.NewUUID(), "us")
		c.DataDir = t.TempDir()
	}, "correct config_store, data_dir or the links' certificate"},
	{"document damaged at a first start", func(t *testing.T, c *config.Config) {
		c.DataDir = t.TempDir()
		flipIn(t, 0.5, storePath(c), "rhumb", "v1", "mesh.*")
	}, "bring the configuration store"},
	{"address in use", func(t *testing.T, c *config.Config) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		c.Listeners = []config.Listener{listen("kafka", config.ProtocolKafka, l.Addr().String())}
	}, "change the listener's bind"},
	{"certificate of another region", func(t *testing.T, c *config.Config) {
		withCertificate(t, c, meshOf(t, c), "eu")
	}, "is that of region eu, this is region us: name the one that 'rhumb certs issue us' makes"},
	{"certificate of another mesh", func(t *testing.T, c *config.Config) {
		withCertificate(t, c, rhumb.NewUUID(), "us")
	}, "or the links' certificate, which is of mesh "},
	{"misspelled store at a first start", func(t *testing.T, c *config.Config) {
		withCertificate(t, c, meshOf(t, c), "us")
		c.DataDir, c.ConfigStore.Embedded.Path = t.TempDir(), filepath.Join(t.TempDir(), "confg")
		t.Cleanup(func() {
			if _, err := os.Stat(storePath(c)); err == nil {
				t.Error("a store was made by its misspelled name")
			}
		})
	}, "make it first with 'rhumb certs init --config-store "},
	{"data directory is a file", func(t *testing.T, c *config.Config) { c.DataDir = aFile(t) }, "data directory: "},
	{"data directory below a file", func(t *testing.T, c *config.Config) { c.DataDir = filepath.Join(aFile(t), "data") }, "correct data_dir in the region's file"},
	{"store is a file", func(t *testing.T, c *config.Config) { c.ConfigStore.Embedded.Path = aFile(t) }, "correct config_store.embedded.path"},
	{"no token for consul", func(t *testing.T, c *config.Config) {
		c.ConfigStore = config.ConfigStore{Consul: &config.ConsulStore{Address: "127.0.0.1:1", TokenFile: filepath.Join(t.TempDir(), "none")}}
	}, "no such file or directory; correct config_store.consul in the region's file, such as its token_file"},
	{"no CA for consul", func(t *testing.T, c *config.Config) {
		c.ConfigStore = config.ConfigStore{Consul: &config.ConsulStore{Address: "127.0.0.1:1", TLS: &config.ConsulTLS{CA: aFile(t)}}}
	}, "; correct config_store.consul in the region's file, such as its token_file and tls"},
	{"no certificate", func(_ *testing.T, c *config.Config) {
		c.Listeners = []config.Listener{listen("kafka", config.ProtocolKafka, "127.0.0.1:0")}
		c.Listeners[0].TLS = &config.TLS{Cert: "nowhere.crt", Key: "nowhere.key"}
	}, "rhumb certs show"},
}

// TestRefusalsAtStartSayWhatToDo spoils what a stopped region needs in one way after the
// other. The region does not start, and says why and what to do next in one line.
func TestRefusalsAtStartSayWhatToDo(t *testing.T) {
	seed := configure(t)
	f := start(t, seed)
	f.produce(f.client(f.kafka()), "orders", "first")
	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			cfg := seed
			files := *seed.ConfigStore.Embedded
			cfg.ConfigStore.Embedded = &files
			cfg.DataDir, files.Path = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "store")
			for from, to := range map[string]string{seed.DataDir: cfg.DataDir, storePath(&seed): storePath(&cfg)} {
				if err := os.CopyFS(to, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
			}
			c.spoil(t, &cfg)
			f := launch(t, cfg)
			err := f.end()
			if err == nil {
				t.Fatal("it started")
			}
			if text := err.Error(); !strings.Contains(text, c.next) || strings.ContainsAny(text, "\n\x00") || strings.Contains(text, "carrier") {
				t.Errorf("it says %q", text)
			}
			if log := f.log.String(); strings.Contains(log, "restart to recover") || strings.Contains(log, `\x00`) {
				t.Errorf("it logs %s", log)
			}
		})
	}
}

// TestAdviceKeepsTheStore: whoever empties the directory as told keeps a store that lies
// in it, so that the command that follows finds the region.
func TestAdviceKeepsTheStore(t *testing.T) {
	cfg := configure(t)
	cfg.ConfigStore.Embedded.Path = filepath.Join(cfg.DataDir, "config-store")
	f := start(t, cfg)
	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	flipIn(t, 0.5, cfg.DataDir, "FORMAT")
	err := launch(t, cfg).end()
	if want := "empty it but for config-store and run 'rhumb region replace us --yes --config-store " + storePath(&cfg) + "'"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it says %v, want %s", err, want)
	}
	for store, want := range map[string]string{"/a/data/x/y": " but for x/y", "/a/data-2": "", "/a/data": " but for the configuration store in it", "/a": "", "/a/..b": "", "/a/data/..b": " but for ..b"} {
		s := New(config.Config{DataDir: "/a/data", ConfigStore: config.ConfigStore{Embedded: &config.EmbeddedStore{Path: store}}}, Options{})
		if got := s.butForStore(); got != want {
			t.Errorf("store %s: %q, want %q", store, got, want)
		}
	}
}

// TestEndIsToldOnce joins what closing says with the cause, in one line.
func TestEndIsToldOnce(t *testing.T) {
	cause := fmt.Errorf("disk burns")
	again, other := fmt.Errorf("failed before: %w", cause), fmt.Errorf("two\nlines")
	err := together(&advised{fmt.Errorf("storage ended: %w", cause), "put it out"}, again, nil, other)
	if want := "storage ended: disk burns; put it out; two; lines"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := together(nil, nil); err != nil {
		t.Error(err)
	}
}

// aFile gives the name of a file.
func aFile(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "eu.log")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestHintsQuotePaths: a command that a person is told to type works with any path.
func TestHintsQuotePaths(t *testing.T) {
	for path, want := range map[string]string{
		"/var/lib/rhumb": "/var/lib/rhumb", "/data/größe": "/data/größe", "": `""`,
		"conf store": `"conf store"`, `a"b`: `"a\"b"`, "$HOME": `"\$HOME"`, "a`b": "\"a\\`b\"", `a\b`: `"a\\b"`, "it's": `"it's"`, "a;b": `"a;b"`,
	} {
		if got := shellWord(path); got != want {
			t.Errorf("%q is written %s, want %s", path, got, want)
		}
	}
}
