// Package examples_test applies every example to a configuration store and looks at
// the edges that regions then see. What flows over them is tried in e2e/cases.
package examples_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// edges that each example must give: namespace[/topic] from>to, with + if it
// forwards, L if it starts latest and its rate.
var edges = map[string]string{
	"full-mesh.yaml":      "shop ap>eu, shop ap>us, shop eu>ap, shop eu>us, shop us>ap, shop us>eu",
	"fan-in.yaml":         "telemetry eu>ap 20000000, telemetry us>ap 20000000",
	"fan-out.yaml":        "prices us>ap L, prices us>eu L",
	"active-standby.yaml": "ledger ap>eu, ledger ap>us, ledger eu>ap, ledger eu>us, ledger us>ap, ledger us>eu",
	"chain.yaml":          "pipeline eu>ap+, pipeline us>eu+",
	"ring.yaml":           "loop ap>us+, loop eu>ap+, loop us>eu+",
	"hub.yaml": "events ap>hub 5000000, events eu>hub, events hub>ap+ 5000000, events hub>eu+, events hub>us+, " +
		"events us>hub",
	"tenants.yaml": "payments eu>us, payments us>eu, clicks ap>us L, clicks eu>us L, news us>ap, news us>eu, news/letters ap>us, " +
		"news/letters eu>us",
}

func TestExamplesGiveTheirEdges(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != len(edges) {
		t.Fatalf("examples %v, expected edges of %d: %v", files, len(edges), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			if got := strings.Join(apply(t, read(t, file)), ", "); got != edges[file] {
				t.Errorf("edges\n%s\nwant\n%s", got, edges[file])
			}
		})
	}
}

// read reads an example as a person's input: a field that is not known is refused.
func read(t *testing.T, file string) *configstore.TopologyFile {
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
	f, err := configstore.ReadTopologyFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// apply applies the file in a mesh of four regions, on disk, and gives the edges that
// a region sees. Applied again it changes nothing.
func apply(t *testing.T, f *configstore.TopologyFile) (out []string) {
	ctx := t.Context()
	store, err := embedded.Open(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := configstore.NewWriter(store, "test")
	_, err = w.EnsureMesh(ctx)
	for _, name := range []rhumb.RegionName{"us", "eu", "ap", "hub"} {
		if err == nil {
			_, err = w.RegisterRegion(ctx, configstore.Region{Name: name, State: configstore.RegionActive}, 0)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if done, err := w.ApplyTopology(ctx, f, false, nil); err != nil || !done.Complete {
		t.Fatalf("%+v, %v", done, err)
	}
	if p, err := w.PlanTopology(ctx, f, true); err != nil || !p.Empty() {
		t.Errorf("applied, there is still to do: %+v, %v", p, err)
	}
	view, err := configstore.OpenView(ctx, configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range view.Edges() {
		text := strings.TrimSuffix(fmt.Sprintf("%s/%s", e.Namespace, e.Topic), "/") + fmt.Sprintf(" %s>%s", e.From, e.To)
		if e.Forward {
			text += "+"
		}
		if e.Start == configstore.StartLatest {
			text += " L"
		}
		if e.Rate > 0 {
			text += fmt.Sprint(" ", e.Rate)
		}
		out = append(out, text)
	}
	return out
}

// TestExamplesAreExplained: each begins with a comment that says what it is, and how
// to apply it.
func TestExamplesAreExplained(t *testing.T) {
	for file := range edges {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(raw), "\n")
		if !strings.HasPrefix(lines[0], "# ") || !slices.Contains(lines, "#   rhumb topology apply -f "+file) && !strings.Contains(string(raw), "apply -f "+file) {
			t.Errorf("%s does not say what it is and how to apply it", file)
		}
	}
}
