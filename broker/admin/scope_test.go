package admin_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// shared is the sample with a tenant "mine" that the-tenant and the-viewer administer;
// all else of it is other tenants'.
func shared(t testing.TB) *admintest.Region {
	us := sample(t)
	w := us.Config().Documents.Writer()
	if _, err := w.PutTenant(t.Context(), "mine", func(d *configstore.Tenant) error {
		d.AdminRoles = []string{"the-tenant", "the-viewer"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.PutNamespace(t.Context(), "mine", "n", func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: []rhumb.RegionName{}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	own := rhumb.Topic{Tenant: "mine", Namespace: "n", Name: "letters"}
	if _, err := us.CreateTopic(t.Context(), own, 1, nil); err != nil {
		t.Fatal(err)
	}
	cfg := us.Config()
	link := cfg.Links()[0]
	link.State, link.LastError = "refused", "public/default/orders: a batch that it does not take"
	link.Out = admin.Flow{LagRecords: 77, LagBytes: 7777, Records: 777, Bytes: 77777}
	link.Partitions = append(link.Partitions, admin.LinkPartition{Out: true, Topic: own, Region: 1, State: "idle", LagRecords: 3, LagBytes: 30})
	link.Pauses = append(link.Pauses, admin.Pause{Space: own.Space(), By: "ann"})
	us.SetLinks(link)
	us.SetPaths(append(cfg.Paths(), admin.OriginPaths{Topic: own, Region: 2})...)
	us.SetMesh(cfg.Regions(), append(cfg.Edges(), admin.Edge{Tenant: "mine", Namespace: "n", From: "us", To: "eu"}))
	return us
}

// scopedCalls has, for each call that looks at a request's scope itself, one about the
// caller's own tenant with a word that its answer must have; and for those that take
// something, one about another tenant.
var scopedCalls = map[string]struct{ target, body, has, otherTarget, otherBody string }{
	"GET /admin/v1/openapi.yaml": {target: "/admin/v1/openapi.yaml", has: "x-tenant"},
	"GET /admin/v1/region":       {target: "/admin/v1/region", has: `"problems":[]`},
	"GET /admin/v1/regions":      {target: "/admin/v1/regions", has: "eu.example:8180"},
	"GET /admin/v1/edges":        {target: "/admin/v1/edges", has: `"tenant":"mine"`},
	"GET /admin/v1/links":        {target: "/admin/v1/links", has: `"lag_records":"3","lag_bytes":"30"`},
	"GET /admin/v1/paths":        {target: "/admin/v1/paths", has: "mine/n/letters"},
	"GET /admin/v1/diverged":     {target: "/admin/v1/diverged", has: `"diverged":[]`},
	"GET /admin/v1/topics":       {target: "/admin/v1/topics", has: "mine/n/letters"},
	"POST /admin/v1/topics": {target: "/admin/v1/topics", body: `{"topic": "persistent://mine/n/new", "partitions": 1}`, has: "mine/n/new",
		otherTarget: "/admin/v1/topics", otherBody: `{"topic": "orders2", "partitions": 1}`},
	"GET /admin/v1/gaps":       {target: "/admin/v1/gaps", has: `"gaps":[]`, otherTarget: "/admin/v1/gaps?topic=orders"},
	"GET /admin/v1/tenants":    {target: "/admin/v1/tenants", has: `"tenant":"mine"`},
	"GET /admin/v1/namespaces": {target: "/admin/v1/namespaces", has: `"namespace":"mine/n"`},
	"GET /admin/v1/topology":   {target: "/admin/v1/topology", has: `"admin_roles":["the-tenant","the-viewer"]`},
	"POST /admin/v1/topology/plan": {target: "/admin/v1/topology/plan", body: `{"tenants": {"mine": {"namespaces": {"m": {"retention": "3d"}}}}}`, has: "mine/m",
		otherTarget: "/admin/v1/topology/plan", otherBody: `{"tenants": {"mine": {}, "old": {"namespaces": {"one": {"retention": "3d"}}}}}`},
	"POST /admin/v1/topology/apply": {target: "/admin/v1/topology/apply", body: `{"file": {"tenants": {"mine": {"namespaces": {"m": {"retention": "3d"}}}}}}`, has: "mine/m",
		otherTarget: "/admin/v1/topology/apply", otherBody: `{"file": {"tenants": {"mine": {"admin_roles": ["the-tenant", "my-friend"]}}}}`},
}

// others are words of what other tenants have, and of the mesh.
var others = []string{"public", "orders", "old/one", "empty", "geo.example", "low space", "no answer", "7777", "draining"}

// TestTenantAdminReachesHisTenantOnly makes every call there is as somebody who
// administers one tenant: what is about another tenant or the mesh is refused with 403
// and changes nothing, what is about his own works, and no answer tells of others.
func TestTenantAdminReachesHisTenantOnly(t *testing.T) {
	us := shared(t)
	cfg := us.Config()
	cfg.Tokens = tokens(t)
	s := newServer(t, cfg)
	h := s.Handler()
	ask := func(name, target, body string) *httptest.ResponseRecorder {
		method, _, _ := strings.Cut(name, " ")
		return do(h, method, target, body, "Authorization", "Bearer "+secret+"tenant")
	}
	refused := func(name, target, body string) {
		t.Helper()
		before, topics := cfg.ConfigStore.Status().Digest, len(us.Topics())
		if w := ask(name, target, body); w.Code != http.StatusForbidden {
			t.Errorf("%s %s %s: %d %s", name, target, body, w.Code, w.Body)
		}
		if cfg.ConfigStore.Status().Digest != before || len(us.Topics()) != topics {
			t.Errorf("%s %s: refused, and changed something", name, target)
		}
	}
	samples := sampleCalls("?region=1&records=true")
	own := strings.NewReplacer("/public/default/orders", "/mine/n/letters", "/public/default/new", "/mine/n/letters", "/acme/shop", "/mine/shop", "/old/one", "/mine/shop")
	var last []func()
	for name, reach := range admin.RouteReaches(s) {
		c, open := samples[name], admin.RouteRoles(s)[name] == ""
		switch {
		case open:
		case reach == "":
			refused(name, c.target, c.body)
			refused(name, own.Replace(c.target), c.body)
		case reach == "path":
			refused(name, c.target, c.body)
			try := func() {
				if w := ask(name, own.Replace(c.target), c.body); w.Code != http.StatusOK {
					t.Errorf("%s %s: %d %s", name, own.Replace(c.target), w.Code, w.Body)
				}
			}
			if strings.HasPrefix(name, "DELETE") {
				last = append(last, try) // what the others are about
			} else {
				try()
			}
		default:
			c, known := scopedCalls[name]
			if !known {
				t.Errorf("%s: no call in this test", name)
				continue
			}
			w := ask(name, c.target, c.body)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.has) {
				t.Errorf("%s: %d, no %q in %s", name, w.Code, c.has, w.Body)
			}
			if got := w.Header().Get(api.HeaderWithin); got != "mine" {
				t.Errorf("%s: its answer says that it is within %q", name, got)
			}
			for _, word := range others {
				if strings.Contains(w.Body.String(), word) && !strings.HasSuffix(name, ".yaml") {
					t.Errorf("%s tells of %q: %s", name, word, w.Body)
				}
			}
			if c.otherTarget != "" {
				refused(name, c.otherTarget, c.otherBody)
			}
		}
	}
	for _, try := range last {
		try()
	}
	refused("POST /admin/v1/topology/plan", "/admin/v1/topology/plan?prune=true", `{"tenants": {"mine": {}}}`)
}

// TestTenantAdminStopsBeingOne: the name is taken out, and its token opens nothing.
func TestTenantAdminStopsBeingOne(t *testing.T) {
	us := shared(t)
	cfg := us.Config()
	cfg.Tokens = tokens(t)
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := newServer(t, cfg).Handler()
	ask := func(role, method, target, body string) int {
		return do(h, method, target, body, "Authorization", "Bearer "+secret+role).Code
	}
	// Whoever may see the whole mesh goes on to, and administers his tenant besides.
	if w := do(h, "GET", "/admin/v1/topics", "", "Authorization", "Bearer "+secret+"viewer"); !strings.Contains(w.Body.String(), "orders") || w.Header().Get(api.HeaderWithin) != "" {
		t.Errorf("a viewer who administers a tenant sees %s, within %q", w.Body, w.Header().Get(api.HeaderWithin))
	}
	for target, want := range map[string]int{"/admin/v1/namespaces/mine/v": 200, "/admin/v1/namespaces/old/v": 403} {
		if got := ask("viewer", "PUT", target, `{}`); got != want {
			t.Errorf("a viewer who administers a tenant: PUT %s: %d", target, got)
		}
	}
	if got := ask("operator", "PUT", "/admin/v1/namespaces/mine/o", `{}`); got != 403 {
		t.Errorf("an operator whom no tenant names: %d", got)
	}
	if got := ask("tenant", "PUT", "/admin/v1/namespaces/mine/t", `{}`); got != 200 {
		t.Errorf("before: %d", got)
	}
	if _, err := cfg.Documents.Writer().PutTenant(t.Context(), "mine", func(d *configstore.Tenant) error { d.AdminRoles = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/admin/v1/namespaces/mine/t", "/admin/v1/namespaces/old/t"} {
		if got := ask("tenant", "PUT", target, `{}`); got != 403 {
			t.Errorf("after: PUT %s: %d", target, got)
		}
	}
	if w := do(h, "GET", "/admin/v1/topics", "", "Authorization", "Bearer "+secret+"tenant"); w.Code != 403 || !strings.Contains(w.Body.String(), "no tenant names it in admin_roles") {
		t.Errorf("after: %d %s", w.Code, w.Body)
	}
	for _, line := range []string{`caller=the-tenant role=tenant method=PUT path=/admin/v1/namespaces/mine/t remote=192.0.2.1:1234 within="tenant mine" object="namespace mine/t"`,
		`msg="admin change refused" component=admin caller=the-viewer role=viewer method=PUT path=/admin/v1/namespaces/old/v`} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("no line %s in\n%s", line, &log)
		}
	}
}

// TestCertificateWithoutRoleAdministersNothing: one that is for Kafka opens nothing
// here, though a tenant names it.
func TestCertificateWithoutRoleAdministersNothing(t *testing.T) {
	cfg := shared(t).Config()
	cfg.TLS = &tls.Config{}
	for role, want := range map[admin.Role]int{0: 403, admin.RoleTenant: 200} {
		cfg.Certificates = func(tls.ConnectionState) (string, admin.Role, error) { return "the-tenant", role, nil }
		r := httptest.NewRequest("GET", "/admin/v1/topics/mine/n/letters", nil)
		r.Host = "localhost"
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
		w := httptest.NewRecorder()
		newServer(t, cfg).Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("with role %s: %d %s", role, w.Code, w.Body)
		}
	}
}
