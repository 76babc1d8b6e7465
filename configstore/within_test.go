package configstore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// read gives a namespace or topic from what a person writes.
func read[T any](t *testing.T, text string, from func([]byte) (T, error)) T {
	t.Helper()
	v, err := from([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	return v
}

// TestTenantAdminStaysWithin: a Writer within a tenant changes that tenant's
// namespaces, and no other document.
func TestTenantAdminStaysWithin(t *testing.T) {
	a, ctx := small(t), t.Context()
	a.ok(a.tenant("other"))
	w := a.Within("acme")
	for name, err := range map[string]error{
		"own tenant":        second(w.PutTenant(ctx, "acme", func(t *configstore.Tenant) error { t.AdminRoles = []string{"me"}; return nil })),
		"new tenant":        second(w.PutTenant(ctx, "new", func(*configstore.Tenant) error { return nil })),
		"delete the tenant": w.DeleteTenant(ctx, "acme"),
		"other namespace":   second(w.PutNamespace(ctx, "other", "n", func(*configstore.Namespace) error { return nil })),
		"other topic":       second(w.CountDeletion(ctx, rhumb.Topic{Tenant: "other", Namespace: "n", Name: "x"})),
		"region":            second(w.DrainRegion(ctx, "us", false)),
		"new region":        second(w.AddRegion(ctx, configstore.Region{Name: "sa"}, 0)),
		"remove a region":   second(w.RemoveRegion(ctx, "ap", true)),
		"user":              second(w.PutUser(ctx, "me", func(*configstore.User) error { return nil })),
		"mesh":              second(w.EnsureMesh(ctx)),
	} {
		if rhumb.KindOf(err) != rhumb.KindForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.PutNamespace(ctx, "acme", "more", func(n *configstore.Namespace) error { return nil })
	a.ok(err)
	a.ok(w.DeleteNamespace(ctx, "acme", "more"))
	_, err = w.PutTopic(ctx, rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"}, func(t *configstore.Topic) error {
		t.Topology = &configstore.Topology{FullMesh: []rhumb.RegionName{}}
		return nil
	})
	a.ok(err)
}

func second[T any](_ T, err error) error { return err }

// TestTenantAdminKeepsBounds: limits and rates that are there may fall, not grow or
// go, by whichever way round, in one document or in a file.
func TestTenantAdminKeepsBounds(t *testing.T) {
	const bounded = `{"limits":{"partitions":10},"topology":{"edges":[{"from":"us","to":"eu","rate":"5MB"},{"from":"eu","to":"us","rate":"9MB"}]}}`
	for _, c := range []struct {
		namespace, topic string
		want             string // in the refusal; empty: it is allowed
	}{
		{`{"limits":{"partitions":10},"topology":{"full-mesh":["us","eu"],"rate":"5MB"}}`, "", ""},
		{`{"limits":{"partitions":3},"topology":{"full-mesh":["us","eu","ap"],"rate":"1MB"}}`, "", ""},
		{`{"limits":{"partitions":10},"topology":{"full-mesh":[],"rate":"1MB"}}`, "", ""},
		{`{"limits":{"partitions":10},"topology":{"full-mesh":[],"rate":"10MB"}}`, "", "topology.rate"},
		{`{"limits":{"partitions":10},"topology":{"full-mesh":[]}}`, "", "topology.rate"},
		{`{"limits":{"partitions":10}}`, "", "topology.rate"},
		{`{"limits":{"partitions":11},"topology":{"full-mesh":["us","eu"],"rate":"5MB"}}`, "", "limits.partitions"},
		{`{"topology":{"full-mesh":["us","eu"],"rate":"5MB"}}`, "", "limits.partitions"},
		{`{"limits":{"partitions":10},"topology":{"full-mesh":["us","eu"],"rate":"6MB"}}`, "", "us -> eu go faster than 5000000"},
		{`{"limits":{"partitions":10},"topology":{"full-mesh":["us","eu"]}}`, "", "topology.rate"},
		{`{"limits":{"partitions":10},"topology":{"edges":[{"from":"us","to":"eu","rate":"5MB"},{"from":"us","to":"ap"}]}}`, "", "us -> ap go faster than 9000000"},
		{bounded, `{"topology":{"full-mesh":[]}}`, ""},
		{bounded, `{"topology":{"full-mesh":["us","eu"],"rate":"5MB"}}`, ""},
		{bounded, `{"topology":{"full-mesh":["us","eu"]}}`, "go faster than"},
		{bounded, `{"topology":{"full-mesh":["us","ap"],"rate":"10MB"}}`, "go faster than"},
	} {
		a, ctx := small(t), t.Context()
		put := func(w *configstore.Writer, text string) error {
			return second(w.PutNamespace(ctx, "acme", "n", func(n *configstore.Namespace) error {
				meta := n.Meta
				*n = read(t, text, configstore.ReadInput[configstore.Namespace])
				n.Meta = meta
				return nil
			}))
		}
		a.ok(put(a.Writer, bounded))
		w := a.Within("acme")
		file, change := `{"tenants":{"acme":{"namespaces":{"n":`+c.namespace+`}}}}`, func() error { return put(w, c.namespace) }
		if c.topic != "" {
			file = strings.TrimSuffix(file, "}}}}}") + `,"topics":{"x":` + c.topic + `}}}}}}`
			change = func() error {
				return second(w.PutTopic(ctx, rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"}, func(topic *configstore.Topic) error {
					topic.Topology = read(t, c.topic, configstore.ReadInput[configstore.Topic]).Topology
					return nil
				}))
			}
		}
		_, planned := w.PlanTopology(ctx, read(t, file, configstore.ReadTopologyFile), false)
		for how, err := range map[string]error{"plan": planned, "put": change()} {
			if (err == nil) != (c.want == "") || err != nil && (rhumb.KindOf(err) != rhumb.KindForbidden || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s %s %s: %v, want %q", how, c.namespace, c.topic, err, c.want)
			}
		}
		a.refused(w.DeleteNamespace(ctx, "acme", "n"), rhumb.KindForbidden, "limits or a rate")
	}
}

// TestTopicsOwnRateIsKept: a topic whose own rate an admin has set cannot get rid of
// it, in two steps either.
func TestTopicsOwnRateIsKept(t *testing.T) {
	a, ctx := small(t), t.Context()
	topic := rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"}
	put := func(w *configstore.Writer, text string) error {
		return second(w.PutTopic(ctx, topic, func(stored *configstore.Topic) error {
			stored.Topology = read(t, text, configstore.ReadInput[configstore.Topic]).Topology
			return nil
		}))
	}
	a.ok(put(a.Writer, `{"topology":{"full-mesh":["us","eu"],"rate":"1MB"}}`))
	w := a.Within("acme")
	a.refused(put(w, `{}`), rhumb.KindForbidden, "topology.rate")
	a.refused(put(w, `{"topology":{"full-mesh":[]}}`), rhumb.KindForbidden, "topology.rate")
	a.refused(put(w, `{"topology":{"full-mesh":["us","eu"],"rate":"2MB"}}`), rhumb.KindForbidden, "faster")
	a.ok(put(w, `{"topology":{"full-mesh":["us","ap"],"rate":"1MB"}}`))
}

// TestTenantAdminPlansWithin: a file of a tenant admin names his tenants only, and
// nothing of the tenants themselves; what export gives of them changes nothing.
func TestTenantAdminPlansWithin(t *testing.T) {
	a, ctx := small(t), t.Context()
	_, err := a.PutTenant(ctx, "acme", func(t *configstore.Tenant) error {
		t.AllowedRegions, t.AdminRoles = []rhumb.RegionName{"us", "eu"}, []string{"shop-team"}
		return nil
	})
	a.ok(err)
	a.ok(a.tenant("other"))
	w := a.Within("acme")
	plan := func(text string, prune bool) (*configstore.Plan, error) {
		return w.PlanTopology(ctx, read(t, text, configstore.ReadTopologyFile), prune)
	}
	for text, want := range map[string]string{
		`{"tenants":{"other":{}}}`:                                  "tenants.other: is not yours",
		`{"tenants":{"new":{}}}`:                                    "tenants.new: is not yours",
		`{"tenants":{"acme":{"allowed_regions":["us","eu","ap"]}}}`: "allowed_regions",
		`{"tenants":{"acme":{"admin_roles":["shop-team","me"]}}}`:   "admin_roles",
		`{"tenants":{"acme":{"admin_roles":[]}}}`:                   "admin_roles",
		`{"tenants":{"acme":{"namespaces":{"m":{}}},"other":{}}}`:   "tenants.other",
	} {
		_, err := plan(text, false)
		a.refused(err, rhumb.KindForbidden, want)
		_, err = w.ApplyTopology(ctx, read(t, text, configstore.ReadTopologyFile), false, nil)
		a.refused(err, rhumb.KindForbidden, want)
	}
	_, err = plan(`{"tenants":{"acme":{}}}`, true)
	a.refused(err, rhumb.KindForbidden, "prunes")
	_, err = plan(`{"tenants":{"acme":{"namespaces":{"m":{"topology":{"full-mesh":["us","ap"]}}}}}}`, false)
	a.refused(err, rhumb.KindInvalid, `does not allow region "ap"`)
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	tenants := slices.DeleteFunc(v.Tenants(), func(t configstore.Tenant) bool { return t.Name != "acme" })
	p, err := plan(string(configstore.ExportTopology(tenants, v.Namespaces(), v.TopicDocs())), false)
	a.ok(err)
	if !p.Empty() {
		t.Errorf("what is exported changes %v", stepTexts(p))
	}
	done, err := w.ApplyTopology(ctx, read(t, `{"tenants":{"acme":{"namespaces":{"m":{"topology":{"full-mesh":["us","eu"]}}}}}}`, configstore.ReadTopologyFile), false, nil)
	a.ok(err)
	if !done.Complete || len(done.Steps) != 1 {
		t.Errorf("applied %+v", done)
	}
}

// TestAdminRolesInFiles: they are planned, stored and exported as the rest of a tenant.
func TestAdminRolesInFiles(t *testing.T) {
	a, ctx := small(t), t.Context()
	apply := func(text string, prune bool) *configstore.Applied {
		done, err := a.ApplyTopology(ctx, read(t, text, configstore.ReadTopologyFile), prune, nil)
		a.ok(err)
		if !done.Complete {
			t.Fatalf("%s: %+v", text, done)
		}
		return done
	}
	roles := func() []string {
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		tenant, _ := v.Tenant("acme")
		return tenant.AdminRoles
	}
	apply(`{"tenants":{"acme":{"admin_roles":["one","CN=two,O=Two Ltd"],"allowed_regions":["us","eu"],"namespaces":{"n":{"topology":{"full-mesh":["us","eu"]}}}}}}`, false)
	if got := roles(); !slices.Equal(got, []string{"one", "CN=two,O=Two Ltd"}) {
		t.Errorf("roles %q", got)
	}
	if done := apply(`{"tenants":{"acme":{}}}`, false); len(done.Steps) != 0 || len(roles()) != 2 {
		t.Errorf("a file that says nothing of them changes %+v", done.Steps)
	}
	// Another region and another role at once: the first step has both.
	done := apply(`{"tenants":{"acme":{"admin_roles":["one"],"allowed_regions":["us","ap"],"namespaces":{"n":{"topology":{"full-mesh":["us","ap"]}}}}}}`, false)
	if len(done.Steps) != 3 || !slices.Equal(roles(), []string{"one"}) {
		t.Errorf("steps %+v, roles %q", done.Steps, roles())
	}
	apply(`{"tenants":{"acme":{"namespaces":{"n":{}}}}}`, true)
	if got := roles(); len(got) != 0 {
		t.Errorf("after a prune: %q", got)
	}
	for _, bad := range []string{`["a","a"]`, `[""]`, `[" a"]`, `["a\n"]`, `["` + strings.Repeat("x", 257) + `"]`} {
		_, err := configstore.ReadTopologyFile([]byte(`{"tenants":{"acme":{"admin_roles":` + bad + `}}}`))
		a.refused(err, rhumb.KindInvalid, "tenants.acme.admin_roles")
	}
}
