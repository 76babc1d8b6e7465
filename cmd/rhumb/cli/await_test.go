package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
)

// TestVerifyWaitsForARegionThatStarts: right after the first start of a mesh, the
// region that is asked may not know the other one yet.
func TestVerifyWaitsForARegionThatStarts(t *testing.T) {
	us, eu := admintest.New("us", 1), admintest.New("eu", 2)
	var asked atomic.Int32
	entries := []admin.RegionEntry{{Name: "us", Number: 1, State: "active"}}
	serve := func(r *admintest.Region) *httptest.Server {
		api, err := admin.New(r.Config())
		if err != nil {
			t.Fatal(err)
		}
		h := api.Handler()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if r == us && strings.HasSuffix(req.URL.Path, "/regions") && asked.Add(1) == 3 {
				us.SetMesh(entries, []admin.Edge{{Tenant: "public", Namespace: "default", From: "us", To: "eu"}})
			}
			h.ServeHTTP(w, req)
		}))
		t.Cleanup(s.Close)
		return s
	}
	usAt, euAt := serve(us), serve(eu)
	entries[0].Admin = []string{usAt.URL}
	us.SetMesh(entries, nil)
	entries = append(entries, admin.RegionEntry{Name: "eu", Number: 2, State: "active", Admin: []string{euAt.URL}})
	t.Setenv("RHUMB_ADDR", usAt.URL)
	root := &cobra.Command{Use: "rhumb"}
	AddCommands(root)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	Run(t.Context(), root, []string{"verify", "us", "eu"}, &errs)
	if asked.Load() < 3 || strings.Contains(errs.String(), "there is no region") {
		t.Errorf("asked %d times:\n%s%s", asked.Load(), &out, &errs)
	}
}
