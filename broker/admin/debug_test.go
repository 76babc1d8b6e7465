package admin_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProfiles reads profiles as go tool pprof asks for them: those that are there, and
// those that are recorded, whose recording ends when the caller leaves.
func TestProfiles(t *testing.T) {
	h := newServer(t, sample(t).Config()).Handler()
	left, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		target, begins string
		status         int
	}{
		{"heap", "\x1f\x8b", 200},
		{"allocs?gc=1", "\x1f\x8b", 200},
		{"goroutine?debug=2", "goroutine ", 200},
		{"profile?seconds=5", "\x1f\x8b", 200},
		{"trace?seconds=5", "go 1.", 200},
		{"trace", "go 1.", 200},
		{"profile?seconds=61", `{"error"`, 400},
		{"profile?seconds=0", `{"error"`, 400},
		{"profile?seconds=1.5", `{"error"`, 400},
		{"cmdline", `{"error"`, 404},
	} {
		r := httptest.NewRequestWithContext(left, "GET", "/debug/pprof/"+c.target, nil)
		r.Host = "127.0.0.1:8080"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.begins) {
			t.Errorf("%s: status %d, %.80q, want %d and %q", c.target, w.Code, w.Body, c.status, c.begins)
		}
	}
}
