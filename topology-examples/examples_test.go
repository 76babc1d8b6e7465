// Package examples_test applies every example to a configuration store and looks
// at the edges that regions then see.
package examples_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// edges that each example must give, as from>to.
var edges = map[string][]string{
	"full-mesh.yaml": {"ap>eu", "ap>us", "eu>ap", "eu>us", "us>ap", "us>eu"},
}

func TestExamplesGiveTheirEdges(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != len(edges) {
		t.Fatalf("examples %v, expected edges of %d: %v", files, len(edges), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			if got := apply(t, read(t, file)); !slices.Equal(got, edges[file]) {
				t.Errorf("edges %v, want %v", got, edges[file])
			}
		})
	}
}

// read reads an example as a person's input: a field that is not known is
// refused.
func read(t *testing.T, file string) configstore.Namespace {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	ns, err := configstore.ReadInput[configstore.Namespace](raw)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// apply stores the namespace in a mesh of three regions, on disk, and gives the
// edges that a region sees.
func apply(t *testing.T, ns configstore.Namespace) []string {
	ctx := context.Background()
	store, err := embedded.Open(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := configstore.NewWriter(store, "test")
	_, err = w.EnsureMesh(ctx)
	for _, name := range []rhumb.RegionName{"us", "eu", "ap"} {
		if err == nil {
			_, err = w.RegisterRegion(ctx, configstore.Region{Name: name, State: configstore.RegionActive}, 0)
		}
	}
	if err == nil {
		_, err = w.PutTenant(ctx, "acme", func(*configstore.Tenant) error { return nil })
	}
	if err == nil {
		_, err = w.PutNamespace(ctx, "acme", "shop", func(stored *configstore.Namespace) error {
			ns.Meta, ns.Tenant, ns.Name = stored.Meta, stored.Tenant, stored.Name
			*stored = ns
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	view, err := configstore.OpenView(ctx, configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range view.Edges() {
		if e.Tenant != "acme" || e.Namespace != "shop" || e.Forward || e.Start != configstore.StartEarliest {
			t.Errorf("edge %+v", e)
		}
		out = append(out, string(e.From)+">"+string(e.To))
	}
	return out
}
