package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// onStore serves the API of a region whose documents are those of a store, and gives its
// address and the view that it has.
func onStore(t *testing.T, dir string, name rhumb.RegionName, number rhumb.RegionNumber) (addr string, view *configstore.View) {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	view, err = configstore.OpenView(t.Context(), configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}, CreateMesh: true})
	if err != nil {
		t.Fatal(err)
	}
	r := admintest.New(name, number)
	r.Identity.Mesh = view.Mesh().UUID
	cfg := r.Config()
	cfg.ConfigStore, cfg.Members = view, broker.Documents{View: view}
	cfg.Regions = func() (all []admin.RegionEntry) {
		for _, doc := range view.Regions() {
			all = append(all, admin.RegionEntry{Name: doc.Name, Number: doc.Number, State: "active", Admin: doc.Addresses[configstore.ProtocolAdmin]})
		}
		return all
	}
	server, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(server.Handler())
	t.Cleanup(http.Close)
	return strings.TrimPrefix(http.URL, "http://"), view
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestNumbersAreNotTakenFromAStoreThatWentBack: a store is restored from a copy that was
// made before sa, number 3, was registered. Whoever works on the store itself asks the
// regions that stand in it, and whom these know, as over the API.
func TestNumbersAreNotTakenFromAStoreThatWentBack(t *testing.T) {
	dir, old := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "old")
	addr, view := onStore(t, dir, "us", 1)
	w := configstore.NewWriter(view2store(t, dir), "test")
	register := func(name rhumb.RegionName, admin string) {
		t.Helper()
		if _, err := w.RegisterRegion(t.Context(), configstore.Region{Name: name, DataUUID: rhumb.NewUUID(), Addresses: map[string][]string{configstore.ProtocolAdmin: {admin}}}, 0); err != nil {
			t.Fatal(err)
		}
	}
	register("us", addr)
	register("eu", nobody)
	copyDir(t, dir, old)
	register("sa", nobody)
	if err := view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	copyDir(t, old, dir)
	_ = view.Refresh(t.Context()) // its status says what it found
	if st := view.Status(); st.State != configstore.StateWentBack {
		t.Fatal(st.State, st.Err)
	}
	for _, args := range [][]string{{"region", "register", "xx"}, {"region", "replace", "eu", "--yes"}} {
		code, out, errOut := command(t, append(args, "--config-store", dir)...)
		if code != exitFailed || !strings.Contains(errOut, "region us has seen more than this store has") || !strings.Contains(errOut, "rhumb config restore") {
			t.Errorf("%v: exit code %d: %s%s", args, code, out, errOut)
		}
	}
	if _, err := view.Restore(t.Context(), "test", false); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "region", "register", "xx", "--config-store", dir)
	if code != exitDone || !strings.Contains(out, "number 4") || !strings.Contains(errOut, "region eu cannot be asked") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// TestHighestNumberOfARegionThatTrustsTheStore: what a region has seen counts also where
// it is above all that stands in the store.
func TestHighestNumberOfARegionThatTrustsTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	addr, view := onStore(t, dir, "us", 30) // as an origin of what it holds
	w := configstore.NewWriter(view2store(t, dir), "test")
	if _, err := w.RegisterRegion(t.Context(), configstore.Region{Name: "us", DataUUID: rhumb.NewUUID(), Addresses: map[string][]string{configstore.ProtocolAdmin: {addr}}}, 0); err != nil {
		t.Fatal(err)
	}
	if err := view.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "region", "register", "xx", "--config-store", dir)
	if code != exitDone || !strings.Contains(out, "number 31") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

func view2store(t *testing.T, dir string) configstore.Store {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestURLsAreNoDirectories: whatever takes a directory refuses a URL, and makes nothing.
func TestURLsAreNoDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"https://127.0.0.1:1", "consul+https://127.0.0.1:1", "http:/x", "file:///srv/store"} {
		for _, args := range [][]string{{"certs", "init", "--config-store", url}, {"region", "list", "--config-store", url}, {"region", "register", "xx", "--config-store", url},
			{"certs", "init", "--mesh", rhumb.NewUUID().String(), "--dir", url}} {
			want, words := exitUnknown, "is neither a directory nor consul://"
			if args[len(args)-2] == "--dir" {
				want, words = exitFailed, "is no directory"
			}
			if code, out, errOut := command(t, args...); code != want || !strings.Contains(errOut, words) {
				t.Errorf("%v: exit code %d: %s%s", args, code, out, errOut)
			}
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestTheAddressThatGotFurthestIsTold: of several addresses of a region the error is that
// of the API that refuses, not that of a door which speaks something else.
func TestTheAddressThatGotFurthestIsTold(t *testing.T) {
	us := admintest.New("us", 1)
	tokens, err := admin.OpenTokens([]admin.Token{{Name: "all", Role: admin.RoleAdmin, Secret: allToken}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := us.Config()
	cfg.Tokens = tokens
	server, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(server.Handler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	t.Setenv("RHUMB_TOKEN", "")
	tls := "http://" + strings.TrimPrefix(secure.URL, "https://")
	for _, urls := range [][]string{{plain.URL, tls}, {tls, plain.URL}} {
		_, err := (&target{}).firstThatAnswers(t.Context(), api.RegionEntry{Name: "us", Admin: urls})
		if err == nil || strings.Contains(err.Error(), "speaks TLS") || rhumb.KindOf(err) != rhumb.KindForbidden {
			t.Errorf("%v: %v", urls, err)
		}
	}
}

// TestARegionThatHangsHoldsNobodyUp: one that takes connections and says nothing is one
// that cannot be asked, after a while.
func TestARegionThatHangsHoldsNobodyUp(t *testing.T) {
	us := admintest.New("us", 1)
	var silent *httptest.Server
	release := make(chan struct{})
	silent = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	api, err := admin.New(us.Config())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	us.SetMesh([]admin.RegionEntry{{Name: "us", Number: 1, Admin: []string{server.URL}}, {Name: "hub", Number: 2, Admin: []string{silent.URL}}}, nil)
	t.Setenv("RHUMB_ADDR", server.URL)
	was := answerLimit
	answerLimit = 1
	t.Cleanup(func() { answerLimit = was })
	code, out, _ := command(t, "config", "status")
	if code != exitUnknown || !strings.Contains(out, "us") || !strings.Contains(out, "the time is over") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
