package configstoretest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// start opens a view on a handle and runs it until the test ends or stop is called.
func start(t *testing.T, s configstore.Store, k configstore.Keeper) (v *configstore.View, stop func()) {
	t.Helper()
	v = must(configstore.OpenView(testContext(t), viewConfig(s, k)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	return v, stop
}

func viewConfig(s configstore.Store, k configstore.Keeper) configstore.ViewConfig {
	return configstore.ViewConfig{Store: s, Keeper: k, CreateMesh: true, By: "test", RereadEvery: 50 * time.Millisecond, CallTimeout: patience}
}

// meshOf registers regions a, b and c, and tenant t with namespace n over a and b.
func meshOf(t *testing.T, w *configstore.Writer) {
	t.Helper()
	ctx := testContext(t)
	must(w.EnsureMesh(ctx))(t)
	for _, name := range []rhumb.RegionName{"a", "b", "c"} {
		must(w.RegisterRegion(ctx, configstore.Region{Name: name, Geo: []string{"host:7650"}}, 0))(t)
	}
	must(w.PutTenant(ctx, "t", func(*configstore.Tenant) error { return nil }))(t)
	setMesh(t, w, "a", "b")
}

func setMesh(t *testing.T, w *configstore.Writer, regions ...rhumb.RegionName) {
	t.Helper()
	must(w.PutNamespace(testContext(t), "t", "n", func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: regions}
		return nil
	}))(t)
}

func testViewFollows(t *testing.T, b Backend) {
	v, _ := start(t, b.Open(t), &configstore.MemoryKeeper{})
	w := configstore.NewWriter(b.Open(t), "admin") // another process, as it were
	meshOf(t, w)
	eventually(t, v, "two edges", func() bool { return len(v.Edges()) == 2 })
	setMesh(t, w, "a", "b", "c")
	eventually(t, v, "six edges", func() bool { return len(v.EdgesFrom("a")) == 2 && len(v.EdgesTo("c")) == 2 })
	if err := w.DeleteNamespace(testContext(t), "t", "n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, v, "no edges", func() bool { return len(v.Edges()) == 0 })
	eventually(t, v, "current, without problems", func() bool { // the status follows what is shown
		s := v.Status()
		return s.State == configstore.StateCurrent && len(s.Problems) == 0
	})
}

func testFirstStart(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	cfg := viewConfig(s, &configstore.MemoryKeeper{})
	cfg.CreateMesh = false
	if _, err := configstore.OpenView(ctx, cfg); !errors.Is(err, configstore.ErrNoMesh) {
		t.Fatalf("a start on a store without a mesh: %v", err)
	}
	if b.SetDown == nil {
		t.Skip("this backend cannot be down")
	}
	b.SetDown(true)
	if _, err := configstore.OpenView(ctx, cfg); !errors.Is(err, configstore.ErrFirst) {
		t.Fatalf("a first start without the store: %v", err)
	}
}

func testViewDown(t *testing.T, b Backend) {
	if b.SetDown == nil {
		t.Skip("this backend cannot be down")
	}
	s, keeper := b.Open(t), &configstore.MemoryKeeper{}
	meshOf(t, configstore.NewWriter(s, "admin"))
	v, stop := start(t, s, keeper)
	b.SetDown(true)
	eventually(t, v, "store down", func() bool { return v.Status().State == configstore.StateStoreDown })
	if _, err := v.Writer("admin").PutTenant(testContext(t), "u", func(*configstore.Tenant) error { return nil }); rhumb.KindOf(err) != rhumb.KindUnavailable {
		t.Fatalf("a write while the store is down: %v", err)
	}
	stop()
	v, _ = start(t, s, keeper) // a restart while the store is down
	if len(v.Edges()) != 2 || v.Mesh().UUID.IsZero() {
		t.Fatalf("a restart without the store shows edges %v", v.Edges())
	}
	b.SetDown(false)
	eventually(t, v, "current", func() bool { return v.Status().State == configstore.StateCurrent })
	setMesh(t, v.Writer("admin"), "a", "b", "c")
	if len(v.Edges()) != 6 {
		t.Fatalf("after its own write the view shows %v", v.Edges())
	}
}

func testSilent(t *testing.T, b Backend) {
	if b.SetSilent == nil {
		t.Skip("watches of this backend cannot fall silent")
	}
	v, _ := start(t, b.Open(t), &configstore.MemoryKeeper{})
	b.SetSilent(true)
	meshOf(t, configstore.NewWriter(b.Open(t), "admin"))
	eventually(t, v, "two edges", func() bool { return len(v.Edges()) == 2 })
	// The first changes may still have come with the start of the watch.
	w := configstore.NewWriter(b.Open(t), "admin")
	regions := []rhumb.RegionName{"a", "b", "c"}
	for n := 3; v.Status().CaughtByReread == 0; n = 5 - n { // 3, 2, 3, 2…
		setMesh(t, w, regions[:n]...)
		eventually(t, v, "the edges of the last change", func() bool { return len(v.Edges()) == n*(n-1) })
	}
}

func testWentBack(t *testing.T, b Backend) {
	if b.Backup == nil {
		t.Skip("this backend cannot be restored")
	}
	s, keeper := b.Open(t), &configstore.MemoryKeeper{}
	empty := b.Backup()
	meshOf(t, configstore.NewWriter(s, "admin"))
	v, stop := start(t, s, keeper)
	old := b.Backup()
	w := v.Writer("admin")
	setMesh(t, w, "a", "b", "c")
	for name, restore := range map[string]func(){"old": old, "empty": empty} {
		restore()
		eventually(t, v, name+": store went back", func() bool { return v.Status().State == configstore.StateWentBack })
		if len(v.Edges()) != 6 {
			t.Fatalf("%s: policy rolled back to %v", name, v.Edges())
		}
		_, err := w.PutTenant(testContext(t), "u", func(*configstore.Tenant) error { return nil })
		if !errors.Is(err, configstore.ErrWentBack) || !strings.Contains(err.Error(), "namespaces/t/n") && name == "old" {
			t.Fatalf("%s: a write to a store that went back: %v", name, err)
		}
		stop()
		v, stop = start(t, s, keeper) // nor does a restart take it
		if st := v.Status(); st.State != configstore.StateWentBack || len(v.Edges()) != 6 {
			t.Fatalf("%s: after a restart: %+v, %v", name, st, v.Edges())
		}
		w = v.Writer("admin")
	}
}

func testOtherContent(t *testing.T, b Backend) {
	if b.Backup == nil {
		t.Skip("this backend cannot be restored")
	}
	s, keeper := b.Open(t), &configstore.MemoryKeeper{}
	meshOf(t, configstore.NewWriter(s, "admin"))
	old := b.Backup()
	v, _ := start(t, s, keeper)
	setMesh(t, v.Writer("admin"), "a", "b", "c")
	v2, _ := start(t, s, &configstore.MemoryKeeper{})
	old()
	setMesh(t, configstore.NewWriter(s, "who saw the old one"), "a", "c") // the same version again
	for _, v := range []*configstore.View{v, v2} {
		eventually(t, v, "store went back", func() bool {
			st := v.Status()
			return st.State == configstore.StateWentBack && len(st.Problems) == 1 && strings.Contains(st.Problems[0].Reason, "same version")
		})
		if len(v.Edges()) != 6 {
			t.Fatalf("edges %v", v.Edges())
		}
	}
}

func testOtherMesh(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	m := must(configstore.NewWriter(s, "admin").EnsureMesh(ctx))(t)
	cfg := viewConfig(s, &configstore.MemoryKeeper{})
	cfg.Mesh = rhumb.NewUUID()
	_, err := configstore.OpenView(ctx, cfg)
	if !errors.Is(err, configstore.ErrOtherMesh) || !strings.Contains(err.Error(), m.UUID.String()) || !strings.Contains(err.Error(), cfg.Mesh.String()) {
		t.Fatalf("a store of another mesh: %v", err)
	}
}
