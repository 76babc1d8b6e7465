package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// shape is a topology of five regions, by their places.
type shape struct {
	name  string
	edges []configstore.EdgeSpec
	// topology says the same in a named shape, which is then applied as a topology
	// file; nil: the edges are.
	topology *configstore.Topology
}

func regionName(i int) rhumb.RegionName { return rhumb.RegionName(fmt.Sprintf("r%d", i)) }

// one is an edge in one direction, both edges in both; they forward.
func one(from, to int) []configstore.EdgeSpec {
	return []configstore.EdgeSpec{{From: regionName(from), To: regionName(to), Forward: true}}
}

func both(a, b int) []configstore.EdgeSpec { return append(one(a, b), one(b, a)...) }

func plain(from, to int) []configstore.EdgeSpec {
	return []configstore.EdgeSpec{{From: regionName(from), To: regionName(to)}}
}

// shapes are the topologies that the runs of five regions go through: those of the
// named shapes, and custom ones in which a record has several ways.
var shapes = []shape{
	{name: "chain", edges: slices.Concat(one(0, 1), one(1, 2), one(2, 3), one(3, 4))},
	{name: "ring", edges: slices.Concat(one(0, 1), one(1, 2), one(2, 3), one(3, 4), one(4, 0))},
	{name: "ring both ways", edges: slices.Concat(both(0, 1), both(1, 2), both(2, 3), both(3, 4), both(4, 0))},
	{name: "ring and hub", edges: slices.Concat(one(1, 2), one(2, 3), one(3, 4), one(4, 1), both(0, 1), both(0, 3))},
	{name: "redundant paths", edges: slices.Concat(one(0, 1), one(0, 2), one(0, 3), one(1, 4), one(2, 4), one(3, 4), plain(0, 4))},
	{name: "custom", edges: slices.Concat(plain(0, 1), plain(2, 1), both(1, 3), one(3, 4), plain(4, 0))},
	{name: "chain backwards", edges: slices.Concat(one(4, 3), one(3, 2), one(2, 1), one(1, 0))},
	{name: "all forward", edges: everyTwo()},
}

func everyTwo() (edges []configstore.EdgeSpec) {
	for a := range 5 {
		for b := range a {
			edges = append(edges, both(a, b)...)
		}
	}
	return edges
}

// fullMesh is the topology of ordinary runs.
func fullMesh(regions int) shape {
	s := shape{name: "full mesh"}
	for a := range regions {
		for b := range regions {
			if a != b {
				s.edges = append(s.edges, plain(a, b)...)
			}
		}
	}
	return s
}

// reaches tells which regions the records of one are meant to reach, itself among them.
func (s shape) reaches(from int) map[int]bool {
	return s.spread(from, map[int]bool{from: true})
}

// spread adds to the regions that have records of one those that they reach from there.
func (s shape) spread(from int, have map[int]bool) map[int]bool {
	for grown := true; grown; {
		grown = false
		for _, e := range s.edges {
			a, b := placeOf(e.From), placeOf(e.To)
			if have[a] && !have[b] && (a == from || e.Forward) {
				have[b], grown = true, true
			}
		}
	}
	return have
}

func placeOf(name rhumb.RegionName) (i int) {
	if _, err := fmt.Sscanf(string(name), "r%d", &i); err != nil {
		panic(err) // made by regionName
	}
	return i
}

// direct reports whether an edge leads from one region straight to another.
func (s shape) direct(from, to int) bool {
	return slices.ContainsFunc(s.edges, func(e configstore.EdgeSpec) bool {
		return e.From == regionName(from) && e.To == regionName(to)
	})
}

// linked reports whether an edge leads between two regions, either way.
func (s shape) linked(a, b int) bool { return s.direct(a, b) || s.direct(b, a) }

// change makes a shape the policy.
func (w *world) change(s shape) error {
	w.note("FAULT the topology becomes: %s", s.name)
	if err := s.apply(configstore.NewWriter(w.store, "sim")); err != nil {
		return err
	}
	if w.may == nil {
		w.may = map[int]map[int]bool{}
	}
	for from := range w.hosts {
		if w.may[from] == nil {
			w.may[from] = map[int]bool{from: true}
		}
		s.spread(from, w.may[from])
	}
	w.shape = s
	w.changes++
	return nil
}

// apply stores the shape as a policy: a named one as a topology file says it.
func (s shape) apply(writer *configstore.Writer) error {
	ctx := context.Background()
	if s.topology == nil {
		_, err := writer.PutNamespace(ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
			n.Topology = &configstore.Topology{Edges: s.edges}
			return nil
		})
		return err
	}
	space := configstore.Namespace{Tenant: rhumb.DefaultTenant, Name: rhumb.DefaultNamespace, Topology: s.topology}
	done, err := writer.ApplyTopology(ctx, &configstore.TopologyFile{Tenants: map[rhumb.Tenant]configstore.FileTenant{
		rhumb.DefaultTenant: {Tenant: configstore.Tenant{Name: rhumb.DefaultTenant}, Namespaces: map[rhumb.Namespace]configstore.FileNamespace{
			rhumb.DefaultNamespace: {Namespace: space}}},
	}}, false, nil)
	if err == nil && !done.Complete {
		err = fmt.Errorf("not applied: %s", done.Error)
	}
	return err
}
