package configstore_test

import (
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestGenerationGrowsWithEachChangeOfTheActive: and only then; nobody else counts
// it, and neither another shape nor a deletion makes it smaller.
func TestGenerationGrowsWithEachChangeOfTheActive(t *testing.T) {
	a := newAdmin(t)
	a.register("us", "eu", "ap")
	a.ok(a.tenant("acme"))
	put := func(edit func(*configstore.Namespace)) (configstore.Namespace, error) {
		return a.PutNamespace(t.Context(), "acme", "n", func(n *configstore.Namespace) error { edit(n); return nil })
	}
	roles := func(active rhumb.RegionName, standby ...rhumb.RegionName) func(*configstore.Namespace) {
		return func(n *configstore.Namespace) {
			n.Topology = &configstore.Topology{ActiveStandby: &configstore.ActiveStandby{Active: active, Standby: standby}}
		}
	}
	whole := func(n *configstore.Namespace) {
		n.Topology = &configstore.Topology{FullMesh: []rhumb.RegionName{"us", "eu"}}
	}
	step := func(want uint64, edit func(*configstore.Namespace)) {
		t.Helper()
		if n, err := put(edit); err != nil || n.Generation != want {
			t.Fatalf("generation %d, %v, want %d", n.Generation, err, want)
		}
	}
	step(0, whole)
	step(1, roles("us", "eu"))
	step(1, roles("us", "eu", "ap"))                             // another standby is no other active
	step(1, func(n *configstore.Namespace) { n.Generation = 0 }) // a document that leaves it out
	step(2, roles("eu", "us", "ap"))
	_, err := put(func(n *configstore.Namespace) { n.Generation = 9 })
	a.refused(err, rhumb.KindInvalid, "namespaces/acme/n", "field generation", "it is 2, not 9")
	step(3, whole) // every region takes producers again
	step(4, roles("eu", "us"))
	a.ok(a.DeleteNamespace(t.Context(), "acme", "n"))
	step(5, roles("eu", "us"))
	n, err := put(func(n *configstore.Namespace) {})
	if err != nil || n.Active() != "eu" {
		t.Fatalf("%+v, %v", n, err)
	}
}

// TestNamedRegionsAreChecked: whatever shape names a region, and wherever, it must
// be registered and allowed, and it cannot go before the name goes.
func TestNamedRegionsAreChecked(t *testing.T) {
	a := newAdmin(t)
	a.register("us", "eu", "ap")
	a.ok(a.tenant("acme", "us", "eu"))
	put := func(text string) error {
		doc, err := configstore.ReadInput[configstore.Namespace]([]byte(text))
		if err != nil {
			return err
		}
		_, err = a.PutNamespace(t.Context(), "acme", "n", func(n *configstore.Namespace) error {
			doc.Meta, doc.Tenant, doc.Name = n.Meta, n.Tenant, n.Name
			*n = doc
			return nil
		})
		return err
	}
	const moon = `region "moon" is not registered`
	for text, field := range map[string]string{
		`{"topology":{"fan-in":{"from":["us","moon"],"to":"eu"}}}`:                   "topology.fan-in.from[1]",
		`{"topology":{"fan-out":{"from":"moon","to":["eu"]}}}`:                       "topology.fan-out.from",
		`{"topology":{"active-standby":{"active":"us","standby":["moon"]}}}`:         "topology.active-standby.standby[0]",
		`{"topology":{"chain":["moon","us"]}}`:                                       "topology.chain[0]",
		`{"topology":{"ring":["us","eu","moon"]}}`:                                   "topology.ring[2]",
		`{"topology":{"edges":[{"from":"us","to":"eu"},{"from":"eu","to":"moon"}]}}`: "topology.edges[1].to",
		`{"regions":{"moon":{"retention":"30d"}}}`:                                   "regions.moon",
	} {
		a.refused(put(text), rhumb.KindInvalid, "field "+field+": ", moon)
		a.refused(put(strings.ReplaceAll(text, "moon", "ap")), rhumb.KindInvalid, "field "+strings.ReplaceAll(field, "moon", "ap")+": ", `does not allow region "ap"`)
		a.ok(a.tenant("acme"))
		a.ok(put(strings.ReplaceAll(text, "moon", "ap")))
		a.refused(a.tenant("acme", "us", "eu"), rhumb.KindInvalid, `names region "ap"`)
		a.refused(a.DeleteRegion(t.Context(), "ap"), rhumb.KindInvalid, "namespace acme/n")
		a.ok(put(`{}`))
		a.ok(a.tenant("acme", "us", "eu"))
	}
}
