package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin"
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
	cfg.Admin.Certificates = []config.AdminCertificate{{CN: "chief", Role: "admin"}}
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
		{"alice", "", 0, "certificate of alice has no role here: issue one with 'rhumb certs issue --client --role', or give its subject, CN=alice, a role"},
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

// TestTenantAdminOverMutualTLS comes to a real region as somebody whom a tenant names:
// he makes namespaces and topics there, and nothing else.
func TestTenantAdminOverMutualTLS(t *testing.T) {
	_, folder, dial := guarded(t)
	for name, access := range map[string]string{"team": "tenant", "chief": ""} {
		if _, err := folder.Issue(certs.RoleClient, name, certs.Options{Access: access}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, chief, team := t.Context(), dial("chief", ""), dial("team", "")
	forbidden := func(what string, err error) {
		t.Helper()
		if rhumb.KindOf(err) != rhumb.KindForbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := team.Topics(ctx)
	forbidden("before a tenant names it", err)
	for tenant, text := range map[rhumb.Tenant]string{"acme": `{"admin_roles": ["team"]}`, "other": `{}`} {
		if _, err := chief.PutTenant(ctx, tenant, []byte(text), true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := chief.PutNamespace(ctx, rhumb.Space{Tenant: "other", Namespace: "n"}, []byte(`{}`), true); err != nil {
		t.Fatal(err)
	}
	if _, err := chief.CreateTopic(ctx, api.TopicSpec{Topic: "persistent://other/n/secret"}); err != nil {
		t.Fatal(err)
	}
	if _, err := team.PutNamespace(ctx, rhumb.Space{Tenant: "acme", Namespace: "n"}, []byte(`{"topology": {"full-mesh": []}}`), true); err != nil {
		t.Error(err)
	}
	_, err = team.CreateTopic(ctx, api.TopicSpec{Topic: "persistent://acme/n/t"})
	if all, listed := team.Topics(ctx); err != nil || listed != nil || len(all) != 1 || all[0].Topic != "persistent://acme/n/t" {
		t.Errorf("%v, %v: it sees %+v", err, listed, all)
	}
	_, err = team.PutTenant(ctx, "acme", []byte(`{"admin_roles": ["team", "friend"]}`), false)
	forbidden("its own tenant", err)
	_, err = team.PutNamespace(ctx, rhumb.Space{Tenant: "other", Namespace: "n"}, []byte(`{}`), true)
	forbidden("another tenant's namespace", err)
	_, err = team.CreateTopic(ctx, api.TopicSpec{Topic: "persistent://other/n/t"})
	forbidden("another tenant's topic", err)
	_, err = team.Member(ctx, "us")
	forbidden("a region", err)
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

// TestTokensOfOneSecretAreAProblem: an admin's token that was copied into a viewer's file
// is a viewer's, wherever it stands in the region's file, and health says so.
func TestTokensOfOneSecretAreAProblem(t *testing.T) {
	f, _, _ := guarded(t)
	file := filepath.Join(filepath.Dir(f.cfg.Admin.Tokens[0].TokenFile), "other")
	for _, c := range []struct{ first, second string }{{"admin", "viewer"}, {"viewer", "admin"}} {
		if err := os.WriteFile(file, []byte("a-token-to-look-with"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := &config.Config{Admin: config.Admin{Tokens: []config.AdminToken{
			{Name: "first", Role: c.first, TokenFile: f.cfg.Admin.Tokens[0].TokenFile}, {Name: "second", Role: c.second, TokenFile: file}}}}
		s := &Server{cfg: *cfg}
		tokens, err := s.openTokens()
		if err != nil {
			t.Fatal(err)
		}
		shared := tokens.Shared()
		for name, other := range shared {
			if other.Role.String() != "viewer" || other.Name == name {
				t.Errorf("%s is taken for %+v", name, other)
			}
		}
		if len(shared) != 1 {
			t.Errorf("%v is shared", shared)
		}
	}
	problems := map[string]string{}
	f.server.in.tokens, _ = admin.OpenTokens([]admin.Token{{Name: "token", Role: admin.RoleAdmin, File: file}, {Name: "grafana", Role: admin.RoleViewer, File: file}})
	f.server.tokenProblems(func(part, state, format string, args ...any) { problems[part+" "+state] = fmt.Sprintf(format, args...) })
	if text := problems["admin token token shared"]; len(problems) != 1 || !strings.Contains(text, "same as the token grafana, so whoever shows it is grafana with the role viewer") {
		t.Errorf("health says %q", problems)
	}
}
