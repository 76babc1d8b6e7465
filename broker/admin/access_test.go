package admin_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/bubble"
)

const secret = "0123456789abcdef-"

// tokens gives one token for each role, secret + the role's name.
func tokens(t testing.TB) *admin.Tokens {
	t.Helper()
	var all []admin.Token
	for _, role := range []admin.Role{admin.RoleTenant, admin.RoleViewer, admin.RoleOperator, admin.RoleAdmin} {
		all = append(all, admin.Token{Name: "the-" + role.String(), Role: role, Secret: secret + role.String()})
	}
	out, err := admin.OpenTokens(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEachRoleCallsWhatItMay makes every call in every role: those below a call's
// role are refused with 403 before anything happens, the others are let in.
func TestEachRoleCallsWhatItMay(t *testing.T) {
	cfg := sample(t).Config()
	cfg.Tokens = tokens(t)
	s := newServer(t, cfg)
	h := s.Handler()
	roles := admin.RouteRoles(s)
	names := map[string]string{"{tenant}": "none", "{namespace}": "none", "{topic}": "none", "{partition}": "0", "{name}": "none"}
	for name, least := range roles {
		method, path, _ := strings.Cut(name, " ")
		for from, to := range names {
			path = strings.ReplaceAll(path, from, to)
		}
		want, _ := admin.ParseRole(least)
		for _, role := range []admin.Role{admin.RoleTenant, admin.RoleViewer, admin.RoleOperator, admin.RoleAdmin} {
			w := do(h, method, path, "", "Authorization", "Bearer "+secret+role.String())
			refused := w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), "has the role "+role.String())
			if refused != (role < want) || w.Code == http.StatusUnauthorized {
				t.Errorf("%s as %s, which needs %q: %d %s", name, role, least, w.Code, w.Body)
			}
		}
		if w := do(h, method, path, ""); (w.Code == http.StatusUnauthorized) != (least != "") {
			t.Errorf("%s without a token: %d", name, w.Code)
		}
	}
}

func TestTokenFilesAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		next := file + ".new"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.OpenTokens([]admin.Token{{Name: "ops", Role: admin.RoleOperator, File: file}}); err == nil {
		t.Error("a file that is not there is taken at the start")
	}
	write("the-first-token-1\n")
	all, err := admin.OpenTokens([]admin.Token{{Name: "ops", Role: admin.RoleOperator, File: file}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := sample(t).Config()
	cfg.Tokens = all
	h := newServer(t, cfg).Handler()
	check := func(when, token string, want int) {
		t.Helper()
		if w := do(h, "GET", "/admin/v1/topics", "", "Authorization", "Bearer "+token); w.Code != want {
			t.Errorf("%s: %d, want %d: %s", when, w.Code, want, w.Body)
		}
	}
	check("at first", "the-first-token-1", 200)
	write("the-other-token-2\n") // of the same length
	check("the old one", "the-first-token-1", 401)
	check("the new one", "the-other-token-2", 200)
	for _, bad := range []string{"", "short", "two words are no token", strings.Repeat("x", 10_000)} {
		write(bad)
		check("with a bad file", "the-other-token-2", 401)
		check("with the bad one", bad, 401)
		if len(all.Problems()) != 1 {
			t.Errorf("%.20q: problems %v", bad, all.Problems())
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("without a file", "the-other-token-2", 401)
	write("the-third-token-3")
	check("mended", "the-third-token-3", 200)
	if len(all.Problems()) != 0 {
		t.Errorf("problems %v", all.Problems())
	}
}

// TestWrongTokensAreSlowedDown: an address may be wrong now and then. What comes
// without a token is told to bring one, and counts for nothing.
func TestWrongTokensAreSlowedDown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := sample(t).Config()
		cfg.Tokens, cfg.Logger = tokens(t), slog.New(slog.NewTextHandler(&log, nil))
		s := newServer(t, cfg)
		h := s.Handler()
		ask := func(token, remote string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/admin/v1/topics", nil)
			r.Host, r.RemoteAddr = "localhost", remote
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		count := func(n int, token, remote string) map[int]int {
			codes := map[int]int{}
			for range n {
				codes[ask(token, remote).Code]++
			}
			return codes
		}
		if got := count(100, "", "192.0.2.1:5"); got[401] != 100 {
			t.Errorf("without a token: %v", got)
		}
		if got := count(100, "wrong", "192.0.2.1:5"); got[401] != 20 || got[429] != 80 {
			t.Errorf("with wrong ones: %v", got)
		}
		w := ask(secret+"admin", "192.0.2.1:7")
		if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too many wrong tokens or certificates") {
			t.Errorf("the right one at once after that: %d %s", w.Code, w.Body)
		}
		if w := ask(secret+"admin", "192.0.2.2:5"); w.Code != 200 {
			t.Errorf("another address: %d", w.Code)
		}
		time.Sleep(4 * time.Second)
		if w := ask(secret+"admin", "192.0.2.1:7"); w.Code != 200 {
			t.Errorf("after a while: %d", w.Code)
		}
		time.Sleep(time.Minute)
		if got := count(100, "wrong", "192.0.2.1:5"); got[401] != 20 {
			t.Errorf("a minute later: %v", got)
		}
		if n := strings.Count(log.String(), "admin login refused"); n != 40 || strings.Contains(log.String(), secret) {
			t.Errorf("%d lines of the log tell of it:\n%s", n, log.String())
		}
		for i := range 6_000 { // one host has a whole /64
			ask("wrong", fmt.Sprintf("[2001:db8:%x:%x::1]:5", i>>8, i&0xff))
			ask("wrong", fmt.Sprintf("[2001:db8::%x]:5", i))
		}
		if n := admin.RememberedAddresses(s); n > 2*4096 {
			t.Errorf("%d addresses are remembered", n)
		}
		if w := ask(secret+"admin", "[2001:db8::ffff:1]:5"); w.Code != 429 {
			t.Errorf("another address of the same /64: %d", w.Code)
		}
	})
}

// TestCertificatesHaveRoles: what a certificate stands for is the wiring's to say.
func TestCertificatesHaveRoles(t *testing.T) {
	cfg := sample(t).Config()
	cfg.TLS = &tls.Config{}
	cfg.Certificates = func(cs tls.ConnectionState) (string, admin.Role, error) {
		c := cs.PeerCertificates[0]
		if time.Now().After(c.NotAfter) {
			return "", 0, errors.New("it ended")
		}
		role, err := admin.ParseRole(c.Subject.CommonName)
		if err != nil {
			return "somebody", 0, nil
		}
		return c.Subject.CommonName, role, nil
	}
	h := newServer(t, cfg).Handler()
	ask := func(method, path, name string, end time.Duration) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Host = "localhost"
		r.TLS = &tls.ConnectionState{}
		if name != "" {
			r.TLS.PeerCertificates = []*x509.Certificate{{Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(end)}}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		method, path, name string
		end                time.Duration
		code               int
		text               string
	}{
		{"GET", "/admin/v1/topics", "viewer", time.Hour, 200, ""},
		{"GET", "/admin/v1/topics", "viewer", -time.Hour, 401, "not taken: it ended"},
		{"GET", "/admin/v1/users", "viewer", time.Hour, 403, "has the role viewer"},
		{"DELETE", "/admin/v1/tenants/empty", "operator", time.Hour, 403, "needs admin"},
		{"DELETE", "/admin/v1/tenants/empty", "admin", time.Hour, 200, ""},
		{"GET", "/admin/v1/topics", "stranger", time.Hour, 403, "certificate of somebody has no role"},
		{"GET", "/admin/v1/topics", "", 0, 401, "RHUMB_CERT"},
		{"GET", "/healthz", "", 0, 200, ""},
	} {
		if w := ask(c.method, c.path, c.name, c.end); w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s %s as %q: %d %s", c.method, c.path, c.name, w.Code, w.Body)
		}
	}
}

// TestAuditNamesWhoWhatAndWhence: each change, and each that was refused, has a
// line; no secret has.
func TestAuditNamesWhoWhatAndWhence(t *testing.T) {
	var log bytes.Buffer
	cfg := sample(t).Config()
	cfg.Tokens, cfg.Logger = tokens(t), slog.New(slog.NewTextHandler(&log, nil))
	h := newServer(t, cfg).Handler()
	verifier := `{"salt": "c2FsdA==", "iterations": 4096, "stored_key": "` + strings.Repeat("A", 43) + `=", "server_key": "` + strings.Repeat("B", 42) + `A="}`
	for _, c := range []struct {
		role, method, path, body, want string
	}{
		{"admin", "PUT", "/admin/v1/tenants/acme", `{}`, `msg="admin change" component=admin caller=the-admin role=admin method=PUT path=/admin/v1/tenants/acme remote=192.0.2.1:1234 object="tenant acme" version_before=0 version=1`},
		{"admin", "PUT", "/admin/v1/tenants/acme", `{"allowed_regions": []}`, `version_before=1 version=2`},
		{"admin", "DELETE", "/admin/v1/tenants/acme", ``, `method=DELETE path=/admin/v1/tenants/acme remote=192.0.2.1:1234 object="tenant acme" version_before=2 version=3`},
		{"admin", "POST", "/admin/v1/users", `{"name": "alice", "create": true, "sha256": ` + verifier + `}`, `object="user alice" version_before=0 version=1`},
		{"operator", "POST", "/admin/v1/topics", `{"topic": "fresh"}`, `caller=the-operator role=operator method=POST path=/admin/v1/topics remote=192.0.2.1:1234 object="topic fresh"`},
		{"operator", "POST", "/admin/v1/users", `{"name": "bob", "create": true}`, `msg="admin change refused" component=admin caller=the-operator role=operator method=POST path=/admin/v1/users`},
		{"viewer", "POST", "/admin/v1/topics/public/default/orders/records", `{"records": []}`, `msg="admin change refused" component=admin caller=the-viewer role=viewer`},
		{"nobody", "DELETE", "/admin/v1/topics/public/default/orders", ``, `msg="admin login refused" component=admin method=DELETE path=/admin/v1/topics/public/default/orders`},
		{"", "DELETE", "/admin/v1/topics/public/default/orders", ``, `msg="admin change refused" component=admin caller=unknown role=none`},
		{"admin", "PUT", "/admin/v1/tenants/" + strings.Repeat("x", 9000), `{}`, `msg="admin change refused"`},
		{"admin", "GET", "/admin/v1/users", ``, ``},
	} {
		log.Reset()
		header := []string{"Authorization", "Bearer " + secret + c.role}
		if c.role == "" {
			header = nil
		}
		do(h, c.method, c.path, c.body, header...)
		text := log.String()
		if !strings.Contains(text, c.want) || (c.want == "") != (text == "") || strings.Count(text, "\n") > 1 {
			t.Errorf("%s %.80s as %q:\n%s\nwant %s", c.method, c.path, c.role, text, c.want)
		}
		if strings.Contains(text, secret) || strings.Contains(text, "c2FsdA") || strings.Contains(text, "AAAA") || len(text) > 3000 {
			t.Errorf("%s %.80s: too much is told: %.4000s", c.method, c.path, text)
		}
	}
}

// TestEveryChangeHasAnAuditLine calls every call that is not a GET, with nothing
// useful in it: each leaves exactly one line, but for those that only carry records.
func TestEveryChangeHasAnAuditLine(t *testing.T) {
	var log bytes.Buffer
	cfg := sample(t).Config()
	cfg.Tokens, cfg.Logger = tokens(t), slog.New(slog.NewTextHandler(&log, nil))
	s := newServer(t, cfg)
	changes := admin.Changes(s)
	for _, name := range admin.Routes(s) {
		method, path, _ := strings.Cut(name, " ")
		if method == "GET" {
			continue
		}
		path = strings.NewReplacer("{tenant}", "public", "{namespace}", "default", "{topic}", "orders", "{partition}", "0").Replace(path)
		path = strings.NewReplacer("{", "", "}", "").Replace(path)
		log.Reset()
		do(s.Handler(), method, path, "{}", "Authorization", "Bearer "+secret+"admin")
		want := 1
		if !slices.Contains(changes, name) {
			if want = 0; !slices.ContainsFunc([]string{"/records", "/plan", "/validate", "/check"}, func(end string) bool { return strings.HasSuffix(name, end) }) {
				t.Errorf("%s has no audit line: say change: true in routes.go, or end its path as calls do that change no policy", name)
			}
		}
		if text := log.String(); strings.Count(text, "msg=\"admin change") != want || want == 1 && !strings.Contains(text, "caller=the-admin role=admin") {
			t.Errorf("%s: want %d lines:\n%s", name, want, text)
		}
	}
}

// TestOfTwoTokensWithOneSecretTheLowerRoleCounts: in whichever order they stand.
func TestOfTwoTokensWithOneSecretTheLowerRoleCounts(t *testing.T) {
	const secret = "one-secret-for-two"
	for _, roles := range [][]admin.Role{{admin.RoleAdmin, admin.RoleViewer}, {admin.RoleViewer, admin.RoleAdmin}} {
		all, err := admin.OpenTokens([]admin.Token{{Name: "a", Role: roles[0], Secret: secret}, {Name: "b", Role: roles[1], Secret: secret}})
		if err != nil {
			t.Fatal(err)
		}
		if got := all.RoleOf(secret); got != admin.RoleViewer {
			t.Errorf("%v: who shows it is %s", roles, got)
		}
	}
}
