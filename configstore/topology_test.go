package configstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

func regionNames() *rapid.Generator[[]rhumb.RegionName] {
	name := rapid.Custom(func(rt *rapid.T) rhumb.RegionName {
		return rhumb.RegionName(rapid.StringMatching(`[a-z][a-z0-9-]{0,5}`).Draw(rt, "name"))
	})
	return rapid.SliceOfNDistinct(name, 0, 12, rapid.ID[rhumb.RegionName])
}

// TestFullMeshCompilesToAllPairs checks the compiler against what a full mesh
// means, for random regions in random order.
func TestFullMeshCompilesToAllPairs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		regions := regionNames().Draw(rt, "regions")
		n := Namespace{Tenant: "t", Name: "n", Topology: &Topology{FullMesh: regions}}
		edges, err := Compile(&n)
		if err != nil {
			rt.Fatal(err)
		}
		pairs := map[[2]rhumb.RegionName]bool{}
		for _, e := range edges {
			if e.From == e.To || e.Forward || !e.Gone || e.Start != StartEarliest || e.Tenant != "t" || e.Namespace != "n" {
				rt.Fatalf("edge %+v", e)
			}
			if !slices.Contains(regions, e.From) || !slices.Contains(regions, e.To) {
				rt.Fatalf("edge %+v outside of %v", e, regions)
			}
			pairs[[2]rhumb.RegionName{e.From, e.To}] = true
		}
		if want := len(regions) * max(0, len(regions)-1); len(edges) != want || len(pairs) != want {
			rt.Fatalf("%d edges, %d pairs, want %d", len(edges), len(pairs), want)
		}
		shuffled := append([]rhumb.RegionName{}, rapid.Permutation(regions).Draw(rt, "shuffled")...) // never nil
		again, err := Compile(&Namespace{Tenant: "t", Name: "n", Topology: &Topology{FullMesh: shuffled}})
		if err != nil || !slices.Equal(edges, again) {
			rt.Fatalf("the order of the list matters: %v, %v, %v", edges, again, err)
		}
	})
}

// TestCompilerRefusesWithFieldAndReason gives the compiler anything.
func TestCompilerRefusesWithFieldAndReason(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var names []rhumb.RegionName
		for _, s := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "A", "a b", "-a", strings.Repeat("x", 33)}), 0, 5).Draw(rt, "names") {
			names = append(names, rhumb.RegionName(s))
		}
		n := Namespace{Tenant: "t", Name: "n", Topology: &Topology{
			FullMesh: names, Start: Start(rapid.SampledFrom([]string{"", "earliest", "latest", "now"}).Draw(rt, "start")),
		}}
		legal := names != nil && n.Topology.Start != "now"
		for i, name := range names {
			legal = legal && name.Validate() == nil && !slices.Contains(names[:i], name)
		}
		_, err := Compile(&n)
		if legal != (err == nil) {
			rt.Fatalf("%v %q: legal %v, error %v", names, n.Topology.Start, legal, err)
		}
		var fe *FieldError
		if err != nil && (!errors.As(err, &fe) || fe.Key != NamespaceKey("t", "n") || !strings.HasPrefix(fe.Field, "topology") || fe.Reason == "") {
			rt.Fatalf("error %v names no field", err)
		}
	})
}

// TestG71EmptyListIsLocalOnly: replication is switched off by an empty list, and
// that differs from never having said anything.
func TestG71EmptyListIsLocalOnly(t *testing.T) {
	for _, list := range [][]rhumb.RegionName{{}, {"a"}} {
		n := Namespace{Tenant: "t", Name: "n", Topology: &Topology{FullMesh: list}}
		if edges, err := Compile(&n); err != nil || len(edges) != 0 {
			t.Errorf("%v: edges %v, %v", list, edges, err)
		}
	}
	n, _, err := decode[Namespace](parseDoc(t, NamespaceKey("t", "n"), `,"topology":{"full-mesh":[]}`))
	if err != nil || n.Topology == nil || n.Topology.FullMesh == nil {
		t.Errorf("an empty list decodes to %+v, %v", n.Topology, err)
	}
	n, _, err = decode[Namespace](parseDoc(t, NamespaceKey("t", "n"), ``))
	if edges, cerr := Compile(&n); err != nil || n.Topology != nil || len(edges) != 0 || cerr != nil {
		t.Errorf("no topology decodes to %+v, %v, %v", n.Topology, err, cerr)
	}
}

func TestUnbuiltFeaturesAreRefusedWithReason(t *testing.T) {
	for _, c := range []struct{ fields, field string }{
		{`"topology":{"full-mesh":["a"],"rate_limit":"1MiB"}`, "topology.rate_limit"},
		{`"edges":[{"from":"a","to":"b","forward":true}]`, "edges"},
		{`"dedup":"mesh"`, "dedup"},
		{`"transactions":{}`, "transactions"},
		{`"ttl":"1h"`, "ttl"},
		{`"backlog_quota":1`, "backlog_quota"},
		{`"confirm":{"regions":1}`, "confirm"},
		{`"max_lag":"30s"`, "max_lag"},
		{`"subscription_replication":true`, "subscription_replication"},
		{`"compaction":{}`, "compaction"},
		{`"roles":{}`, "roles"},
		{`"retention":{"hold_for_links":"24h"}`, "retention.hold_for_links"},
	} {
		d := parseDoc(t, NamespaceKey("t", "n"), ","+c.fields)
		err := newPicture().put(d)
		var fe *FieldError
		if rhumb.KindOf(err) != rhumb.KindUnsupported || !errors.As(err, &fe) || fe.Field != c.field || fe.Reason == "" {
			t.Errorf("%s: %v (%v), want a refusal of %s", c.fields, err, rhumb.KindOf(err), c.field)
		}
	}
}

func TestNamespaceFieldsAreChecked(t *testing.T) {
	for fields, want := range map[string]string{
		`"topology":{}`:                          "topology: names no shape",
		`"topology":[]`:                          "topology",
		`"limits":{"partitions":0}`:              "limits.partitions: must be 1 to",
		`"limits":{"partitions":"many"}`:         "limits.partitions",
		`"delete_scope":"world"`:                 "delete_scope: must be",
		`"dedup":"none"`:                         "dedup: must be",
		`"retention":{"ms":-2}`:                  "retention.ms: must be",
		`"retention":{"bytes":-2}`:               "retention.bytes: must be",
		`"retention":{"ms":"1h"}`:                "retention.ms",
		`"topology":{"full-mesh":[1]}`:           "topology.full-mesh",
		`"topology":{"full-mesh":["a","b","a"]}`: `topology.full-mesh[2]: region "a" stands twice`,
	} {
		err := newPicture().put(parseDoc(t, NamespaceKey("t", "n"), ","+fields))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fields, err, want)
		}
	}
	var many []string
	for i := range MaxShapeRegions + 1 {
		many = append(many, fmt.Sprintf(`"r%d"`, i))
	}
	err := newPicture().put(parseDoc(t, NamespaceKey("t", "n"), `,"topology":{"full-mesh":[`+strings.Join(many, ",")+`]}`))
	if err == nil || !strings.Contains(err.Error(), "at most 64") {
		t.Errorf("65 regions: %v", err)
	}
}

func TestTopicConfigsAreChecked(t *testing.T) {
	good := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "min.insync.replicas": "2", "flush.ms": "5", "later.setting": "x", "message.timestamp.type": "LogAppendTime"}
	if err := ValidateTopicConfigs(good); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{
		"cleanup.policy": "shred", "flush.ms": "x", "compression.type": "zstd", "retention.ms": "-2", "retention.bytes": "1k",
		"max.message.bytes": "-1", "validate": "all", "a b": "1", "": "", "x": strings.Repeat("v", 5000),
	} {
		var fe *FieldError
		if err := ValidateTopicConfigs(map[string]string{name: value}); !errors.As(err, &fe) || !strings.HasPrefix(fe.Field, "configs") {
			t.Errorf("%s=%.20s: %v", name, value, err)
		}
	}
}

func FuzzReadInput(f *testing.F) {
	f.Add([]byte(`{"topology":{"full-mesh":["a","b"],"start":"latest"},"retention":{"ms":1,"bytes":2},"delete_scope":"mesh"}`))
	f.Add([]byte(`{"topology":{"ring":["a"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := ReadInput[Namespace](data)
		if err != nil {
			return
		}
		n.Tenant, n.Name = "t", "n"
		edges, err := Compile(&n)
		if err == nil && len(edges) > MaxShapeRegions*(MaxShapeRegions-1) {
			t.Fatalf("%d edges", len(edges))
		}
	})
}
