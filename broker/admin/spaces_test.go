package admin_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin/admintest"
)

// Of two who make the same, one is told that it is there; of two who replace the
// same version, one is told that it is old; and none is lost otherwise.
func TestChangersAtOnce(t *testing.T) {
	us := admintest.New("us", 1)
	var log bytes.Buffer
	cfg := us.Config()
	var mu sync.Mutex
	cfg.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil))
	h := newServer(t, cfg).Handler()
	both := func(target string, body func(i int) string) map[int]int {
		var wait sync.WaitGroup
		codes := make([]int, 8)
		for i := range codes {
			wait.Go(func() { codes[i] = do(h, "PUT", target, body(i)).Code })
		}
		wait.Wait()
		count := map[int]int{}
		for _, c := range codes {
			count[c]++
		}
		return count
	}
	if got := both("/admin/v1/tenants/acme?create=true", func(int) string { return `{}` }); got[http.StatusOK] != 1 || got[http.StatusConflict] != 7 {
		t.Errorf("create the same tenant at once: %v", got)
	}
	if got := both("/admin/v1/namespaces/acme/shop?create=true", func(int) string { return `{}` }); got[http.StatusOK] != 1 || got[http.StatusConflict] != 7 {
		t.Errorf("create the same namespace at once: %v", got)
	}
	replace := func(i int) string { return fmt.Sprintf(`{"version": 1, "retention": {"ms": %d}}`, 1000+i) }
	if got := both("/admin/v1/namespaces/acme/shop", replace); got[http.StatusOK] != 1 || got[http.StatusConflict] != 7 {
		t.Errorf("replace version 1 at once: %v", got)
	}
	w := do(h, "GET", "/admin/v1/namespaces", "")
	if body := w.Body.String(); !strings.Contains(body, `"version":2`) || !strings.Contains(body, `"ms":100`) {
		t.Errorf("after that: %s", body)
	}
	mu.Lock()
	defer mu.Unlock()
	for text, want := range map[string]int{`msg="admin change" component=admin caller=local role=admin method=PUT path=/admin/v1/namespaces/acme/shop remote=192.0.2.1:1234 object="namespace acme/shop" version_before=`: 2, "admin change refused": 21} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%d audit lines %q, want %d:\n%s", n, text, want, &log)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

func TestDocumentsAreRefusedByField(t *testing.T) {
	h := newServer(t, sample(t).Config()).Handler()
	for _, c := range []struct {
		target, body string
		code         int
		want         string
	}{
		{"/admin/v1/namespaces/old/one", `{"topology": {"full-mesh": ["us"]}}`, 400, `"field":"topology.full-mesh[0]"`},
		{"/admin/v1/namespaces/old/one", `{"retention": {"ms": -2}}`, 400, `"field":"retention.ms"`},
		{"/admin/v1/namespaces/old/one", `{"dedup": "mesh"}`, 501, `"field":"dedup"`},
		{"/admin/v1/namespaces/old/one", `{"deleted": true}`, 400, `"field":"deleted"`},
		{"/admin/v1/namespaces/old/one", `{"a": 1, "a": 2}`, 400, `stands twice`},
		{"/admin/v1/namespaces/old/one?create=perhaps", `{}`, 400, `want true or false`},
		{"/admin/v1/namespaces/old/two?create=false", `{}`, 404, `there is no namespace old/two`},
		{"/admin/v1/namespaces/old/" + strings.Repeat("x", 65), `{}`, 400, `namespace`},
		{"/admin/v1/tenants/old", `{"allowed_regions": ["us", "us"]}`, 400, `"field":"allowed_regions[1]"`},
		{"/admin/v1/tenants/old", strings.Repeat(" ", 70<<10) + `{}`, 413, `too large`},
	} {
		if w := do(h, "PUT", c.target, c.body); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("PUT %s %.60s: %d %s, want %d and %s", c.target, c.body, w.Code, w.Body, c.code, c.want)
		}
	}
}
