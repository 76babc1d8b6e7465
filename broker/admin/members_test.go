package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Two admins register at once: of the same name one is told that it is there; of
// different names each gets a number of its own, above what the caller has seen.
func TestRegistrationsAtOnce(t *testing.T) {
	h := newServer(t, sample(t).Config()).Handler()
	var wait sync.WaitGroup
	codes, bodies := make([]int, 8), make([]string, 8)
	for i := range codes {
		wait.Go(func() {
			codes[i] = do(h, "PUT", "/admin/v1/regions/sa?create=true", `{"seen": 40}`).Code
			bodies[i] = do(h, "PUT", fmt.Sprintf("/admin/v1/regions/r%d?create=true", i), `{"seen": 40}`).Body.String()
		})
	}
	wait.Wait()
	won := 0
	for _, c := range codes {
		if c == http.StatusOK {
			won++
		} else if c != http.StatusConflict {
			t.Errorf("code %d", c)
		}
	}
	if won != 1 {
		t.Errorf("%d registered the same name", won)
	}
	seen := map[string]bool{}
	for _, b := range bodies {
		_, rest, _ := strings.Cut(b, `"number":`)
		number, _, _ := strings.Cut(rest, ",")
		if len(number) != 2 || number < "41" || seen[number] {
			t.Errorf("number %q in %s", number, b)
		}
		seen[number] = true
	}
}

func TestRegionChangesAreRefused(t *testing.T) {
	h := newServer(t, sample(t).Config()).Handler()
	for _, c := range []struct {
		method, target, body string
		code                 int
		want                 string
	}{
		{"PUT", "/admin/v1/regions/eu?create=true", `{}`, 409, "registered already"},
		{"PUT", "/admin/v1/regions/eu", `{}`, 400, "want true or false"},
		{"PUT", "/admin/v1/regions/none?create=false", `{}`, 404, "none"},
		{"PUT", "/admin/v1/regions/eu?create=false", `{"geo": ["nowhere"]}`, 400, "geo[0]"},
		{"PUT", "/admin/v1/regions/EU?create=true", `{}`, 400, "EU"},
		{"PUT", "/admin/v1/regions/xx?create=true", `{"number": 1}`, 400, "cannot be given"},
		{"PUT", "/admin/v1/regions/eu?create=true", `{}`, 409, "'rhumb region show eu'"},
		{"PUT", "/admin/v1/regions/none?create=false", `{}`, 404, "'rhumb region list'"},
		{"DELETE", "/admin/v1/regions/none", ``, 404, "'rhumb region list'"},
		{"POST", "/admin/v1/regions/none/replace", ``, 404, "'rhumb region list'"},
		{"DELETE", "/admin/v1/users?name=none", ``, 404, "'rhumb user list'"},
		{"DELETE", "/admin/v1/tenants/none", ``, 404, "'rhumb tenant list'"},
		{"POST", "/admin/v1/links/eu/pause", `{"namespace": "acme/nope"}`, 404, "'rhumb namespace list'"},
		{"DELETE", "/admin/v1/regions/eu?force=perhaps", ``, 400, "want true or false"},
	} {
		if w := do(h, c.method, c.target, c.body); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d and %s", c.method, c.target, c.body, w.Code, w.Body, c.code, c.want)
		}
	}
}

// TestStoreThatFailsIsNamed: a change that the configuration store keeps from being made
// says so, and what to look at; the region itself may be ready.
func TestStoreThatFailsIsNamed(t *testing.T) {
	us := sample(t)
	h := newServer(t, us.Config()).Handler()
	drain := func(want string) {
		t.Helper()
		if w := do(h, "POST", "/admin/v1/regions/eu/drain", `{"undo": false}`); !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "/readyz") {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
	restore := us.Backup()
	drain(`"draining"`)
	restore()
	drain("'rhumb config restore'")
	us.StoreDown()
	drain("'rhumb config status'")
}
