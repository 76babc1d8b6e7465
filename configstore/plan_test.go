package configstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

func (a admin) file(text string) *configstore.TopologyFile {
	a.t.Helper()
	f, err := configstore.ReadTopologyFile([]byte(text))
	a.ok(err)
	return f
}

func (a admin) plan(text string, prune bool) *configstore.Plan {
	a.t.Helper()
	p, err := a.PlanTopology(a.t.Context(), a.file(text), prune)
	a.ok(err)
	return p
}

// applied applies a file that must be applied whole.
func (a admin) applied(text string, prune bool) *configstore.Applied {
	a.t.Helper()
	out, err := a.ApplyTopology(a.t.Context(), a.file(text), prune, nil)
	a.ok(err)
	if !out.Complete {
		a.t.Fatalf("%+v", out)
	}
	return out
}

func stepTexts(p *configstore.Plan) (out []string) {
	for _, s := range p.Steps {
		out = append(out, fmt.Sprint(s.Action, " ", s.Kind, " ", s.Name))
	}
	return out
}

func edgeTexts(changes []configstore.EdgeChange) (out []string) {
	for _, c := range changes {
		e := c.Edge()
		out = append(out, fmt.Sprintf("%s %s/%s %s>%s", c.Action, e.Namespace, e.Topic, e.From, e.To))
	}
	return out
}

const fanIn = `{"tenants":{"acme":{"allowed_regions":["us","eu","ap"],"namespaces":{"logs":{
	"topology":{"fan-in":{"from":["us","eu"],"to":"ap"}},"regions":{"ap":{"retention":"30d"}},
	"topics":{"audit":{"topology":{"full-mesh":[]}}}}}}}}`

// TestPlanSaysWhatApplyDoes: what the file names is stored, what it does not name
// stays, and a second apply does nothing.
func TestPlanSaysWhatApplyDoes(t *testing.T) {
	a := small(t) // acme/n flows between us and eu; acme allows all
	p := a.plan(fanIn, false)
	if got, want := stepTexts(p), []string{"add namespace acme/logs", "add topic acme/logs/audit", "change tenant acme"}; !slices.Equal(got, want) {
		t.Fatalf("steps %q, want %q", got, want)
	}
	if got, want := edgeTexts(p.Edges), []string{"add logs/ eu>ap", "add logs/ us>ap"}; !slices.Equal(got, want) {
		t.Fatalf("edges %q, want %q", got, want)
	}
	if f := p.Steps[0].Changes; len(f) != 3 || f[0].Field != "regions.ap.retention.ms" || string(f[0].After) != "2592000000" || f[0].Before != nil || f[1].Field != "topology.fan-in.from" {
		t.Errorf("%+v", f)
	}
	a.applied(fanIn, false)
	if p := a.plan(fanIn, false); !p.Empty() || len(p.Edges) != 0 || len(p.Warnings) != 0 {
		t.Errorf("after it was applied: %+v", p)
	}
	before := a.store.Snapshot()
	a.applied(fanIn, false)
	for key, d := range a.store.Snapshot() {
		if d.Version != before[key].Version {
			t.Errorf("applied again, %s has version %d", key, d.Version)
		}
	}
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	if len(v.Edges()) != 4 {
		t.Errorf("edges %v", v.Edges())
	}
	if p := a.plan(`{"tenants":{"acme":{"namespaces":{"more":{}}}}}`, false); len(p.Steps) != 1 {
		t.Errorf("a file that does not say which regions the tenant may use changes them: %v", stepTexts(p))
	}
	p = a.plan(fanIn, true)
	if got, want := stepTexts(p), []string{"remove namespace acme/n"}; !slices.Equal(got, want) {
		t.Fatalf("with pruning: %q, want %q", got, want)
	}
	a.applied(`{"tenants":{"acme":{"namespaces":{"logs":{}}}}}`, true)
	p = a.plan(`{}`, true)
	if got, want := stepTexts(p), []string{"remove namespace acme/logs", "remove tenant acme"}; !slices.Equal(got, want) {
		t.Fatalf("everything: %q, want %q", got, want)
	}
	a.applied(`{}`, true)
	a.applied(fanIn, false) // over tombstones
}

// TestG86WhatAFileDoesNotNameStays: namespaces, topics and tenants that somebody made
// by another way are not taken away by a file that knows nothing of them. Only
// pruning does, and the plan says so first; no record is deleted by it, and topics'
// counts and partitions are left alone.
func TestG86WhatAFileDoesNotNameStays(t *testing.T) {
	a := small(t)
	a.ok(a.tenant("other", "us"))
	topic := rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"}
	_, err := a.PutTopic(t.Context(), topic, func(tp *configstore.Topic) error {
		tp.Partitions, tp.Topology = 4, &configstore.Topology{FullMesh: []rhumb.RegionName{}}
		return nil
	})
	a.ok(err)
	const file = `{"tenants":{"acme":{"namespaces":{"mine":{"topology":{"ring":["us","eu"]}}}}}}`
	a.applied(file, false)
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	if doc, _ := v.TopicDoc(topic); len(v.Namespaces()) != 2 || len(v.Tenants()) != 2 || doc.Topology == nil {
		t.Fatalf("namespaces %v, tenants %v, topic %+v", v.Namespaces(), v.Tenants(), doc)
	}
	if got, want := stepTexts(a.plan(file, true)), []string{"remove topic acme/n/x", "remove namespace acme/n", "remove tenant other"}; !slices.Equal(got, want) {
		t.Fatalf("pruning would %q, want %q", got, want)
	}
	a.applied(file, true)
	a.ok(v.Refresh(t.Context()))
	if doc, _ := v.TopicDoc(topic); doc.Topology != nil || doc.Partitions != 4 || doc.Deletions != 0 {
		t.Errorf("pruned, the topic is %+v", doc)
	}
}

// TestG83ChangedSinceThePlanIsRefused: a plan that is no longer true is not applied,
// nothing of it, and the refusal names what changed and who did it.
func TestG83ChangedSinceThePlanIsRefused(t *testing.T) {
	a := small(t)
	p := a.plan(fanIn, false)
	_, err := configstore.NewWriter(a.store, "somebody").PutTenant(t.Context(), "acme", func(tn *configstore.Tenant) error {
		tn.AllowedRegions = []rhumb.RegionName{"us", "eu"}
		return nil
	})
	a.ok(err)
	before := a.store.Snapshot()
	_, err = a.ApplyTopology(t.Context(), a.file(fanIn), false, p.Base)
	a.refused(err, rhumb.KindFenced, "no longer true", "nothing was changed", "tenants/acme was at version", "by somebody", "make a new plan")
	if !errors.Is(err, configstore.ErrPlanChanged) || len(a.store.Snapshot()) != len(before) {
		t.Fatal(err)
	}
	p = a.plan(fanIn, false)
	_, err = a.ApplyTopology(t.Context(), a.file(fanIn), false, p.Base)
	a.ok(err)
	_, err = a.ApplyTopology(t.Context(), a.file(fanIn), false, p.Base) // what was not there is there now
	a.refused(err, rhumb.KindFenced, "namespaces/acme/logs was not there and is at version 1 now, by test")
}

// TestPlanOfARegionThatDrainsSinceIsRefused: a new plan would warn of it, so the one that
// does not is no longer true.
func TestPlanOfARegionThatDrainsSinceIsRefused(t *testing.T) {
	for name, file := range map[string]string{"namespace": fanIn,
		"topic": `{"tenants":{"acme":{"namespaces":{"n":{"topics":{"x":{"topology":{"chain":["us","ap"]}}}}}}}}`} {
		a := small(t)
		p := a.plan(file, false)
		_, err := configstore.NewWriter(a.store, "somebody").DrainRegion(t.Context(), "ap", false)
		a.ok(err)
		_, err = a.ApplyTopology(t.Context(), a.file(file), false, p.Base)
		a.refused(err, rhumb.KindFenced, "no longer true", "nothing was changed", "regions/ap was at version", "by somebody", "make a new plan")
		p = a.plan(file, false)
		_, err = a.ApplyTopology(t.Context(), a.file(file), false, p.Base)
		if a.ok(err); name == "namespace" && len(p.Warnings) == 0 {
			t.Error("the new plan warns of nothing")
		}
	}
}

// failing is a store whose puts fail from the n-th on.
type failing struct {
	*embedded.Memory
	left *int
}

func (f failing) Put(ctx context.Context, d configstore.Document) error {
	if *f.left--; *f.left < 0 {
		return rhumb.Errorf(rhumb.KindUnavailable, "the store is down")
	}
	return f.Memory.Put(ctx, d)
}

// TestApplyThatFailsInTheMiddleSaysHowFarItCame: at each place, and applying again
// does the rest.
func TestApplyThatFailsInTheMiddleSaysHowFarItCame(t *testing.T) {
	for n := range 3 {
		a, left := small(t), n
		w := configstore.NewWriter(failing{a.store, &left}, "test")
		out, err := w.ApplyTopology(t.Context(), a.file(fanIn), false, nil)
		a.ok(err)
		var states []configstore.StepState
		for _, s := range out.Steps {
			states = append(states, s.State)
		}
		want := []configstore.StepState{configstore.StepNotTried, configstore.StepNotTried, configstore.StepNotTried}
		for i := range n {
			want[i] = configstore.StepDone
		}
		want[n] = configstore.StepUnknown
		if out.Complete || out.Error == "" || !slices.Equal(states, want) {
			t.Errorf("the put %d fails: %v %q", n, states, out.Error)
		}
		a.applied(fanIn, false)
		if p := a.plan(fanIn, false); !p.Empty() {
			t.Errorf("after the rest: %v", stepTexts(p))
		}
	}
}

func TestTopologyFileIsRefusedByField(t *testing.T) {
	a := small(t)
	_, err := a.DrainRegion(t.Context(), "ap", false)
	a.ok(err)
	space := func(text string) string { return `{"tenants":{"acme":{"namespaces":{"n":` + text + `}}}}` }
	for text, want := range map[string]string{
		`[]`:                      "not one JSON object",
		`{"tenant":{}}`:           "field tenant: no such field",
		`{"tenants":[]}`:          "field tenants: must have names",
		`{"tenants":{"acme":[]}}`: "field tenants.acme: must have fields",
		space(`{"topology":{"edges":["us->eu"]}}`):                 "field tenants.acme.namespaces.n.topology.edges[0]: must have fields, of forward, from, rate, start, to",
		space(`{"topology":{"chain":"us"}}`):                       "field tenants.acme.namespaces.n.topology.chain: must be a list, not string",
		space(`{"topology":"us"}`):                                 "field tenants.acme.namespaces.n.topology: must have fields, of active-standby",
		`{"tenants":{"a/b":{}}}`:                                   "field tenants.a/b: ",
		`{"tenants":{"acme":{"allowed_regions":["moon"]}}}`:        `field tenants.acme.allowed_regions[0]: region "moon" is not registered`,
		`{"tenants":{"acme":{"allowed_regions":["us"]}}}`:          `field tenants.acme.allowed_regions: namespace acme/n names region "eu", and the file does not change that`,
		`{"tenants":{"acme":{"version":3}}}`:                       "field tenants.acme.version: is the store's",
		space(`{"retention":7}`):                                   "field tenants.acme.namespaces.n.retention: must be a length of time such as 7d",
		space(`{"backlog":{"hold":3}}`):                            "field tenants.acme.namespaces.n.backlog.hold: must be a length of time such as 7d, 36h or 90m, not 3",
		space(`{"backlog":{"hold":"-3d"}}`):                        "field tenants.acme.namespaces.n.backlog.hold: must be a length of time",
		space(`{"topologie":{}}`):                                  "field tenants.acme.namespaces.n.topologie: no such field",
		space(`{"generation":1}`):                                  "field tenants.acme.namespaces.n.generation: is the store's",
		space(`{"topology":{"chain":["us","moon"]}}`):              `field tenants.acme.namespaces.n.topology.chain[1]: region "moon" is not registered`,
		space(`{"topology":{"chain":["us"]}}`):                     "field tenants.acme.namespaces.n.topology.chain: has 1 regions",
		space(`{"confirm":{}}`):                                    "field tenants.acme.namespaces.n.confirm: ",
		space(`{"topics":{"x.y":{}}}`):                             "field tenants.acme.namespaces.n.topics.x.y: says nothing",
		space(`{"topics":{"x":{"partitions":3}}}`):                 "field tenants.acme.namespaces.n.topics.x.partitions: is not policy",
		space(`{"topics":{"x":{"topology":{"ring":["us","x"]}}}}`): `field tenants.acme.namespaces.n.topics.x.topology.ring[1]: region "x" is not registered`,
		space(`{"topics":{"x-partition-1":{"retention":"1d"}}}`):   "field tenants.acme.namespaces.n.topics.x-partition-1: ",
	} {
		f, err := configstore.ReadTopologyFile([]byte(text))
		if err == nil {
			_, err = a.PlanTopology(t.Context(), f, false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestPlanWarns(t *testing.T) {
	a := small(t)
	_, err := a.DrainRegion(t.Context(), "ap", false)
	a.ok(err)
	warns := func(topology string, want ...string) {
		t.Helper()
		p := a.plan(`{"tenants":{"acme":{"namespaces":{"n":`+topology+`}}}}`, false)
		if len(p.Warnings) != len(want) {
			t.Fatalf("%s: %d warnings %q, want %q", topology, len(p.Warnings), p.Warnings, want)
		}
		for i, w := range want {
			if !strings.Contains(p.Warnings[i], w) {
				t.Errorf("%s: %q, want %q", topology, p.Warnings[i], w)
			}
		}
	}
	warns(`{"topology":{"full-mesh":["us","eu"]}}`)
	warns(`{"topology":{"full-mesh":["us","eu","ap"]}}`, "namespace acme/n names region ap, which is draining")
	warns(`{"topology":{"fan-in":{"from":["us"],"to":"eu"}}}`, "records of eu no longer reach us in namespace acme/n: no path is left")
	warns(`{"topology":{"full-mesh":["us","eu"],"start":"latest"}}`,
		"of namespace acme/n start latest: eu -> us, us -> eu: that holds for partitions that an edge has not carried yet")
	warns(`{"topology":{"edges":[{"from":"us","to":"eu","forward":true},{"from":"eu","to":"us"}]}}`)
	warns(`{"topology":{"full-mesh":["us","eu"]},"regions":{"ap":{"retention":"1d"}}}`, "settings for region ap, to which it does not flow")
	warns(`{"topology":{"edges":[{"from":"us","to":"ap"},{"from":"ap","to":"eu"},{"from":"eu","to":"us"}]}}`, "ap, which is draining",
		"records of us end before eu", "records of ap end before us", "records of eu end before ap", "records of us no longer reach eu")
	warns(`{"topology":{"active-standby":{"active":"us","standby":["eu"]}}}`, "only region us takes producers in namespace acme/n")
	a.applied(`{"tenants":{"acme":{"namespaces":{"n":{"topology":{"active-standby":{"active":"us","standby":["eu"]}}}}}}}`, false)
	warns(`{"topology":{"active-standby":{"active":"eu","standby":["us"]}}}`, "changes from us to eu, generation 2: nothing is fenced or drained first")
	warns(`{"topology":{"full-mesh":["us","eu"]}}`, "has no roles any more")
	if p := a.plan(`{}`, true); len(p.Warnings) != 3 || !strings.Contains(p.Warnings[2], "its topics and records stay") {
		t.Errorf("%q", p.Warnings)
	}
}

// TestPlanTellsWhatATopicsOwnTopologyTakesAway: a topology of a topic's own replaces its
// namespace's edges, so a plan tells of those that go and come with it.
func TestPlanTellsWhatATopicsOwnTopologyTakesAway(t *testing.T) {
	a := small(t) // acme/n flows between us and eu
	with := func(topic string) *configstore.Plan {
		return a.plan(`{"tenants":{"acme":{"namespaces":{"n":{"topology":{"full-mesh":["us","eu"]}`+topic+`}}}}}`, false)
	}
	p := with(`,"topics":{"audit":{"topology":{"full-mesh":[]}}}`)
	if got, want := edgeTexts(p.Edges), []string{"remove n/audit eu>us", "remove n/audit us>eu"}; !slices.Equal(got, want) {
		t.Errorf("kept local: edges %q, want %q", got, want)
	}
	if len(p.Warnings) != 2 || !strings.Contains(p.Warnings[0], "records of eu no longer reach us in topic acme/n/audit") {
		t.Errorf("kept local: %q", p.Warnings)
	}
	p = with(`,"topics":{"audit":{"topology":{"fan-out":{"from":"us","to":["eu","ap"]}}}}`)
	if got, want := edgeTexts(p.Edges), []string{"remove n/audit eu>us", "add n/audit us>ap", "change n/audit us>eu"}; !slices.Equal(got, want) {
		t.Errorf("an edge that stays is no new one: edges %q, want %q", got, want)
	}
	a.applied(`{"tenants":{"acme":{"namespaces":{"n":{"topology":{"full-mesh":["us","eu"]},"topics":{"audit":{"topology":{"full-mesh":[]}}}}}}}}`, false)
	p = a.plan(`{"tenants":{"acme":{"namespaces":{"n":{"topology":{"full-mesh":["us","eu"]}}}}}}`, true)
	if got, want := edgeTexts(p.Edges), []string{"add n/audit eu>us", "add n/audit us>eu"}; !slices.Equal(got, want) || len(p.Warnings) > 0 {
		t.Errorf("as its namespace again: steps %q, edges %q, want %q; warnings %q", stepTexts(p), got, want, p.Warnings)
	}
}

// TestAppliedFilesAreTheirEdges: any sequence of random files, applied over each
// other, ends in what the last one says of what it names; what is exported of it,
// applied, changes nothing; and whatever fails in the middle, the next apply mends.
func TestAppliedFilesAreTheirEdges(t *testing.T) {
	regions := []string{"us", "eu", "ap"}
	rapid.Check(t, func(rt *rapid.T) {
		a := admin{configstore.NewWriter(embedded.NewMemory(), "test"), t, nil}
		a.store = embedded.NewMemory()
		a.Writer = configstore.NewWriter(a.store, "test")
		_, err := a.EnsureMesh(t.Context())
		a.ok(err)
		a.register("us", "eu", "ap")
		for range rapid.IntRange(1, 4).Draw(rt, "files") {
			text, prune := randomFile(rt, regions), rapid.Bool().Draw(rt, "prune")
			f, err := configstore.ReadTopologyFile([]byte(text))
			if err != nil {
				rt.Fatal(err)
			}
			left := rapid.IntRange(0, 12).Draw(rt, "puts before the store fails")
			if p, err := a.PlanTopology(t.Context(), f, prune); err != nil {
				rt.Logf("%s: %v", text, err) // what the file does not name needs a region
				continue
			} else if !p.Empty() {
				w := configstore.NewWriter(failing{a.store, &left}, "test")
				if _, err := w.ApplyTopology(t.Context(), f, prune, p.Base); err != nil {
					rt.Fatal(err)
				}
			}
			out, err := a.ApplyTopology(t.Context(), f, prune, nil)
			if err != nil || !out.Complete {
				rt.Fatalf("%s: %+v, %v", text, out, err)
			}
			if p, err := a.PlanTopology(t.Context(), f, prune); err != nil || !p.Empty() || len(p.Edges) > 0 {
				rt.Fatalf("%s: still to do: %v, %v", text, stepTexts(p), err)
			}
			v := openView(t, a.store, &configstore.MemoryKeeper{})
			wantEdges(rt, v, f)
			export := configstore.ExportTopology(v.Tenants(), v.Namespaces(), v.TopicDocs())
			back, err := configstore.ReadTopologyFile(export)
			if err != nil {
				rt.Fatalf("%s: %v", export, err)
			}
			if p, err := a.PlanTopology(t.Context(), back, true); err != nil || !p.Empty() {
				rt.Fatalf("exported %s: %v, %v", export, stepTexts(p), err)
			}
		}
	})
}

// wantEdges compares a view's edges with what the file compiles to, for what the
// file names.
func wantEdges(rt *rapid.T, v *configstore.View, f *configstore.TopologyFile) {
	for _, tenant := range f.Tenants {
		for _, n := range tenant.Namespaces {
			want, _ := configstore.Compile(&n.Namespace)
			for _, topic := range n.Topics {
				own, _ := configstore.CompileTopic(&topic)
				if got := v.EdgesOf(topic.Topic); topic.Topology != nil && !slices.Equal(got, own) {
					rt.Fatalf("topic %s has edges %v, want %v", topic.Topic, got, own)
				}
			}
			if got := v.EdgesOf(rhumb.Topic{Tenant: n.Tenant, Namespace: n.Name, Name: "none"}); !slices.Equal(got, want) {
				rt.Fatalf("namespace %s has edges %v, want %v", n.Name, got, want)
			}
		}
	}
}

// randomFile draws a file of two tenants at most, whose namespaces name only
// regions that the tenant allows.
func randomFile(rt *rapid.T, regions []string) string {
	tenants := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 0, 2, rapid.ID[string]).Draw(rt, "tenants") {
		tenant, may := map[string]any{}, regions
		if rapid.Bool().Draw(rt, "limited") {
			may = rapid.Permutation(regions).Draw(rt, "order")[:rapid.IntRange(2, 3).Draw(rt, "allowed")]
			tenant["allowed_regions"] = may
		}
		spaces := map[string]any{}
		for _, ns := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID[string]).Draw(rt, "namespaces") {
			space := map[string]any{}
			if topology := randomTopology(rt, may, true); topology != nil {
				space["topology"] = topology
			}
			if rapid.Bool().Draw(rt, "retention") {
				space["regions"] = map[string]any{may[0]: map[string]any{"retention": "3d"}}
			}
			topics := map[string]any{}
			for _, topic := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"t", "u.v"}), 0, 2, rapid.ID[string]).Draw(rt, "topics") {
				one := map[string]any{"retention": map[string]any{"bytes": "1GB"}}
				if topology := randomTopology(rt, may, false); topology != nil {
					one["topology"] = topology
				}
				topics[topic] = one
			}
			space["topics"] = topics
			spaces[ns] = space
		}
		tenant["namespaces"] = spaces
		tenants[name] = tenant
	}
	text, err := json.Marshal(map[string]any{"tenants": tenants})
	if err != nil {
		rt.Fatal(err)
	}
	return string(text)
}

func randomTopology(rt *rapid.T, regions []string, roles bool) map[string]any {
	list := rapid.Permutation(regions).Draw(rt, "regions")
	shapes := []string{"none", "full-mesh", "fan-in", "fan-out", "chain", "ring", "edges", "local"}
	if roles {
		shapes = append(shapes, "active-standby")
	}
	var topology map[string]any
	switch shape := rapid.SampledFrom(shapes).Draw(rt, "shape"); shape {
	case "none":
		return nil
	case "local":
		return map[string]any{"full-mesh": []string{}}
	case "fan-in":
		topology = map[string]any{"fan-in": map[string]any{"from": list[1:], "to": list[0]}}
	case "fan-out":
		topology = map[string]any{"fan-out": map[string]any{"from": list[0], "to": list[1:]}}
	case "active-standby":
		topology = map[string]any{"active-standby": map[string]any{"active": list[0], "standby": list[1:]}}
	case "edges":
		topology = map[string]any{"edges": []any{map[string]any{"from": list[0], "to": list[1], "forward": true, "rate": "5MB"}}}
	default:
		topology = map[string]any{shape: list}
	}
	if rapid.Bool().Draw(rt, "latest") {
		topology["start"] = "latest"
	}
	return topology
}
