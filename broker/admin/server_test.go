package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var orders = rhumb.Topic{Tenant: "public", Namespace: "default", Name: "orders"}

// sample is a region with something of everything.
func sample(t testing.TB) *admintest.Region {
	us, eu := admintest.New("us", 1), admintest.New("eu", 2)
	for _, r := range []*admintest.Region{us, eu} {
		if _, err := r.CreateTopic(t.Context(), orders, 2, map[string]string{"retention.ms": "1000"}); err != nil {
			t.Fatal(err)
		}
	}
	us.SetMesh([]admin.RegionEntry{
		{Name: "us", Number: 1, State: "active", Admin: []string{"127.0.0.1:8080"}},
		{Name: "eu", Number: 2, State: "active", Admin: []string{"https://eu.example:8180"}},
	}, []admin.Edge{{Tenant: "public", Namespace: "default", From: "us", To: "eu"}})
	link := admintest.Link(eu)
	link.Pauses = []admin.Pause{{Space: rhumb.DefaultSpace, At: time.UnixMilli(1000), By: "ann"}}
	link.PeerPauses = []admin.Pause{{At: time.UnixMilli(2000), By: "bob"}}
	link.Partitions = []admin.LinkPartition{{Out: true, Topic: orders, Region: 1, Life: us.Log("orders", 0).Life(), State: "refused",
		Refused: &admin.Refusal{At: 1, Code: "invalid", Reason: "a batch that it does not take", Since: time.UnixMilli(3000)}}}
	us.SetLinks(link)
	us.SetPaths(admin.OriginPaths{Topic: orders, Region: 2, Life: rhumb.Life{1}, Moved: admin.PathMove{At: time.UnixMilli(1000), To: "eu", Why: "it was first"},
		Paths: []admin.Path{{Over: "eu", State: "used", Hops: 1, Since: time.UnixMilli(1000), End: 3, Floor: rhumb.NoOffset}}})
	us.SetHealth(admin.Health{Live: true, Ready: true, Problems: []admin.Problem{{Part: "storage", State: "low space", Message: "1 GiB left"}}})
	there := eu.Log("orders", 0)
	there.Publish(codec.PlainRecord{Value: []byte("from eu")})
	here := us.Log("orders", 0)
	here.Publish(codec.PlainRecord{Key: []byte("k"), Value: []byte("from us"), Headers: []codec.PlainHeader{{Key: "h", Value: []byte{0xff}}}},
		codec.PlainRecord{Value: []byte{0xfe}})
	here.CopyFrom(there)
	us.Diverge("orders", eu, 0, 7)
	here.Gap(eu.Log("orders", 0), 5, 9, rhumb.ReasonLost)
	w := us.Config().Documents.Writer()
	for _, name := range []rhumb.RegionName{"eu", "na"} {
		if _, err := w.AddRegion(t.Context(), configstore.Region{Name: name, Geo: []string{"geo.example:7650"}}, 0); err != nil {
			t.Fatal(err)
		}
	}
	us.SetDrain(&admin.Drain{State: "draining", Since: time.UnixMilli(1000), Alone: []rhumb.Topic{orders},
		Behind: []admin.DrainPeer{{Peer: "eu", State: "disconnected", Partitions: 1, Records: 2, Bytes: 3, LastError: "no answer"}}})
	for _, name := range []rhumb.Tenant{"empty", "old"} {
		if _, err := w.PutTenant(t.Context(), name, func(*configstore.Tenant) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.PutNamespace(t.Context(), "old", "one", func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: []rhumb.RegionName{}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return us
}

func newServer(t testing.TB, cfg admin.Config) *admin.Server {
	t.Helper()
	s, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do sends one request to a handler.
func do(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// sampleCall is a call that works with the sample, and a target that does not.
type sampleCall struct{ target, body, bad string }

// sampleCalls has one for each operation; digest is the query of that one.
func sampleCalls(digest string) map[string]sampleCall {
	return map[string]sampleCall{
		"GET /healthz":                   {target: "/healthz"},
		"GET /readyz":                    {target: "/readyz"},
		"GET /metrics":                   {target: "/metrics"},
		"GET /debug/pprof/{profile}":     {target: "/debug/pprof/goroutine", bad: "/debug/pprof/none"},
		"GET /admin/v1/openapi.yaml":     {target: "/admin/v1/openapi.yaml"},
		"GET /admin/v1/region":           {target: "/admin/v1/region"},
		"GET /admin/v1/regions":          {target: "/admin/v1/regions"},
		"GET /admin/v1/regions/{region}": {target: "/admin/v1/regions/eu", bad: "/admin/v1/regions/none"},
		"PUT /admin/v1/regions/{region}": {target: "/admin/v1/regions/sa?create=true",
			body: `{"geo": ["sa.example:7650"], "addresses": {"kafka": ["sa.example:9092"]}, "seen": 7}`, bad: "/admin/v1/regions/eu?create=true"},
		"DELETE /admin/v1/regions/{region}": {target: "/admin/v1/regions/na", bad: "/admin/v1/regions/none"},
		"POST /admin/v1/regions/{region}/drain": {target: "/admin/v1/regions/eu/drain", body: `{"undo": false}`,
			bad: "/admin/v1/regions/none/drain"},
		"POST /admin/v1/regions/{region}/replace": {target: "/admin/v1/regions/eu/replace", bad: "/admin/v1/regions/none/replace"},
		"GET /admin/v1/edges":                     {target: "/admin/v1/edges"},
		"GET /admin/v1/config":                    {target: "/admin/v1/config"},
		"POST /admin/v1/config/restore":           {target: "/admin/v1/config/restore", body: `{"dry_run": true}`, bad: "/admin/v1/config/restore"},
		"GET /admin/v1/links/{region}/check":      {target: "/admin/v1/links/eu/check", bad: "/admin/v1/links/none/check"},
		"POST /admin/v1/links/{region}/pause":     {target: "/admin/v1/links/eu/pause", body: `{"namespace": "public/default"}`, bad: "/admin/v1/links/none/pause"},
		"POST /admin/v1/links/{region}/resume":    {target: "/admin/v1/links/eu/resume", body: `{"namespace": ""}`, bad: "/admin/v1/links/none/resume"},
		"POST /admin/v1/links/{region}/retry":     {target: "/admin/v1/links/eu/retry", body: `{"topic": "orders", "partition": 0}`, bad: "/admin/v1/links/none/retry"},
		"POST /admin/v1/links/{region}/skip": {target: "/admin/v1/links/eu/skip", body: `{"topic": "orders", "partition": 0, "to": "3", "dry_run": false}`,
			bad: "/admin/v1/links/none/skip"},
		"GET /admin/v1/paths":    {target: "/admin/v1/paths"},
		"GET /admin/v1/links":    {target: "/admin/v1/links"},
		"GET /admin/v1/topics":   {target: "/admin/v1/topics"},
		"GET /admin/v1/diverged": {target: "/admin/v1/diverged"},
		"POST /admin/v1/topics/{tenant}/{namespace}/{topic}/partitions/{partition}/life": {target: "/admin/v1/topics/public/default/orders/partitions/0/life",
			body: `{"dry_run": false}`, bad: "/admin/v1/topics/public/default/orders/partitions/9/life"},
		"POST /admin/v1/topics": {target: "/admin/v1/topics", body: `{"topic": "new", "partitions": 2, "configs": {"retention.ms": "7"}}`,
			bad: "/admin/v1/topics"},
		"GET /admin/v1/topics/{tenant}/{namespace}/{topic}": {target: "/admin/v1/topics/public/default/orders",
			bad: "/admin/v1/topics/public/default/none"},
		"POST /admin/v1/topics/{tenant}/{namespace}/{topic}/partitions": {target: "/admin/v1/topics/public/default/orders/partitions",
			body: `{"partitions": 3}`, bad: "/admin/v1/topics/public/default/none/partitions"},
		"GET /admin/v1/topics/{tenant}/{namespace}/{topic}/configs": {target: "/admin/v1/topics/public/default/orders/configs",
			bad: "/admin/v1/topics/public/default/none/configs"},
		"POST /admin/v1/topics/{tenant}/{namespace}/{topic}/configs": {target: "/admin/v1/topics/public/default/orders/configs",
			body: `{"set": {"retention.ms": "5"}, "unset": ["cleanup.policy"]}`, bad: "/admin/v1/topics/public/default/orders/configs"},
		"DELETE /admin/v1/topics/{tenant}/{namespace}/{topic}": {target: "/admin/v1/topics/public/default/new?scope=mesh",
			bad: "/admin/v1/topics/public/default/none"},
		"GET /admin/v1/users": {target: "/admin/v1/users"},
		"POST /admin/v1/users": {target: "/admin/v1/users", body: `{"name": "alice", "create": true, "grant": ["public/default"]}`,
			bad: "/admin/v1/users"},
		"DELETE /admin/v1/users": {target: "/admin/v1/users?name=alice", bad: "/admin/v1/users?name=nobody"},
		"GET /admin/v1/tenants":  {target: "/admin/v1/tenants"},
		"PUT /admin/v1/tenants/{tenant}": {target: "/admin/v1/tenants/acme?create=true", body: `{"allowed_regions": []}`,
			bad: "/admin/v1/tenants/acme"},
		"DELETE /admin/v1/tenants/{tenant}": {target: "/admin/v1/tenants/empty", bad: "/admin/v1/tenants/none"},
		"GET /admin/v1/namespaces":          {target: "/admin/v1/namespaces"},
		"PUT /admin/v1/namespaces/{tenant}/{namespace}": {target: "/admin/v1/namespaces/acme/shop",
			body: `{"topology": {"full-mesh": []}, "retention": {"ms": 5000}, "delete_scope": "region"}`, bad: "/admin/v1/namespaces/acme/shop"},
		"DELETE /admin/v1/namespaces/{tenant}/{namespace}": {target: "/admin/v1/namespaces/old/one", bad: "/admin/v1/namespaces/acme/none"},
		"GET /admin/v1/topology":                           {target: "/admin/v1/topology"},
		"POST /admin/v1/topology/plan": {target: "/admin/v1/topology/plan?prune=true", body: `{"tenants": {"acme": {"namespaces": {"keep": {"retention": "3d"}}}}}`,
			bad: "/admin/v1/topology/plan?prune=perhaps"},
		"POST /admin/v1/topology/apply": {target: "/admin/v1/topology/apply", body: `{"file": {"tenants": {"acme": {"namespaces": {"kept": {"topology": {"full-mesh": []}}}}}}}`,
			bad: "/admin/v1/topology/apply"},
		"GET /admin/v1/gaps": {target: "/admin/v1/gaps?topic=orders", bad: "/admin/v1/gaps?topic=a/b"},
		"POST /admin/v1/topics/{tenant}/{namespace}/{topic}/records": {target: "/admin/v1/topics/public/default/orders/records",
			body: `{"partition": 1, "records": [{"key": "k", "value": {"base64": "/w=="}, "headers": [{"key": "h", "value": null}], "timestamp": "5"}]}`,
			bad:  "/admin/v1/topics/public/default/orders/records"},
		"GET /admin/v1/topics/{tenant}/{namespace}/{topic}/partitions/{partition}/records": {
			target: "/admin/v1/topics/public/default/orders/partitions/0/records?max=5", bad: "/admin/v1/topics/public/default/orders/partitions/9/records"},
		"GET /admin/v1/topics/{tenant}/{namespace}/{topic}/partitions/{partition}/digest": {
			target: "/admin/v1/topics/public/default/orders/partitions/0/digest" + digest, bad: "/admin/v1/topics/public/default/orders/partitions/0/digest"},
	}
}

// TestOpenAPIMatchesTheHandlers calls every operation of openapi.yaml and holds
// the answers, good and bad, against its schemas; and every route is described.
func TestOpenAPIMatchesTheHandlers(t *testing.T) {
	us := sample(t)
	h := newServer(t, us.Config()).Handler()
	doc := parseDocument(t, do(h, "GET", "/admin/v1/openapi.yaml", "").Body.Bytes())
	digest := fmt.Sprintf("?region=1&life=%s&records=true", us.Log("orders", 0).Life())
	calls := sampleCalls(digest)
	operations := doc.operations(t)
	routes := admin.Routes(newServer(t, us.Config()))
	if got := slices.Sorted(maps.Keys(operations)); !slices.Equal(got, slices.Sorted(slices.Values(routes))) {
		t.Fatalf("openapi.yaml describes\n%v\nthe server has\n%v", got, routes)
	}
	for _, name := range routes {
		c, known := calls[name]
		if !known {
			t.Errorf("%s: no call in this test", name)
			continue
		}
		method, _, _ := strings.Cut(name, " ")
		checkAnswer(t, doc, operations[name], "200", do(h, method, c.target, c.body))
		if c.body != "" {
			if err := doc.check(operations[name].RequestBody.Content["application/json"].Schema, []byte(c.body)); err != nil {
				t.Errorf("%s: request: %v", name, err)
			}
		}
		if c.bad != "" {
			checkAnswer(t, doc, operations[name], "default", do(h, method, c.bad, strings.Repeat("{", len(c.body))))
		}
	}
}

func checkAnswer(t *testing.T, doc *document, op operation, want string, w *httptest.ResponseRecorder) {
	t.Helper()
	if op.Summary == "" || (w.Code == http.StatusOK) != (want == "200") {
		t.Errorf("%s: status %d: %s", op.Summary, w.Code, w.Body)
		return
	}
	r := doc.response(op.Responses[want])
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	described, known := r.Content[kind]
	if !known {
		t.Errorf("%s: content type %q is not described", op.Summary, kind)
		return
	}
	if described.Schema == nil {
		return
	}
	for _, line := range bytes.Split(bytes.TrimSpace(w.Body.Bytes()), []byte("\n")) {
		if err := doc.check(described.Schema, line); err != nil {
			t.Errorf("%s: %v in %s", op.Summary, err, line)
		}
	}
}

func TestGuard(t *testing.T) {
	cfg := sample(t).Config()
	cfg.Hosts = []string{"admin.example"}
	open := newServer(t, cfg).Handler()
	cfg.Token = "secret"
	closed := newServer(t, cfg).Handler()
	for _, c := range []struct {
		name   string
		h      http.Handler
		target string
		header []string
		want   int
	}{
		{"loopback name", open, "/admin/v1/region", []string{"Host", "localhost:8080"}, 200},
		{"IPv6", open, "/admin/v1/region", []string{"Host", "[::1]:8080"}, 200},
		{"configured name", open, "/admin/v1/region", []string{"Host", "Admin.example"}, 200},
		{"rebound name", open, "/admin/v1/region", []string{"Host", "evil.example:8080"}, 403},
		{"own page", open, "/admin/v1/region", []string{"Origin", "http://127.0.0.1:8080"}, 200},
		{"foreign page", open, "/admin/v1/region", []string{"Origin", "http://evil.example"}, 403},
		{"null origin", open, "/admin/v1/region", []string{"Origin", "null"}, 403},
		{"cross-site fetch", open, "/admin/v1/region", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"no token", closed, "/admin/v1/region", nil, 401},
		{"wrong token", closed, "/admin/v1/region", []string{"Authorization", "Bearer secrets"}, 401},
		{"token", closed, "/admin/v1/region", []string{"Authorization", "Bearer secret"}, 200},
		{"metrics need the token", closed, "/metrics", nil, 401},
		{"health does not", closed, "/healthz", nil, 200},
		{"no such call", closed, "/admin/v2/x", nil, 404},
	} {
		w := do(c.h, "GET", c.target, "", c.header...)
		if w.Code != c.want {
			t.Errorf("%s: status %d, want %d: %s", c.name, w.Code, c.want, w.Body)
		}
		if asks := w.Header().Get("WWW-Authenticate") != ""; asks != (w.Code == 401) {
			t.Errorf("%s: it says how to log in: %v", c.name, asks)
		}
	}
}

func TestWrongMethodIsNamed(t *testing.T) {
	h := newServer(t, sample(t).Config()).Handler()
	for target, allow := range map[string]string{"/admin/v1/region": "GET", "/admin/v1/users": "DELETE, GET, POST",
		"/admin/v1/topics/public/default/orders": "DELETE, GET"} {
		if w := do(h, "PUT", target, ""); w.Code != 405 || w.Header().Get("Allow") != allow {
			t.Errorf("%s: %d, allows %q: %s", target, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
	if w := do(h, "PUT", "/nowhere", ""); w.Code != 404 {
		t.Errorf("no such path: %d", w.Code)
	}
}

// What is told of a user has nothing of the password in it.
func TestUsersTellNoSecrets(t *testing.T) {
	us := sample(t)
	h := newServer(t, us.Config()).Handler()
	v := `{"salt": "c2FsdA==", "iterations": 4096, "stored_key": "` + strings.Repeat("A", 43) + `=", "server_key": "` + strings.Repeat("B", 42) + `A="}`
	if w := do(h, "POST", "/admin/v1/users", `{"name": "alice", "create": true, "sha256": `+v+`}`); w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	w := do(h, "GET", "/admin/v1/users", "")
	if text := w.Body.String(); !strings.Contains(text, `"mechanisms":["SCRAM-SHA-256"]`) || strings.Contains(text, "c2FsdA") || strings.Contains(text, "AAAA") {
		t.Errorf("%s", text)
	}
	if w := do(h, "POST", "/admin/v1/users", `{"name": "alice", "sha256": {"salt": "c2FsdA==", "iterations": 1, "stored_key": "", "server_key": ""}}`); w.Code != 400 {
		t.Errorf("a broken verifier: %d: %s", w.Code, w.Body)
	}
}

func TestI9BodiesAreBounded(t *testing.T) {
	h := newServer(t, sample(t).Config()).Handler()
	for _, c := range []struct {
		name, method, target, body string
		want                       int
	}{
		{"large body", "POST", "/admin/v1/topics", `{"topic": "` + strings.Repeat("x", 70<<10) + `"}`, 413},
		{"body where none is read", "DELETE", "/admin/v1/topics/public/default/orders", "{}", 413},
		{"unknown field", "POST", "/admin/v1/topics", `{"topic": "x", "colour": "red"}`, 400},
		{"two documents", "POST", "/admin/v1/topics", `{"topic": "x"}{"topic": "y"}`, 400},
		{"negative partitions", "POST", "/admin/v1/topics", `{"topic": "x", "partitions": -1}`, 400},
		{"bad topic", "POST", "/admin/v1/topics", `{"topic": "x-partition-3"}`, 400},
		{"fewer partitions", "POST", "/admin/v1/topics/public/default/orders/partitions", `{"partitions": 1}`, 400},
		{"no settings", "POST", "/admin/v1/topics/public/default/orders/configs", `{}`, 400},
		{"set and unset", "POST", "/admin/v1/topics/public/default/orders/configs", `{"set": {"a": "1"}, "unset": ["a"]}`, 400},
		{"scope", "DELETE", "/admin/v1/topics/public/default/orders?scope=world", "", 400},
		{"exists", "POST", "/admin/v1/topics", `{"topic": "orders"}`, 409},
		{"no records", "POST", "/admin/v1/topics/public/default/orders/records", `{"records": []}`, 400},
		{"no such partition", "POST", "/admin/v1/topics/public/default/orders/records", `{"partition": 7, "records": [{"value": "x"}]}`, 400},
		{"value of a wrong type", "POST", "/admin/v1/topics/public/default/orders/records", `{"records": [{"value": 7}]}`, 400},
		{"offset past the end", "GET", "/admin/v1/topics/public/default/orders/partitions/0/records?from=99", "", 416},
		{"long wait", "GET", "/admin/v1/topics/public/default/orders/partitions/0/records?wait=10h", "", 400},
		{"digest of another life", "GET", "/admin/v1/topics/public/default/orders/partitions/0/digest?region=1&life=" +
			strings.Repeat("0", 32) + "&log=" + strings.Repeat("1", 32), "", 409},
	} {
		if w := do(h, c.method, c.target, c.body); w.Code != c.want {
			t.Errorf("%s: status %d, want %d: %s", c.name, w.Code, c.want, w.Body)
		}
	}
	w := do(h, "POST", "/admin/v1/topics", `{"topic": "x"}`, "Content-Type", "text/plain")
	if w.Code != 400 {
		t.Errorf("a form of a web page was taken: %d", w.Code)
	}
}

func TestChangesAreAudited(t *testing.T) {
	var logged bytes.Buffer
	cfg := sample(t).Config()
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	h := newServer(t, cfg).Handler()
	do(h, "DELETE", "/admin/v1/topics/public/default/orders", "")
	do(h, "DELETE", "/admin/v1/topics/public/default/orders", "")
	do(h, "GET", "/admin/v1/topics", "")
	out := logged.String()
	if strings.Count(out, "\n") != 2 || !strings.Contains(out, `msg="admin change"`) || !strings.Contains(out, `msg="admin change refused"`) {
		t.Errorf("audit log:\n%s", out)
	}
}

func TestConsumeWaitsAndEndsWithTheServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		us := sample(t)
		s := newServer(t, us.Config())
		h := s.Handler()
		target := "/admin/v1/topics/public/default/orders/partitions/1/records?wait=20s&from="
		answers := make(chan string, 1)
		ask := func(from string) { answers <- do(h, "GET", target+from, "").Body.String() }
		go ask("0")
		synctest.Wait()
		us.Log("orders", 1).Publish(codec.PlainRecord{Value: []byte("late")})
		if got := <-answers; !strings.Contains(got, `"value":"late"`) {
			t.Errorf("answer %s", got)
		}
		began := time.Now()
		go ask("1")
		if got := <-answers; !strings.Contains(got, `"records":[]`) || time.Since(began) != 20*time.Second {
			t.Errorf("answer after %s: %s", time.Since(began), got)
		}
		go ask("1")
		synctest.Wait()
		s.Close()
		<-answers
		if time.Since(began) > 21*time.Second {
			t.Error("a long poll outlives the server")
		}
		if w := do(h, "GET", "/readyz", ""); w.Code != 503 {
			t.Errorf("ready while it stops: %d", w.Code)
		}
	})
}

func TestConsumeShowsOriginsAndPages(t *testing.T) {
	h := newServer(t, sample(t).Config()).Handler()
	target := "/admin/v1/topics/public/default/orders/partitions/0/records?max=1&from="
	for i, want := range []string{`"value":"from us"`, `"value":{"base64":"/g=="}`, `"region_name":"eu"`} {
		got := do(h, "GET", target+fmt.Sprint(i), "").Body.String()
		if !strings.Contains(got, want) || !strings.Contains(got, fmt.Sprintf(`"next":"%d"`, i+1)) {
			t.Errorf("page %d: %s", i, got)
		}
	}
}

func TestDigestIsBoundedAndHonest(t *testing.T) {
	us := sample(t)
	log := us.Log("orders", 0)
	log.Tamper(func(b []admin.Batch) []admin.Batch {
		b[0].Bytes[len(b[0].Bytes)-1] ^= 1
		return b
	})
	h := newServer(t, us.Config()).Handler()
	target := "/admin/v1/topics/public/default/orders/partitions/0/digest?region=1&life=" + log.Life().String()
	lines := bufio.NewScanner(do(h, "GET", target, "").Body)
	lines.Scan()
	if !strings.Contains(lines.Text(), `"broken":"CRC of its bytes`) {
		t.Errorf("damage is not told: %s", lines.Text())
	}
	lines.Scan()
	if !strings.Contains(lines.Text(), `"end":{"batches":"2"`) {
		t.Errorf("no end: %s", lines.Text())
	}
	target = strings.Replace(target, "region=1", "region=2", 1)
	target = strings.Replace(target, log.Life().String(), us.Origins("orders", 0)[0].Life.String(), 1)
	if got := do(h, "GET", target+"&seek=true", "").Body.String(); !strings.Contains(got, `"batches":"1"`) {
		t.Errorf("seek does not start at the batch: %s", got)
	}
}

func TestMetricsNames(t *testing.T) {
	cfg := sample(t).Config()
	cfg.Metrics = []func(func(admin.Metric)){func(emit func(admin.Metric)) {
		emit(admin.Metric{Name: "rhumb_kafka_requests_total", Help: "Requests.", Counter: true, Labels: []string{"api", "fetch"}, Value: 7})
	}}
	h := newServer(t, cfg).Handler()
	do(h, "GET", "/admin/v1/region", "")
	w := do(h, "GET", "/metrics", "")
	for _, want := range []string{
		`rhumb_kafka_requests_total{api="fetch"} 7`,
		`rhumb_link_state{peer_region="eu",state="flowing"} 1`,
		`rhumb_link_state{peer_region="eu",state="stalled"} 0`,
		`rhumb_link_rtt_seconds{peer_region="eu"} 0.08`,
		`rhumb_partitions 2`, `rhumb_topics 1`, `rhumb_ready 1`, `rhumb_gap_records 1`,
		`rhumb_admin_requests_total{code="200",method="GET",route="/admin/v1/region"} 1`,
		`rhumb_build_info{commit="0123456789abcdef",go="go1",version="v0.0.0-test"} 1`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, line := range strings.Split(w.Body.String(), "\n") {
		if name, _, _ := strings.Cut(line, "{"); strings.HasPrefix(name, "rhumb_") && strings.Contains(line, "orders") {
			t.Errorf("a label is not bounded: %s", line)
		}
	}
}

func TestHealth(t *testing.T) {
	us := sample(t)
	h := newServer(t, us.Config()).Handler()
	us.SetHealth(admin.Health{Live: true})
	if a, b := do(h, "GET", "/healthz", "").Code, do(h, "GET", "/readyz", "").Code; a != 200 || b != 503 {
		t.Errorf("live %d, ready %d", a, b)
	}
	us.SetHealth(admin.Health{})
	if a := do(h, "GET", "/healthz", "").Code; a != 503 {
		t.Errorf("dead but %d", a)
	}
}

func TestRunStopsCleanly(t *testing.T) {
	s := newServer(t, sample(t).Config())
	l, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + l.Addr().String() + "/healthz"); err == nil {
		t.Error("it still answers")
	}
}

func TestExposureNeedsAGuard(t *testing.T) {
	cfg := sample(t).Config()
	if _, err := newServer(t, cfg).Listen("0.0.0.0:0"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("listens to everybody: %v", err)
	}
	cfg.Token = "x"
	l, err := newServer(t, cfg).Listen("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestProduceToATopicThatIsNotThere: it is made where Kafka clients' topics are
// made, too; else the answer says how.
func TestProduceToATopicThatIsNotThere(t *testing.T) {
	us := sample(t)
	const target, body = "/admin/v1/topics/public/default/fresh/records", `{"records": [{"value": "v"}]}`
	cfg := us.Config()
	if w := do(newServer(t, cfg).Handler(), "POST", target, body); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "'rhumb topic create fresh'") {
		t.Errorf("not made: %d %s", w.Code, w.Body)
	}
	cfg.AutoCreate = true
	if w := do(newServer(t, cfg).Handler(), "POST", target, body); w.Code != http.StatusOK {
		t.Errorf("made: %d %s", w.Code, w.Body)
	}
	if w := do(newServer(t, cfg).Handler(), "POST", "/admin/v1/topics/public/default/no..t%20legal/records", body); w.Code != http.StatusBadRequest {
		t.Errorf("no legal name: %d %s", w.Code, w.Body)
	}
}
