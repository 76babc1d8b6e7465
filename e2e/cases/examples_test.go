package cases

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// gets says who gets what under an example: topic origin: regions besides the origin.
// An origin that is not there publishes and nobody else gets it.
var gets = map[string][]string{
	"full-mesh.yaml":      {"acme/shop/t us: eu ap", "acme/shop/t eu: us ap", "acme/shop/t ap: us eu"},
	"fan-in.yaml":         {"acme/telemetry/t us: ap", "acme/telemetry/t eu: ap", "acme/telemetry/t ap:"},
	"fan-out.yaml":        {"acme/prices/t us: eu ap", "acme/prices/t eu:", "acme/prices/t ap:"},
	"active-standby.yaml": {"acme/ledger/t us: eu ap"},
	"chain.yaml":          {"acme/pipeline/t us: eu ap", "acme/pipeline/t eu: ap", "acme/pipeline/t ap:"},
	"ring.yaml":           {"acme/loop/t us: eu ap", "acme/loop/t eu: us ap", "acme/loop/t ap: us eu"},
	"hub.yaml":            {"acme/events/t us: hub eu ap", "acme/events/t eu: hub us ap", "acme/events/t ap: hub us eu", "acme/events/t hub: us eu ap"},
	"tenants.yaml": {
		"bank/payments/t us: eu", "bank/payments/t eu: us", "bank/payments/card-numbers us:", "bank/payments/audit us: eu",
		"media/clicks/t eu: us", "media/clicks/t ap: us", "media/clicks/t us:", "media/news/t us: eu ap", "media/news/t eu:",
		"media/news/letters eu: us", "media/news/letters ap: us", "media/news/letters us:", "media/drafts/t us:",
	},
}

// TestExamplesCarryWhatTheySay applies each file of topology-examples to a running
// mesh of four regions, has regions publish, and checks who gets what: all of it, in
// order, and nobody anything else.
func TestExamplesCarryWhatTheySay(t *testing.T) {
	files, err := filepath.Glob("../../topology-examples/*.yaml")
	if err != nil || len(files) != len(gets) {
		t.Fatalf("examples %v, %d are expected: %v", files, len(gets), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			if testing.Short() && name != "chain.yaml" && name != "tenants.yaml" {
				t.Skip("chain and tenants have every kind of edge; the others run without -short")
			}
			t.Parallel()
			run(t, []rhumb.RegionName{"us", "eu", "ap", "hub"}, func(ms *mesh, _ []*node) {
				done, err := ms.writer.ApplyTopology(ms.ctx, readExample(t, file), false, nil)
				ms.must(err)
				if !done.Complete {
					t.Fatalf("%+v", done)
				}
				ms.carries(gets[name])
			})
		})
	}
}

func readExample(t *testing.T, file string) *configstore.TopologyFile {
	text, err := os.ReadFile(file)
	var fields map[string]any
	if err == nil {
		err = yaml.Unmarshal(text, &fields)
	}
	if err == nil {
		text, err = json.Marshal(fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := configstore.ReadTopologyFile(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// carries has regions publish and checks that everybody gets what the lines say.
func (ms *mesh) carries(lines []string) {
	ms.Helper()
	topics := map[string]rhumb.Topic{}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		part := strings.Split(name, "/")
		topics[name] = rhumb.Topic{Tenant: rhumb.Tenant(part[0]), Namespace: rhumb.Namespace(part[1]), Name: rhumb.TopicName(part[2])}
	}
	for _, t := range topics {
		for _, n := range ms.nodes {
			ms.pass(time.Second)
			if !n.has(t, 1) {
				n.create(t, 1, nil)
			}
		}
	}
	ms.pass(30 * time.Second) // edges that start latest have their start
	want := map[string][]string{}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		origin, dests, _ := strings.Cut(rest, ":")
		values := numbered(origin+"-", 5)
		ms.node(origin).produce(topics[name], 0, values[:2]...)
		ms.node(origin).produce(topics[name], 0, values[2:]...)
		for _, dest := range append(strings.Fields(dests), origin) {
			want[name+" "+origin+" "+dest] = values
		}
	}
	for key, values := range want {
		part := strings.Fields(key)
		ms.until(key+" is there", func() bool {
			return len(ms.node(part[2]).from(ms.node(part[1]), topics[part[0]], 0)) >= len(values)
		})
	}
	ms.pass(20 * time.Second) // for what should not come
	for name, t := range topics {
		for _, origin := range ms.nodes {
			for _, dest := range ms.nodes {
				key := name + " " + string(origin.name) + " " + string(dest.name)
				if got := dest.from(origin, t, 0); !slices.Equal(got, want[key]) {
					ms.Errorf("%s: %q, want %q", key, got, want[key])
				}
			}
		}
	}
}

func (ms *mesh) node(name string) *node {
	ms.Helper()
	i := slices.IndexFunc(ms.nodes, func(n *node) bool { return string(n.name) == name })
	if i < 0 {
		ms.Fatalf("no region %s", name)
	}
	return ms.nodes[i]
}
