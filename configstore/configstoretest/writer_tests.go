package configstoretest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func testUnknownFields(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	key := configstore.TenantKey("t")
	if err := s.Put(ctx, document(t, key, "1", `,"from_the_future":{"a":[1,null,{}]},"allowed_regions":[]`)); err != nil {
		t.Fatal(err)
	}
	w := configstore.NewWriter(s, "older")
	if _, err := w.PutTenant(ctx, "t", func(t *configstore.Tenant) error { t.AllowedRegions = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	d := must(s.Get(ctx, key))(t)
	if !strings.Contains(string(d.JSON), `"from_the_future":{"a":[1,null,{}]}`) || d.Version != 2 || d.UpdatedBy != "older" {
		t.Fatalf("after a change by an older version: %s", d.JSON)
	}
	if strings.Contains(string(d.JSON), "allowed_regions") {
		t.Fatalf("a list that was taken away is still there: %s", d.JSON)
	}
}

func testOneMesh(t *testing.T, b Backend) {
	ctx := testContext(t)
	const starts = 6
	var wg sync.WaitGroup
	got := make([]rhumb.UUID, starts)
	for i := range starts {
		w := configstore.NewWriter(b.Open(t), "test")
		wg.Go(func() {
			m, err := w.EnsureMesh(ctx)
			if err != nil {
				t.Error(err)
			}
			got[i] = m.UUID
		})
	}
	wg.Wait()
	for _, u := range got {
		if u.IsZero() || u != got[0] {
			t.Fatalf("regions that start at once got meshes %v", got)
		}
	}
}

func testNumbers(t *testing.T, b Backend) {
	ctx := testContext(t)
	w := configstore.NewWriter(b.Open(t), "test")
	must(w.EnsureMesh(ctx))(t)
	const regions = 6
	var wg sync.WaitGroup
	got := make([]rhumb.RegionNumber, regions)
	for i := range regions {
		w := configstore.NewWriter(b.Open(t), "test")
		wg.Go(func() {
			r, err := w.RegisterRegion(ctx, configstore.Region{Name: rhumb.RegionName(fmt.Sprintf("r%d", i)), DataUUID: rhumb.NewUUID()}, 0)
			if err != nil {
				t.Error(err)
			}
			got[i] = r.Number
		})
	}
	wg.Wait()
	seen := map[rhumb.RegionNumber]bool{}
	for _, n := range got {
		if n == 0 || seen[n] {
			t.Fatalf("regions that register at once got numbers %v", got)
		}
		seen[n] = true
	}
	if err := w.DeleteRegion(ctx, "r0"); err != nil {
		t.Fatal(err)
	}
	r := must(w.RegisterRegion(ctx, configstore.Region{Name: "r0"}, 0))(t)
	if seen[r.Number] || r.Number < regions+1 {
		t.Fatalf("a name that came back got number %d, after %v", r.Number, got)
	}
	if r := must(w.RegisterRegion(ctx, configstore.Region{Name: "new"}, 1000))(t); r.Number != 1001 {
		t.Fatalf("a region of a mesh that saw number 1000 got %d", r.Number)
	}
}
