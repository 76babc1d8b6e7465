package configstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// admin is a Writer on a store in memory, with helpers that end the test on an error.
type admin struct {
	*configstore.Writer
	t     *testing.T
	store *embedded.Memory
}

func newAdmin(t *testing.T) admin {
	m := embedded.NewMemory()
	a := admin{configstore.NewWriter(m, "test"), t, m}
	_, err := a.EnsureMesh(t.Context())
	a.ok(err)
	return a
}

func (a admin) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// refused checks that err is of the kind and says all of the words.
func (a admin) refused(err error, kind rhumb.Kind, words ...string) {
	a.t.Helper()
	if err == nil || rhumb.KindOf(err) != kind {
		a.t.Fatalf("%v (%v), want kind %v", err, rhumb.KindOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			a.t.Fatalf("%v does not say %q", err, w)
		}
	}
}

func (a admin) register(names ...rhumb.RegionName) {
	a.t.Helper()
	for _, name := range names {
		_, err := a.RegisterRegion(a.t.Context(), configstore.Region{Name: name}, 0)
		a.ok(err)
	}
}

// tenant puts a tenant; no regions means all.
func (a admin) tenant(name rhumb.Tenant, allowed ...rhumb.RegionName) error {
	_, err := a.PutTenant(a.t.Context(), name, func(t *configstore.Tenant) error { t.AllowedRegions = allowed; return nil })
	return err
}

// mesh puts a namespace with a full mesh of the regions.
func (a admin) mesh(t rhumb.Tenant, ns rhumb.Namespace, regions ...rhumb.RegionName) error {
	_, err := a.PutNamespace(a.t.Context(), t, ns, func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: append([]rhumb.RegionName{}, regions...)}
		return nil
	})
	return err
}

func TestNamespaceNamesOnlyWhatItMay(t *testing.T) {
	a := newAdmin(t)
	a.register("us", "eu", "ap")
	a.refused(a.mesh("acme", "n", "us"), rhumb.KindInvalid, "namespaces/acme/n", "tenant", `"acme" does not exist`)
	a.ok(a.tenant("acme", "us", "eu"))
	a.ok(a.mesh("acme", "n", "us", "eu"))
	a.refused(a.mesh("acme", "n", "us", "ap"), rhumb.KindInvalid, "topology.full-mesh[1]", `does not allow region "ap"`)
	a.refused(a.mesh("acme", "n", "us", "moon"), rhumb.KindInvalid, "topology.full-mesh[1]", `"moon" is not registered`)
	a.refused(a.tenant("acme", "us"), rhumb.KindInvalid, "tenants/acme", "allowed_regions", `acme/n names region "eu"`)
	a.refused(a.tenant("other", "moon"), rhumb.KindInvalid, "allowed_regions[0]", "not registered")
	a.refused(a.DeleteRegion(t.Context(), "eu"), rhumb.KindInvalid, "regions/eu", "namespace acme/n")
	a.refused(a.DeleteTenant(t.Context(), "acme"), rhumb.KindInvalid, "namespace acme/n is still there")
	a.ok(a.mesh("acme", "n")) // local only
	a.refused(a.DeleteRegion(t.Context(), "eu"), rhumb.KindInvalid, "tenant acme")
	a.ok(a.tenant("acme", "us"))
	a.ok(a.DeleteRegion(t.Context(), "eu"))
	a.ok(a.DeleteNamespace(t.Context(), "acme", "n"))
	a.ok(a.DeleteTenant(t.Context(), "acme"))
	a.refused(a.DeleteTenant(t.Context(), "acme"), rhumb.KindNotFound)
	a.refused(a.DeleteNamespace(t.Context(), "acme", "never"), rhumb.KindNotFound)
	_, err := a.PutTenant(t.Context(), "..", func(*configstore.Tenant) error { return nil })
	a.refused(err, rhumb.KindInvalid, "..")
}

// TestTombstonesAreVersions: what is deleted stays as a tombstone, and comes back
// above it, without what it had.
func TestTombstonesAreVersions(t *testing.T) {
	a := newAdmin(t)
	a.register("us")
	a.ok(a.tenant("acme", "us"))
	a.ok(a.DeleteTenant(t.Context(), "acme"))
	d, err := a.store.Get(t.Context(), configstore.TenantKey("acme"))
	a.ok(err)
	if !d.Deleted || d.Version != 2 {
		t.Fatalf("%s", d.JSON)
	}
	got, err := a.PutTenant(t.Context(), "acme", func(tn *configstore.Tenant) error {
		if tn.Version != 0 || tn.AllowedRegions != nil || tn.Deleted {
			t.Errorf("the edit of a new tenant got %+v", tn)
		}
		return nil
	})
	a.ok(err)
	if got.Version != 3 || got.Deleted || got.Name != "acme" || got.UpdatedBy != "test" || got.UpdatedAt.IsZero() {
		t.Fatalf("%+v", got)
	}
}

func TestRegionNumbersAreNeverUsedAgain(t *testing.T) {
	a, ctx := newAdmin(t), t.Context()
	a.register("us", "eu")
	data := rhumb.NewUUID()
	put := func(r configstore.Region) (configstore.Region, error) { return a.RegisterRegion(ctx, r, 0) }

	_, err := put(configstore.Region{Name: "ap", Number: 2})
	a.refused(err, rhumb.KindInvalid, "regions/ap", "number", "up to 2 were given")
	r, err := put(configstore.Region{Name: "ap", Number: 9, DataUUID: data})
	a.ok(err)
	if r.Number != 9 || r.State != configstore.RegionActive || r.Version != 1 {
		t.Fatalf("%+v", r)
	}
	_, err = put(configstore.Region{Name: "ap", Number: 10, DataUUID: data})
	a.refused(err, rhumb.KindForbidden, "has number 9")
	_, err = put(configstore.Region{Name: "AP"})
	a.refused(err, rhumb.KindInvalid, "AP")
	_, err = put(configstore.Region{Name: "xx", Geo: []string{"nowhere"}})
	a.refused(err, rhumb.KindInvalid, "geo[0]", "host:port")
	a.register("sa")
	if r, _ := a.RegisterRegion(ctx, configstore.Region{Name: "sa"}, 0); r.Number != 11 { // 10 went with the refused one
		t.Fatalf("sa got %d", r.Number)
	}
	a.put(configstore.RegionKey("by-hand"), `,"number":50`) // above what the mesh's document knows
	if r, err := put(configstore.Region{Name: "br"}); err != nil || r.Number != 51 {
		t.Fatalf("br got %d, %v", r.Number, err)
	}
	_, err = a.RegisterRegion(ctx, configstore.Region{Name: "zz"}, rhumb.MaxRegionNumber)
	a.refused(err, rhumb.KindInvalid, "all 32767")
	_, err = configstore.NewWriter(embedded.NewMemory(), "x").RegisterRegion(ctx, configstore.Region{Name: "us"}, 0)
	if !errors.Is(err, configstore.ErrNoMesh) {
		t.Fatalf("a region of no mesh: %v", err)
	}
}

// TestH9RebuiltRegionIsNotTakenForTheOld: a second data directory of a name is
// refused until an operator says that the first is gone.
func TestH9RebuiltRegionIsNotTakenForTheOld(t *testing.T) {
	a, ctx := newAdmin(t), t.Context()
	old, rebuilt := rhumb.NewUUID(), rhumb.NewUUID()
	a.register("us") // an operator may register it before its first start
	r, err := a.RegisterRegion(ctx, configstore.Region{Name: "us", DataUUID: old}, 0)
	a.ok(err)
	if r.DataUUID != old || r.Number != 1 || r.Version != 2 {
		t.Fatalf("%+v", r)
	}
	again, err := a.RegisterRegion(ctx, configstore.Region{Name: "us", DataUUID: old, Number: 1}, 0)
	a.ok(err)
	if again.Version != 2 {
		t.Fatal("a restart without news wrote a new version")
	}
	_, err = a.RegisterRegion(ctx, configstore.Region{Name: "us", DataUUID: rebuilt}, 0)
	a.refused(err, rhumb.KindForbidden, old.String(), rebuilt.String(), "rhumb region replace us")
	if !errors.Is(err, configstore.ErrOtherData) {
		t.Fatal(err)
	}
	_, err = a.ReplaceRegion(ctx, "us")
	a.ok(err)
	r, err = a.RegisterRegion(ctx, configstore.Region{Name: "us", DataUUID: rebuilt}, 0)
	a.ok(err)
	if r.Number != 1 || r.DataUUID != rebuilt || r.Rebuilds != 1 {
		t.Fatalf("%+v", r)
	}
	_, err = a.ReplaceRegion(ctx, "nobody")
	a.refused(err, rhumb.KindNotFound)
}

// TestI2DirectoryOfAnotherRegionIsRefused: a file that was copied with its data_dir makes
// no second region out of the first one's log, under a new name nor under one that was
// registered before its first start.
func TestI2DirectoryOfAnotherRegionIsRefused(t *testing.T) {
	a, ctx := newAdmin(t), t.Context()
	data := rhumb.NewUUID()
	_, err := a.RegisterRegion(ctx, configstore.Region{Name: "us", DataUUID: data}, 0)
	a.ok(err)
	a.register("eu")
	for _, name := range []rhumb.RegionName{"sa", "eu"} {
		_, err = a.RegisterRegion(ctx, configstore.Region{Name: name, DataUUID: data}, 0)
		a.refused(err, rhumb.KindForbidden, "that of region us, number 1", "data_dir or region.name in the file of region "+string(name))
		if !errors.Is(err, configstore.ErrOthers) {
			t.Fatal(err)
		}
	}
	if _, err := a.store.Get(ctx, configstore.RegionKey("sa")); !errors.Is(err, configstore.ErrNotFound) {
		t.Errorf("sa is in the mesh: %v", err)
	}
	_, err = a.RegisterRegion(ctx, configstore.Region{Name: "us", DataUUID: data}, 0)
	a.ok(err)
	_, err = a.RegisterRegion(ctx, configstore.Region{Name: "eu", DataUUID: rhumb.NewUUID()}, 0)
	a.ok(err)
}

func TestDeletionCountOnlyGrows(t *testing.T) {
	a, ctx := newAdmin(t), t.Context()
	topic := rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"}
	put := func(edit func(*configstore.Topic)) error {
		_, err := a.PutTopic(ctx, topic, func(tp *configstore.Topic) error { edit(tp); return nil })
		return err
	}
	a.ok(put(func(tp *configstore.Topic) { tp.Partitions = 8; tp.Configs = map[string]string{"retention.ms": "1"} }))
	a.refused(put(func(tp *configstore.Topic) { tp.Partitions = 4 }), rhumb.KindInvalid, "partitions", "cannot shrink from 8 to 4")
	a.refused(put(func(tp *configstore.Topic) { tp.Deleted = true }), rhumb.KindInvalid, "never deleted")
	n, err := a.CountDeletion(ctx, topic)
	a.ok(err)
	d, err := a.store.Get(ctx, configstore.TopicKey(topic))
	a.ok(err)
	if n != 1 || strings.Contains(string(d.JSON), "partitions") || strings.Contains(string(d.JSON), "configs") {
		t.Fatalf("after a deletion: %s", d.JSON)
	}
	a.refused(put(func(tp *configstore.Topic) { tp.Deletions = 0 }), rhumb.KindInvalid, "deletions", "only grows")
	a.ok(put(func(tp *configstore.Topic) { tp.Partitions = 4 })) // a new life may be smaller
}

// TestG73UnchangedPolicyIsNotAChange: an edit without effect stores nothing, and
// one that leaves the edges alone leaves them as they are.
func TestG73UnchangedPolicyIsNotAChange(t *testing.T) {
	a := small(t)
	before := a.store.Snapshot()
	a.ok(a.mesh("acme", "n", "us", "eu"))
	a.ok(a.tenant("acme"))
	for key, d := range a.store.Snapshot() {
		if d.Hash() != before[key].Hash() {
			t.Fatalf("%s became %s", key, d.JSON)
		}
	}
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	edges := v.Edges()
	a.ok(a.tenant("acme", "us", "eu"))
	a.ok(v.Refresh(t.Context()))
	if got := v.Edges(); !slices.Equal(got, edges) {
		t.Fatalf("edges %v became %v", edges, got)
	}
}

// TestG70StoppingIsNotDeleting: a region that leaves a policy keeps its document,
// its number and the namespace; no deletion count moves.
func TestG70StoppingIsNotDeleting(t *testing.T) {
	a := small(t)
	a.ok(a.mesh("acme", "n", "us", "eu", "ap"))
	topic := rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"}
	_, err := a.PutTopic(t.Context(), topic, func(tp *configstore.Topic) error { tp.Partitions = 3; return nil })
	a.ok(err)
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	a.ok(a.mesh("acme", "n", "us", "eu"))
	a.ok(v.Refresh(t.Context()))
	_, region := v.Region("ap")
	_, namespace := v.Namespace("acme", "n")
	tp, _ := v.TopicDoc(topic)
	if !region || !namespace || tp.Deletions != 0 || tp.Partitions != 3 || len(v.EdgesTo("ap")) != 0 || len(v.Edges()) != 2 {
		t.Fatalf("region %v, namespace %v, topic %+v, edges %v", region, namespace, tp, v.Edges())
	}
	a.ok(a.DeleteNamespace(t.Context(), "acme", "n"))
	a.ok(v.Refresh(t.Context()))
	if tp, ok := v.TopicDoc(topic); !ok || tp.Deletions != 0 {
		t.Fatalf("topic %+v", tp)
	}
}

// TestWriteThatNeverWinsEnds: a backend that always has a conflict is not tried
// for ever.
func TestWriteThatNeverWinsEnds(t *testing.T) {
	w := configstore.NewWriter(conflicting{embedded.NewMemory()}, "test")
	_, err := w.EnsureMesh(t.Context())
	if rhumb.KindOf(err) != rhumb.KindUnavailable || !strings.Contains(err.Error(), "256 attempts") {
		t.Fatal(err)
	}
}

type conflicting struct{ *embedded.Memory }

func (conflicting) Put(context.Context, configstore.Document) error {
	return rhumb.Errorf(rhumb.KindFenced, "%w", configstore.ErrConflict)
}

// TestCrashBetweenNumberAndRegionLosesOnlyTheNumber cuts a registration between
// its two puts.
func TestCrashBetweenNumberAndRegionLosesOnlyTheNumber(t *testing.T) {
	a, ctx := newAdmin(t), t.Context()
	w := configstore.NewWriter(crashing{a.store}, "test")
	if _, err := w.RegisterRegion(ctx, configstore.Region{Name: "us"}, 0); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	r, err := a.RegisterRegion(ctx, configstore.Region{Name: "us"}, 0)
	a.ok(err)
	if r.Number != 2 {
		t.Fatalf("number %d, want 2", r.Number)
	}
}

var errCrash = errors.New("crash")

type crashing struct{ *embedded.Memory }

func (c crashing) Put(ctx context.Context, d configstore.Document) error {
	if strings.HasPrefix(d.Key, configstore.RegionsPrefix) {
		return errCrash
	}
	return c.Memory.Put(ctx, d)
}
