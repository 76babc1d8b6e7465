package configstoretest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func current(v *configstore.View) func() bool {
	return func() bool { return v.Status().State == configstore.StateCurrent }
}

func wentBack(v *configstore.View) func() bool {
	return func() bool { return v.Status().State == configstore.StateWentBack }
}

// testRestore loses changes, tombstones and at last everything, and puts it back.
func testRestore(t *testing.T, b Backend) {
	if b.Backup == nil {
		t.Skip("this backend cannot be restored")
	}
	ctx, s := testContext(t), b.Open(t)
	empty := b.Backup()
	meshOf(t, configstore.NewWriter(s, "admin"))
	v, _ := start(t, s, &configstore.MemoryKeeper{})
	other, _ := start(t, s, &configstore.MemoryKeeper{})
	w := v.Writer("admin")
	must(w.PutTenant(ctx, "gone", func(*configstore.Tenant) error { return nil }))(t)
	if done := must(v.Restore(ctx, "admin", false))(t); len(done) != 0 {
		t.Fatalf("a store that did not go back was changed: %v", done)
	}
	old := b.Backup()
	setMesh(t, w, "a", "b", "c")
	if err := w.DeleteTenant(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	eventually(t, other, "the other region is up to date", func() bool {
		return other.Status().Digest == v.Status().Digest && len(other.Edges()) == 6
	})
	digest, documents := v.Status().Digest, v.Status().Documents
	for _, step := range []struct {
		name string
		lose func()
		puts int
	}{{"an old copy", old, 2}, {"everything", empty, documents}} {
		step.lose()
		for _, v := range []*configstore.View{v, other} {
			eventually(t, v, step.name+": store went back", wentBack(v))
		}
		plan := must(v.Restore(ctx, "admin", true))(t)
		if len(plan) != step.puts || v.Status().State != configstore.StateWentBack {
			t.Fatalf("%s: the plan is %v, want %d documents, and state %v", step.name, plan, step.puts, v.Status().State)
		}
		done := must(v.Restore(ctx, "admin", false))(t)
		if fmt.Sprint(done) != fmt.Sprint(plan) {
			t.Fatalf("%s: done %v, planned %v", step.name, done, plan)
		}
		for _, v := range []*configstore.View{v, other} {
			eventually(t, v, step.name+": current", current(v))
			if st := v.Status(); st.Digest != digest || st.Documents != documents {
				t.Fatalf("%s: the store has other documents than before: %+v", step.name, st)
			}
		}
		if d := must(s.Get(ctx, configstore.TenantKey("gone")))(t); !d.Deleted {
			t.Fatalf("%s: a tombstone came back as a document", step.name)
		}
	}
	setMesh(t, w, "a", "c") // and writes go on
	eventually(t, other, "two edges", func() bool { return len(other.Edges()) == 2 })
}

// testRestoreHighest: a region that saw less puts back what it has first.
func testRestoreHighest(t *testing.T, b Backend) {
	if b.Backup == nil {
		t.Skip("this backend cannot be restored")
	}
	ctx, s := testContext(t), b.Open(t)
	meshOf(t, configstore.NewWriter(s, "admin"))
	old := b.Backup()
	less, kept := &configstore.MemoryKeeper{}, &configstore.MemoryKeeper{}
	v, stop := start(t, s, less)
	setMesh(t, v.Writer("admin"), "a", "b", "c")
	stop() // it misses the last change
	v, stop = start(t, s, kept)
	setMesh(t, v.Writer("admin"), "a", "c")
	stop()
	old()
	behind, _ := start(t, s, less)
	ahead, _ := start(t, s, kept)
	if done := must(behind.Restore(ctx, "admin", false))(t); len(done) != 1 || done[0].Version != 2 || done[0].Had != 1 {
		t.Fatalf("the region that saw less put back %v", done)
	}
	eventually(t, ahead, "store went back", wentBack(ahead))
	if done := must(ahead.Restore(ctx, "admin", false))(t); len(done) != 1 || done[0].Version != 3 || done[0].Had != 2 {
		t.Fatalf("the region that saw more put back %v", done)
	}
	// A status follows the picture that it tells of: each is waited for.
	eventually(t, behind, "the newest edges, and the same digest as the other region", func() bool {
		return len(behind.Edges()) == 2 && current(behind)() && current(ahead)() && behind.Status().Digest == ahead.Status().Digest
	})
}

func testRestoreOtherContent(t *testing.T, b Backend) {
	if b.Backup == nil {
		t.Skip("this backend cannot be restored")
	}
	ctx, s := testContext(t), b.Open(t)
	meshOf(t, configstore.NewWriter(s, "admin"))
	old := b.Backup()
	v, _ := start(t, s, &configstore.MemoryKeeper{})
	setMesh(t, v.Writer("admin"), "a", "b", "c")
	old()
	setMesh(t, configstore.NewWriter(s, "who saw the old one"), "a", "c") // the same version again
	taken, _ := start(t, s, &configstore.MemoryKeeper{})                  // a region that knows the other content only
	eventually(t, v, "store went back", wentBack(v))
	done := must(v.Restore(ctx, "restorer", false))(t)
	if len(done) != 1 || done[0].Had != 2 || done[0].Version != 3 {
		t.Fatalf("put back %v", done)
	}
	for _, v := range []*configstore.View{v, taken} {
		eventually(t, v, "six edges", func() bool { return len(v.Edges()) == 6 && current(v)() })
	}
	if d := must(s.Get(ctx, configstore.NamespaceKey("t", "n")))(t); d.UpdatedBy != "restorer" {
		t.Fatalf("the document says that %q wrote it", d.UpdatedBy)
	}
}

func restorer(t *testing.T, s configstore.Store) configstore.Restorer {
	t.Helper()
	r, ok := s.(configstore.Restorer)
	if !ok {
		t.Fatal("the backend is no Restorer")
	}
	return r
}

func testRestoreConflict(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	r := restorer(t, s)
	key := configstore.TenantKey("t")
	one, other := document(t, key, "1", ""), document(t, key, "1", `,"other":true`)
	five := document(t, key, "5", "")
	if err := s.Put(ctx, one); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]configstore.Replacement{
		"where something is":      {{Document: five}},
		"where other content is":  {{Document: five, Was: &other}},
		"of a document not there": {{Document: document(t, configstore.TenantKey("u"), "5", ""), Was: ptr(document(t, configstore.TenantKey("u"), "1", ""))}},
	} {
		if err := r.Restore(ctx, list); !errors.Is(err, configstore.ErrConflict) {
			t.Errorf("%s: restore gives %v, want a conflict", name, err)
		}
	}
	if err := r.Restore(ctx, []configstore.Replacement{{Document: one, Was: &five}}); rhumb.KindOf(err) != rhumb.KindInvalid {
		t.Errorf("a lower version: restore gives %v, want kind invalid", err)
	}
	if docs := must(s.List(ctx, configstore.Prefix))(t); len(docs) != 1 || docs[0].Hash() != one.Hash() {
		t.Fatalf("refused restores left %v", docs)
	}
	if err := r.Restore(ctx, []configstore.Replacement{{Document: five, Was: &one}}); err != nil {
		t.Fatal(err)
	}
	if d := must(s.Get(ctx, key))(t); d.Version != 5 {
		t.Fatalf("version %d after a restore of version 5", d.Version)
	}
}

func ptr[T any](v T) *T { return &v }

// testRestoreMany passes every bound of one transaction of a backend: in operations
// and in bytes.
func testRestoreMany(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	var list []configstore.Replacement
	for i := range 150 {
		list = append(list, configstore.Replacement{Document: document(t, configstore.TenantKey(rhumb.Tenant(fmt.Sprintf("t%03d", i))), "7", "")})
	}
	for i, bytes := range []int{200 << 10, 200 << 10, configstore.MaxDocumentBytes - 200, 300 << 10} {
		more := fmt.Sprintf(`,"text":"%0*d"`, bytes, i)
		list = append(list, configstore.Replacement{Document: document(t, configstore.TenantKey(rhumb.Tenant(fmt.Sprintf("u%d", i))), "9", more)})
	}
	if err := restorer(t, s).Restore(ctx, list); err != nil {
		t.Fatal(err)
	}
	docs := must(s.List(ctx, configstore.Prefix))(t)
	if len(docs) != len(list) {
		t.Fatalf("%d documents, want %d", len(docs), len(list))
	}
	for i, d := range docs {
		if d.Hash() != list[i].Document.Hash() {
			t.Fatalf("%s differs", d.Key)
		}
	}
}
