package configstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestRegionIsRemovedWhenItMay: not before it is drained, as only itself can say, and
// not while a namespace names it.
func TestRegionIsRemovedWhenItMay(t *testing.T) {
	a, ctx := small(t), t.Context()
	old := rhumb.NewUUID()
	_, err := a.RegisterRegion(ctx, configstore.Region{Name: "ap", DataUUID: old}, 0)
	a.ok(err)
	a.ok(a.tenant("acme"))
	a.ok(a.mesh("acme", "n", "us", "ap"))
	_, err = a.RemoveRegion(ctx, "ap", false)
	a.refused(err, rhumb.KindInvalid, "namespace acme/n", "--force")
	a.ok(a.mesh("acme", "n", "us", "eu"))
	_, err = a.RemoveRegion(ctx, "ap", false)
	a.refused(err, rhumb.KindInvalid, "is active", "rhumb region drain ap")
	_, err = a.NoteDrained(ctx, "ap", old)
	a.ok(err)
	_, err = a.RemoveRegion(ctx, "ap", false)
	a.refused(err, rhumb.KindInvalid, "is active") // it had not been asked to drain
	_, err = a.DrainRegion(ctx, "ap", false)
	a.ok(err)
	_, err = a.RemoveRegion(ctx, "ap", false)
	a.refused(err, rhumb.KindInvalid, "is draining")
	_, err = a.NoteDrained(ctx, "ap", rhumb.NewUUID()) // another directory has no say
	a.ok(err)
	_, err = a.RemoveRegion(ctx, "ap", false)
	a.refused(err, rhumb.KindInvalid, "is draining")
	_, err = a.NoteDrained(ctx, "ap", old)
	a.ok(err)
	_, err = a.RemoveRegion(ctx, "ap", false)
	a.ok(err)
	_, err = a.RemoveRegion(ctx, "ap", true)
	a.refused(err, rhumb.KindNotFound)
}

// TestRemovedRegionMayStayNamed: after --force, what is exported is a file that changes
// nothing, and documents are changed elsewhere; new mention of the region is refused,
// and it is taken out with one file.
func TestRemovedRegionMayStayNamed(t *testing.T) {
	a, ctx := small(t), t.Context()
	const space = `{"tenants":{"acme":{"allowed_regions":[%s],"namespaces":{"n":{"topology":{"fan-in":{"from":["us"],"to":"%s"}}%s,
		"topics":{"x":{"topology":{"edges":[{"from":"us","to":"%[2]s"}]}}}}}}}}`
	a.applied(fmt.Sprintf(space, `"us","ap"`, "ap", `,"regions":{"ap":{"retention":"1d"}}`), false)
	_, err := a.RemoveRegion(ctx, "ap", true)
	a.ok(err)
	uses, err := a.Uses(ctx, "ap")
	a.ok(err)
	if got, want := uses.Words(), []string{"namespace acme/n", "topic acme/n/x", "tenant acme"}; !slices.Equal(got, want) {
		t.Errorf("named by %q, want %q", got, want)
	}
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	exported := string(configstore.ExportTopology(v.Tenants(), v.Namespaces(), v.TopicDocs()))
	for _, prune := range []bool{false, true} {
		p := a.plan(exported, prune)
		if !p.Empty() || len(p.Edges) > 0 {
			t.Errorf("what is exported changes something: %+v", p)
		}
		text := strings.Join(p.Warnings, "\n")
		for _, want := range []string{"tenant acme allows region ap", "namespaces/acme/n: some edges are left out: region \"ap\"", "topics/acme/n/x", "settings for region ap"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		a.applied(exported, prune)
	}
	for _, edit := range []func(*configstore.Namespace) error{
		func(*configstore.Namespace) error { return nil },
		func(n *configstore.Namespace) error { n.DeleteScope = configstore.ScopeRegion; return nil },
	} {
		_, err = a.PutNamespace(ctx, "acme", "n", edit)
		a.ok(err)
	}
	for _, file := range []string{
		`{"tenants":{"acme":{"namespaces":{"n":{"topology":{"fan-in":{"from":["ap"],"to":"us"}}}}}}}`,
		`{"tenants":{"acme":{"namespaces":{"new":{"topology":{"fan-in":{"from":["us"],"to":"ap"}}}}}}}`,
		`{"tenants":{"acme":{"namespaces":{"n":{"topics":{"y":{"topology":{"edges":[{"from":"us","to":"ap"}]}}}}}}}}`,
		`{"tenants":{"new":{"allowed_regions":["ap"]}}}`,
	} {
		_, err = a.PlanTopology(ctx, a.file(file), false)
		a.refused(err, rhumb.KindInvalid, `region "ap" is not registered`)
	}
	_, err = a.PutNamespace(ctx, "acme", "new", func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FanIn: &configstore.FanIn{From: []rhumb.RegionName{"us"}, To: "ap"}}
		return nil
	})
	a.refused(err, rhumb.KindInvalid, `region "ap" is not registered`)
	a.applied(fmt.Sprintf(space, `"us","eu"`, "eu", ""), false) // adds a region and takes it out
	uses, err = a.Uses(ctx, "ap")
	a.ok(err)
	if uses.Any() {
		t.Errorf("still named by %s", uses)
	}
}

// TestRemovedRegionStaysRemoved: its process and its data directory are refused,
// under its own name and any other; its number is known as gone for ever.
func TestRemovedRegionStaysRemoved(t *testing.T) {
	a, ctx := small(t), t.Context()
	old := rhumb.NewUUID()
	_, err := a.RegisterRegion(ctx, configstore.Region{Name: "ap", DataUUID: old}, 0)
	a.ok(err)
	_, err = a.DrainRegion(ctx, "ap", false)
	a.ok(err)
	_, err = a.NoteDrained(ctx, "ap", old)
	a.ok(err)
	_, err = a.RemoveRegion(ctx, "ap", false)
	a.ok(err)
	for _, name := range []rhumb.RegionName{"ap", "sa"} {
		_, err = a.RegisterRegion(ctx, configstore.Region{Name: name, DataUUID: old}, 0)
		if a.refused(err, rhumb.KindForbidden, "number 3"); !errors.Is(err, configstore.ErrRemoved) {
			t.Fatal(err)
		}
	}
	_, err = a.RegisterRegion(ctx, configstore.Region{Name: "ap", DataUUID: rhumb.NewUUID()}, 0)
	a.refused(err, rhumb.KindForbidden, "rhumb region register ap")

	r, err := a.AddRegion(ctx, configstore.Region{Name: "ap"}, 0)
	a.ok(err)
	if r.Number != 4 || len(r.Former) != 1 || r.Former[0].Number != 3 || r.Former[0].Forced || !r.JoinedAt.IsZero() {
		t.Fatalf("%+v", r)
	}
	_, err = a.RegisterRegion(ctx, configstore.Region{Name: "ap", DataUUID: old}, 0)
	a.refused(err, rhumb.KindForbidden, "empty data directory")
	fresh := rhumb.NewUUID()
	r, err = a.RegisterRegion(ctx, configstore.Region{Name: "ap", DataUUID: fresh}, 0)
	a.ok(err)
	if r.JoinedAt.IsZero() || r.DataUUID != fresh {
		t.Fatalf("%+v", r)
	}
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	for n, want := range map[rhumb.RegionNumber]configstore.Owner{3: {Name: "ap", Gone: true}, 4: {Name: "ap"}, 1: {Name: "us"}} {
		if o, ok := v.Owner(n); !ok || o.Name != want.Name || o.Gone != want.Gone || o.Number != n {
			t.Errorf("number %d is of %+v", n, o)
		}
	}
	if _, ok := v.RegionByNumber(3); ok {
		t.Error("a number that is gone has a region")
	}
	if _, ok := v.Owner(5); ok {
		t.Error("a number that was never given has an owner")
	}
	_, err = a.RemoveRegion(ctx, "ap", true)
	a.ok(err)
	r, err = a.AddRegion(ctx, configstore.Region{Name: "ap"}, 0)
	a.ok(err)
	if len(r.Former) != 2 || !r.Former[1].Forced || r.Former[1].Number != 4 {
		t.Fatalf("%+v", r.Former)
	}
}

// TestRegionThatNeverStartedIsRemovedAtOnce: there is nothing to drain.
func TestRegionThatNeverStartedIsRemovedAtOnce(t *testing.T) {
	a := small(t)
	_, err := a.AddRegion(t.Context(), configstore.Region{Name: "moon"}, 0)
	a.ok(err)
	r, err := a.RemoveRegion(t.Context(), "moon", false)
	a.ok(err)
	if r.Forced {
		t.Error("it counts as forced")
	}
}

// TestDrainIsTakenBack: draining and active follow each other, and a region that was
// drained and takes producers again must drain again.
func TestDrainIsTakenBack(t *testing.T) {
	a, ctx := small(t), t.Context()
	data := rhumb.NewUUID()
	_, err := a.RegisterRegion(ctx, configstore.Region{Name: "ap", DataUUID: data}, 0)
	a.ok(err)
	for _, step := range []struct {
		undo bool
		want configstore.RegionState
	}{{true, configstore.RegionActive}, {false, configstore.RegionDraining}, {false, configstore.RegionDraining}, {true, configstore.RegionActive}, {false, configstore.RegionDraining}} {
		r, err := a.DrainRegion(ctx, "ap", step.undo)
		a.ok(err)
		if r.State != step.want && (r.State != "" || step.want != configstore.RegionActive) {
			t.Fatalf("undo %v: %+v", step.undo, r)
		}
		if r.Drains() {
			drained, err := a.NoteDrained(ctx, "ap", data)
			a.ok(err)
			if drained.State != configstore.RegionDrained {
				t.Fatalf("%+v", drained)
			}
			again, err := a.DrainRegion(ctx, "ap", false)
			a.ok(err)
			if again.State != configstore.RegionDrained || again.Version != drained.Version {
				t.Fatalf("drained once more: %+v", again)
			}
			_, err = a.DrainRegion(ctx, "ap", true)
			a.ok(err)
		}
	}
}

// TestTwoAdminsRegisterAtOnce: of one name one wins and the others are told; of
// several names each gets a number of its own.
func TestTwoAdminsRegisterAtOnce(t *testing.T) {
	a, ctx := newAdmin(t), t.Context()
	const admins = 8
	var wg sync.WaitGroup
	won, numbers := make(chan rhumb.RegionNumber, admins), make(chan rhumb.RegionNumber, admins)
	for i := range admins {
		wg.Go(func() {
			w := configstore.NewWriter(a.store, "admin")
			switch r, err := w.AddRegion(ctx, configstore.Region{Name: "ap"}, 0); {
			case err == nil:
				won <- r.Number
			case rhumb.KindOf(err) != rhumb.KindExists:
				t.Error(err)
			}
			r, err := w.AddRegion(ctx, configstore.Region{Name: rhumb.RegionName("r" + string(rune('a'+i)))}, 0)
			if err != nil {
				t.Error(err)
			}
			numbers <- r.Number
		})
	}
	wg.Wait()
	close(won)
	close(numbers)
	if len(won) != 1 {
		t.Fatalf("%d admins registered the same name", len(won))
	}
	seen := map[rhumb.RegionNumber]bool{<-won: true}
	for n := range numbers {
		if seen[n] || n == 0 {
			t.Fatalf("number %d was given twice", n)
		}
		seen[n] = true
	}
}

// TestPinnedAddressesStay: a region that starts leaves an operator's addresses alone.
func TestPinnedAddressesStay(t *testing.T) {
	a, ctx := small(t), t.Context()
	data := rhumb.NewUUID()
	own := configstore.Region{Name: "ap", DataUUID: data, Geo: []string{"own:7650"}}
	_, err := a.RegisterRegion(ctx, own, 0)
	a.ok(err)
	_, err = a.UpdateRegion(ctx, "ap", func(r *configstore.Region) error {
		r.Geo, r.Pinned, r.Number = []string{"new:7650"}, true, 99
		return nil
	})
	a.ok(err)
	r, err := a.RegisterRegion(ctx, own, 0)
	a.ok(err)
	if r.Geo[0] != "new:7650" || r.Number != 3 {
		t.Fatalf("%+v", r)
	}
	_, err = a.UpdateRegion(ctx, "ap", func(r *configstore.Region) error { r.Pinned = false; return nil })
	a.ok(err)
	if r, err = a.RegisterRegion(ctx, own, 0); err != nil || r.Geo[0] != "own:7650" {
		t.Fatalf("%+v, %v", r, err)
	}
	_, err = a.UpdateRegion(ctx, "ap", func(r *configstore.Region) error { r.Geo = []string{"nowhere"}; return nil })
	a.refused(err, rhumb.KindInvalid, "geo[0]")
}
