package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// guarded starts a region whose HTTP API takes client certificates and tokens, and
// gives a function that makes clients of it; a file of "" is not given.
func guarded(t *testing.T) (f *fixture, folder *certs.Folder, dial func(cert, token string) *client.Client) {
	t.Helper()
	cfg := configure(t)
	dir := t.TempDir()
	folder = certs.NewFolder(dir)
	if _, err := folder.Init(makeMesh(t, cfg.ConfigStore.Embedded.Path), certs.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Issue(certs.RoleRegion, "us", certs.Options{Hosts: []string{"127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	ca, _ := folder.CAFiles()
	cert, key := folder.Files(certs.RoleRegion, "us")
	cfg.Listeners[1].Bind = "0.0.0.0:0"
	cfg.Listeners[1].TLS = &config.TLS{CA: ca, Cert: cert, Key: key}
	cfg.Admin.Tokens = []config.AdminToken{{Name: "grafana", Role: "viewer", TokenFile: filepath.Join(dir, "grafana")}}
	if err := os.WriteFile(cfg.Admin.Tokens[0].TokenFile, []byte("a-token-to-look-with\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Admin.Certificates = []config.AdminCertificate{{CN: "client chief", Role: "admin"}}
	f = start(t, cfg)
	_, port, _ := net.SplitHostPort(f.server.in.tcp["admin"].Addr().String())
	return f, folder, func(name, token string) *client.Client {
		t.Helper()
		c := client.Config{URL: "https://127.0.0.1:" + port, CACert: ca, Token: token}
		if name != "" {
			c.Cert, c.Key = folder.Files(certs.RoleClient, name)
		}
		conn, err := client.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
}

// makeMesh makes the mesh in an embedded store.
func makeMesh(t *testing.T, dir string) rhumb.UUID {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: dir})
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

// TestAdminRolesOverMutualTLS comes to a real region with certificates that were
// issued with and without roles, and with a token.
func TestAdminRolesOverMutualTLS(t *testing.T) {
	_, folder, dial := guarded(t)
	for name, access := range map[string]string{"looker": "viewer", "worker": "operator", "chief": "", "alice": ""} {
		if _, err := folder.Issue(certs.RoleClient, name, certs.Options{Access: access}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		cert, token string
		may         int // of: see topics, make a topic, see and make tenants
		text        string
	}{
		{"", "", 0, "RHUMB_TOKEN, or RHUMB_CERT"},
		{"alice", "", 0, "certificate of alice has no role here"},
		{"looker", "", 1, "looker has the role viewer"},
		{"worker", "", 2, "worker has the role operator"},
		{"chief", "", 3, ""}, // by the rule of the file
		{"", "a-token-to-look-with", 1, "grafana has the role viewer"},
		{"", "a-token-to-look-witH", 0, "the token is none of this region's"},
		{"chief", "a-token-to-look-with", 1, "grafana has the role viewer"}, // what is said outright counts
	} {
		conn := dial(c.cert, c.token)
		_, first := conn.Topics(t.Context())
		_, second := conn.CreateTopic(t.Context(), api.TopicSpec{Topic: "of-" + c.cert + "-" + c.token + "x"})
		_, third := conn.PutTenant(t.Context(), "acme", []byte("{}"), true)
		may := 0
		for _, err := range []error{first, second, third} {
			if err == nil {
				may++
				continue
			}
			if rhumb.KindOf(err) != rhumb.KindForbidden || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q with token %q: %v", c.cert, c.token, err)
			}
		}
		if may != c.may {
			t.Errorf("%q with token %q: %v, %v, %v", c.cert, c.token, first, second, third)
		}
	}
}

// TestAdminRefusesStrangersCertificates: one of another CA, or of a region, is
// refused, and told why.
func TestAdminRefusesStrangersCertificates(t *testing.T) {
	_, folder, dial := guarded(t)
	ca, err := folder.CA()
	if err != nil {
		t.Fatal(err)
	}
	other, err := certs.NewCA(ca.Mesh, 0)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := other.IssueClient("stranger", 0)
	if err != nil {
		t.Fatal(err)
	}
	region, err := ca.IssueRegion("eu", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]certs.Pair{"stranger": stranger, "eu": region} {
		if err := pair.Save(folder.Files(certs.RoleClient, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := dial(name, "").Topics(t.Context()); rhumb.KindOf(err) != rhumb.KindForbidden || !strings.Contains(err.Error(), "not taken") ||
			!strings.Contains(err.Error(), map[string]string{"stranger": "another CA", "eu": "another role"}[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokenFileThatIsGoneIsAProblem: nobody has the token until the file is back.
func TestTokenFileThatIsGoneIsAProblem(t *testing.T) {
	f, _, _ := guarded(t)
	file := f.cfg.Admin.Tokens[0].TokenFile
	if h := f.server.health(); len(h.Problems) != 0 {
		t.Errorf("at first: %v", h.Problems)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	h := f.server.health()
	if len(h.Problems) != 1 || h.Problems[0].Part != "admin token grafana" || !h.Ready {
		t.Errorf("without the file: %+v", h)
	}
}
