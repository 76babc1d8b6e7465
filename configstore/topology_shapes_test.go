package configstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// modelEdge is an edge as the model sees it.
type modelEdge struct {
	from, to rhumb.RegionName
	forward  bool
}

// model says, the slow and obvious way, which edges a shape over the regions has:
// it looks at each pair and asks whether the shape's words hold of it. regions[0]
// is the one of fan-in, fan-out and active-standby.
func model(shape string, regions []rhumb.RegionName) map[modelEdge]bool {
	out := map[modelEdge]bool{}
	for i, a := range regions {
		for k, b := range regions {
			var has, forward bool
			switch shape {
			case "full-mesh", "active-standby":
				has = i != k
			case "fan-in":
				has = k == 0 && i > 0
			case "fan-out":
				has = i == 0 && k > 0
			case "chain":
				has, forward = k == i+1, true
			case "ring":
				has, forward = k == (i+1)%len(regions), true
			}
			if has {
				out[modelEdge{a, b, forward}] = true
			}
		}
	}
	return out
}

// shaped gives the topology that model describes.
func shaped(shape string, regions []rhumb.RegionName) *Topology {
	one, many := regions[0], regions[1:]
	switch shape {
	case "full-mesh":
		return &Topology{FullMesh: regions}
	case "fan-in":
		return &Topology{FanIn: &FanIn{From: many, To: one}}
	case "fan-out":
		return &Topology{FanOut: &FanOut{From: one, To: many}}
	case "active-standby":
		return &Topology{ActiveStandby: &ActiveStandby{Active: one, Standby: many}}
	case "chain":
		return &Topology{Chain: regions}
	}
	return &Topology{Ring: regions}
}

// TestShapesCompileToTheirEdges compares every shape with the model, for random
// regions, starts and rates, and both ways of a document through JSON.
func TestShapesCompileToTheirEdges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a-z][a-z0-9-]{0,5}`)
		var regions []rhumb.RegionName
		for _, s := range rapid.SliceOfNDistinct(name, 2, 9, rapid.ID[string]).Draw(rt, "regions") {
			regions = append(regions, rhumb.RegionName(s))
		}
		shape := rapid.SampledFrom([]string{"full-mesh", "fan-in", "fan-out", "active-standby", "chain", "ring"}).Draw(rt, "shape")
		topology := shaped(shape, regions)
		topology.Start = rapid.SampledFrom([]Start{"", StartEarliest, StartLatest}).Draw(rt, "start")
		topology.Rate = rapid.SampledFrom([]Rate{"", "4096", "10MB", "512KiB/s"}).Draw(rt, "rate")
		n := Namespace{Tenant: "t", Name: "n", Topology: topology}
		edges, err := Compile(&n)
		if err != nil {
			rt.Fatal(err)
		}
		want := model(shape, regions)
		for _, e := range edges {
			m := modelEdge{e.From, e.To, e.Forward}
			if !want[m] {
				rt.Fatalf("%s of %v has edge %+v", shape, regions, e)
			}
			delete(want, m)
			if (e.Start == StartLatest) != (topology.Start == StartLatest) ||
				e.Rate != map[Rate]int64{"": 0, "4096": 4096, "10MB": 10_000_000, "512KiB/s": 512 << 10}[topology.Rate] {
				rt.Fatalf("edge %+v of %+v", e, topology)
			}
		}
		if len(want) > 0 {
			rt.Fatalf("%s of %v lacks %v", shape, regions, slices.Collect(maps.Keys(want)))
		}
		if !slices.IsSortedFunc(edges, compareEdges) {
			rt.Fatalf("not sorted: %v", edges)
		}
		if got := n.Topology.Regions(); len(got) != len(regions) {
			rt.Fatalf("it names %v, not %v", got, regions)
		}
		d, err := encode(&n, nil, "test", time.Now())
		if err != nil {
			rt.Fatal(err)
		}
		back, unknown, err := decode[Namespace](d)
		if err != nil || len(unknown) > 0 {
			rt.Fatalf("%s: %v, %v", d.JSON, unknown, err)
		}
		if again, err := Compile(&back); err != nil || !slices.Equal(again, edges) {
			rt.Fatalf("%s compiles to %v, %v, not %v", d.JSON, again, err, edges)
		}
	})
}

// TestCustomEdgesAreTaken: edge by edge, what an edge leaves out is the topology's.
func TestCustomEdgesAreTaken(t *testing.T) {
	n, err := ReadInput[Namespace]([]byte(`{"topology":{"edges":[
		{"from":"us","to":"hub","forward":true,"start":"latest"},
		{"from":"eu","to":"hub","rate":"2MB"}],"rate":1500000}}`))
	if err != nil {
		t.Fatal(err)
	}
	n.Tenant, n.Name = "t", "n"
	edges, err := Compile(&n)
	want := []Edge{
		{Tenant: "t", Namespace: "n", From: "eu", To: "hub", Start: StartEarliest, Rate: 2_000_000},
		{Tenant: "t", Namespace: "n", From: "us", To: "hub", Forward: true, Start: StartLatest, Rate: 1_500_000},
	}
	if err != nil || !slices.Equal(edges, want) {
		t.Fatalf("%+v, %v", edges, err)
	}
}

func TestShapesRefuseWhatCannotWork(t *testing.T) {
	for text, want := range map[string]string{
		`{"chain":["a","b"],"ring":["a","b"]}`:                             "topology.ring: is a second shape: chain is there already",
		`{"start":"latest"}`:                                               "topology: names no shape: give one of full-mesh, fan-in",
		`{"fan-in":{}}`:                                                    "topology.fan-in.to: must name a region",
		`{"fan-in":{"from":[],"to":"a"}}`:                                  "topology.fan-in.from: names no region",
		`{"fan-in":{"from":["b","a"],"to":"a"}}`:                           `topology.fan-in.from[1]: region "a" is topology.fan-in.to too`,
		`{"fan-out":{"from":"a","to":["b","b"]}}`:                          `topology.fan-out.to[1]: region "b" stands twice`,
		`{"active-standby":{"active":"a","standby":["A"]}}`:                "topology.active-standby.standby[0]",
		`{"active-standby":{"standby":["a"]}}`:                             "topology.active-standby.active: must name a region",
		`{"chain":["a"]}`:                                                  "topology.chain: has 1 regions, at least 2",
		`{"ring":[]}`:                                                      "topology.ring: has 0 regions",
		`{"edges":[{"from":"a","to":"b"},{"to":"b","from":"a"}]}`:          "topology.edges[1]: the edge from a to b stands twice: topology.edges[0]",
		`{"edges":[{"from":"a","to":"a"}]}`:                                `topology.edges[0]: leads from region "a" to itself`,
		`{"edges":[{"from":"a"}]}`:                                         "topology.edges[0].to: must name a region",
		`{"edges":[{"from":"a","to":"b","start":"now"}]}`:                  "topology.edges[0].start: must be earliest or latest",
		`{"edges":[{"from":"a","to":"b","rate":"fast"}]}`:                  "topology.edges[0].rate: must be bytes per second",
		`{"full-mesh":["a"],"rate":"10"}`:                                  "topology.rate: must be bytes per second",
		`{"full-mesh":["a"],"rate":-1}`:                                    "topology.rate: must be bytes per second",
		`{"full-mesh":["a"],"rate":true}`:                                  "topology.rate: must be bytes per second",
		`{"edges":[{"from":"a","to":"b","Forward":true}]}`:                 "topology.edges[0].Forward: is written forward",
		`{"edges":[{"from":"a","to":null}]}`:                               "topology.edges[0].to: must not be null",
		`{"edges":[{"from":"a","to":"b","fec":"20+4"}]}`:                   "topology.edges[0].fec: no such field",
		`{"active-standby":{"active":"a","standby":["b"],"generation":1}}`: "topology.active-standby.generation: no such field",
	} {
		n, err := ReadInput[Namespace]([]byte(`{"topology":` + text + `}`))
		if err == nil {
			_, err = Compile(&n)
		}
		var fe *FieldError
		if err == nil || !errors.As(err, &fe) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestUnknownFieldsInListsSurvive: an older binary that changes one edge keeps
// what a newer one said of the others, wherever they stand.
func TestUnknownFieldsInListsSurvive(t *testing.T) {
	d := parseDoc(t, NamespaceKey("t", "n"), `,"topology":{"edges":[{"from":"a","to":"b","fec":"20+4"},{"from":"b","to":"c","fec":"off"}],"later":1},"regions":{"a":{"tier":"s3"},"b":{"tier":"ssd"}}`)
	n, unknown, err := decode[Namespace](d)
	if err != nil || len(unknown) != 5 {
		t.Fatalf("%v, %v", unknown, err)
	}
	n.Topology.Edges = []EdgeSpec{{From: "b", To: "c", Forward: true}, {From: "c", To: "a"}}
	delete(n.Regions, "a")
	next, err := encode(&n, &d, "older", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(next.JSON, &got); err != nil {
		t.Fatal(err)
	}
	want := `map[regions:map[b:map[tier:ssd]] topology:map[edges:[map[fec:off forward:true from:b to:c] map[from:c to:a]] later:1]]`
	for _, k := range []string{"version", "updated_at", "updated_by"} {
		delete(got, k)
	}
	if fmt.Sprint(got) != want {
		t.Errorf("%v\nwant\n%s", got, want)
	}
}

// TestRetentionIsWrittenWithUnits: what a person writes in days is stored in
// milliseconds, and a region's bounds go before the namespace's.
func TestRetentionIsWrittenWithUnits(t *testing.T) {
	n, err := ReadInput[Namespace]([]byte(`{"retention":{"ms":"7d","bytes":"10GB"},"regions":{"hub":{"retention":"30d"},"edge":{"retention":{"ms":-1,"bytes":5}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	day := int64(24 * 3600 * 1000)
	for region, want := range map[rhumb.RegionName][2]int64{"us": {7 * day, 10e9}, "hub": {30 * day, 10e9}, "edge": {-1, 5}} {
		if ms, bytes := n.RetentionIn(region); ms == nil || bytes == nil || *ms != want[0] || *bytes != want[1] {
			t.Errorf("%s: %v, %v", region, ms, bytes)
		}
	}
	if ms, bytes := new(Namespace).RetentionIn("us"); ms != nil || bytes != nil {
		t.Errorf("nothing said gives %v, %v", ms, bytes)
	}
	for text, want := range map[string]string{
		`{"retention":"long"}`:                            "field retention: ",
		`{"retention":{"ms":"5"}}`:                        "field retention.ms: ",
		`{"retention":{"bytes":"10 potatoes"}}`:           "field retention.bytes: ",
		`{"regions":{"a":{"retention":"x"}}}`:             "field regions.a.retention: ",
		`{"regions":{"a":{"retention":{"hold":"1h"}}}}`:   "field regions.a.retention.hold: no such field",
		`{"regions":{"a":{"topology":{"full-mesh":[]}}}}`: "field regions.a.topology: no such field",
	} {
		if _, err := ReadInput[Namespace]([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestUnitsAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "90s": 90 * time.Second, "0d": 0} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1d-1h", "5", "99999d", "1dd", "9999999h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for text, want := range map[string]int64{"0": 0, "10MB": 1e7, "10 MiB": 10 << 20, "1kB": 1000, "7B": 7, "8TiB": 8 << 40} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MB", "-1", "1.5GB", "9223372036854775807KB", "1 PB"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestRetentionWithoutALimit: -1, as a number or a text, for the time or a bound.
func TestRetentionWithoutALimit(t *testing.T) {
	for text, want := range map[string]string{
		`-1`:                     `{"ms":-1}`,
		`"-1"`:                   `{"ms":-1}`,
		`{"ms":"-1","bytes":-1}`: `{"bytes":-1,"ms":-1}`,
	} {
		n, err := ReadInput[Namespace]([]byte(`{"topology":{"full-mesh":["a"]},"retention":` + text + `}`))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		short, err := ReadInput[Namespace]([]byte(`{"topology":{"full-mesh":["a"]},"retention":` + want + `}`))
		if err != nil || !reflect.DeepEqual(n.Retention, short.Retention) {
			t.Errorf("%s is %+v, want %+v (%v)", text, n.Retention, short.Retention, err)
		}
	}
}
