package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestCertificateOfAnotherIsNotTakenWhileRunning puts the certificate of another region,
// and one of another mesh, in the place of the region's own: at a start each of them is
// refused; in a region that runs the one before stays in use, and health says why.
func TestCertificateOfAnotherIsNotTakenWhileRunning(t *testing.T) {
	cfg := configure(t)
	store, err := embedded.Open(embedded.Config{Dir: cfg.ConfigStore.Embedded.Path})
	if err != nil {
		t.Fatal(err)
	}
	mesh, err := configstore.NewWriter(store, "test").EnsureMesh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	dir := t.TempDir()
	files := &config.TLS{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "us.crt"), Key: filepath.Join(dir, "us.key")}
	ca, err := certs.NewCA(mesh.UUID, 0)
	if err == nil {
		err = ca.Save(files.CA, filepath.Join(dir, "ca.key"))
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := certs.NewCA(rhumb.NewUUID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	put := func(ca *certs.CA, name rhumb.RegionName) {
		t.Helper()
		pair, err := ca.IssueRegion(name, nil, 0)
		if err == nil {
			err = pair.Save(files.Cert, files.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(ca, cfg.Region.Name)
	cfg.Listeners = append(cfg.Listeners, config.Listener{Name: "geo", Protocol: config.ProtocolGeo, Bind: "127.0.0.1:0", TLS: files})
	f := start(t, cfg)
	problem := func() string {
		for _, p := range f.server.health().Problems {
			if p.Part == "listener geo" {
				return p.State + ": " + p.Message
			}
		}
		return ""
	}
	inUse := func() certs.Identity {
		id, _ := f.server.in.certs["geo"].Current().Identity()
		return id
	}
	own := inUse()
	for _, c := range []struct {
		ca   *certs.CA
		name rhumb.RegionName
		want string
	}{{ca, "europe", "is that of region europe, this is region " + string(cfg.Region.Name)}, {other, cfg.Region.Name, "is of mesh " + other.Mesh.String()}} {
		put(c.ca, c.name)
		if text := problem(); !strings.Contains(text, "certificate refused") || !strings.Contains(text, c.want) || !strings.Contains(text, "stays in use") {
			t.Errorf("health says %q, want %q", text, c.want)
		}
		if inUse() != own {
			t.Errorf("%v is in use", inUse())
		}
	}
	put(ca, cfg.Region.Name)
	if text := problem(); text != "" || inUse() != own {
		t.Errorf("mended: %q", text)
	}
}
