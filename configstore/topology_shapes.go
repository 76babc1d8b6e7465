package configstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// topologyShape is one way to say where a namespace flows.
type topologyShape struct {
	name  string // the field of [Topology]
	given func(*Topology) bool
	// check refuses what cannot work; field is the shape's.
	check func(t *Topology, field string) error
	// edges gives the shape's edges, in any order, of a topology that was checked.
	edges func(*Topology) []EdgeSpec
	// places gives the regions that are named and where, as they stand there.
	places func(t *Topology, field string) []place
}

// place is where a document names a region.
type place struct {
	field  string
	region rhumb.RegionName
}

// shapes are all of them, in the order that the documentation has.
var shapes = []topologyShape{
	{"full-mesh", func(t *Topology) bool { return t.FullMesh != nil }, checkFullMesh,
		func(t *Topology) []EdgeSpec { return everyPair(t.FullMesh) },
		func(t *Topology, field string) []place { return placesOf(field, t.FullMesh) }},
	{"fan-in", func(t *Topology) bool { return t.FanIn != nil }, checkFanIn, fanInEdges,
		func(t *Topology, field string) []place {
			return append(placesOf(field+".from", t.FanIn.From), place{field + ".to", t.FanIn.To})
		}},
	{"fan-out", func(t *Topology) bool { return t.FanOut != nil }, checkFanOut, fanOutEdges,
		func(t *Topology, field string) []place {
			return append([]place{{field + ".from", t.FanOut.From}}, placesOf(field+".to", t.FanOut.To)...)
		}},
	{"active-standby", func(t *Topology) bool { return t.ActiveStandby != nil }, checkActiveStandby,
		func(t *Topology) []EdgeSpec {
			return everyPair(append([]rhumb.RegionName{t.ActiveStandby.Active}, t.ActiveStandby.Standby...))
		},
		func(t *Topology, field string) []place {
			return append([]place{{field + ".active", t.ActiveStandby.Active}}, placesOf(field+".standby", t.ActiveStandby.Standby)...)
		}},
	{"chain", func(t *Topology) bool { return t.Chain != nil },
		func(t *Topology, field string) error { return checkRow(t.Chain, field) },
		func(t *Topology) []EdgeSpec { return rowEdges(t.Chain) },
		func(t *Topology, field string) []place { return placesOf(field, t.Chain) }},
	{"ring", func(t *Topology) bool { return t.Ring != nil },
		func(t *Topology, field string) error { return checkRow(t.Ring, field) },
		func(t *Topology) []EdgeSpec {
			return append(rowEdges(t.Ring), EdgeSpec{From: t.Ring[len(t.Ring)-1], To: t.Ring[0], Forward: true})
		},
		func(t *Topology, field string) []place { return placesOf(field, t.Ring) }},
	{"edges", func(t *Topology) bool { return t.Edges != nil }, checkEdges,
		func(t *Topology) []EdgeSpec { return t.Edges }, edgePlaces},
}

func shapeNames() string {
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// places gives every region that the topology names, with its field. A nil
// topology names none.
func (t *Topology) places() []place {
	if t == nil || t.shape() == nil {
		return nil
	}
	return t.shape().places(t, "topology."+t.shape().name)
}

func placesOf(field string, list []rhumb.RegionName) []place {
	var out []place
	for i, r := range list {
		out = append(out, place{field + "[" + strconv.Itoa(i) + "]", r})
	}
	return out
}

func edgePlaces(t *Topology, field string) []place {
	var out []place
	for i, e := range t.Edges {
		at := field + "[" + strconv.Itoa(i) + "]"
		out = append(out, place{at + ".from", e.From}, place{at + ".to", e.To})
	}
	return out
}

// everyPair gives an edge from each region to each other one.
func everyPair(list []rhumb.RegionName) []EdgeSpec {
	var out []EdgeSpec
	for _, from := range list {
		for _, to := range list {
			if from != to {
				out = append(out, EdgeSpec{From: from, To: to})
			}
		}
	}
	return out
}

// rowEdges gives an edge from each region to the next.
func rowEdges(list []rhumb.RegionName) []EdgeSpec {
	var out []EdgeSpec
	for i := range len(list) - 1 {
		out = append(out, EdgeSpec{From: list[i], To: list[i+1], Forward: true})
	}
	return out
}

func fanInEdges(t *Topology) []EdgeSpec {
	var out []EdgeSpec
	for _, from := range t.FanIn.From {
		out = append(out, EdgeSpec{From: from, To: t.FanIn.To})
	}
	return out
}

func fanOutEdges(t *Topology) []EdgeSpec {
	var out []EdgeSpec
	for _, to := range t.FanOut.To {
		out = append(out, EdgeSpec{From: t.FanOut.From, To: to})
	}
	return out
}

func checkFullMesh(t *Topology, field string) error { return checkShapeList(t.FullMesh, field, 0) }

// checkRow checks a chain or a ring.
func checkRow(list []rhumb.RegionName, field string) error { return checkShapeList(list, field, 2) }

// checkShapeList checks a list of at least so many regions.
func checkShapeList(list []rhumb.RegionName, field string, least int) error {
	switch {
	case len(list) > MaxShapeRegions:
		return invalid(field, "has %d regions, at most %d are allowed", len(list), MaxShapeRegions)
	case len(list) < least && least == 1:
		return invalid(field, "names no region: to keep a namespace local, give full-mesh: []")
	case len(list) < least:
		return invalid(field, "has %d regions, at least %d are needed: to keep a namespace local, give full-mesh: []", len(list), least)
	}
	return validateRegionList(field, list)
}

// checkOneAndMany checks a region against a list that must not name it.
func checkOneAndMany(one place, many []rhumb.RegionName, manyField string) error {
	var r refusals
	r.add(one.check())
	r.add(checkShapeList(many, manyField, 1))
	if i := slices.Index(many, one.region); i >= 0 && one.region != "" {
		r.add(invalid(manyField+"["+strconv.Itoa(i)+"]", "region %q is %s too: no edge leads from a region to itself", string(one.region), one.field))
	}
	return r.err()
}

// check refuses what is no name of a region.
func (p place) check() error {
	if p.region == "" {
		return invalid(p.field, "must name a region")
	}
	if err := p.region.Validate(); err != nil {
		return invalid(p.field, "%v", err)
	}
	return nil
}

func checkFanIn(t *Topology, field string) error {
	return checkOneAndMany(place{field + ".to", t.FanIn.To}, t.FanIn.From, field+".from")
}

func checkFanOut(t *Topology, field string) error {
	return checkOneAndMany(place{field + ".from", t.FanOut.From}, t.FanOut.To, field+".to")
}

func checkActiveStandby(t *Topology, field string) error {
	return checkOneAndMany(place{field + ".active", t.ActiveStandby.Active}, t.ActiveStandby.Standby, field+".standby")
}

func checkEdges(t *Topology, field string) error {
	if len(t.Edges) > MaxEdges {
		return invalid(field, "has %d edges, at most %d are allowed", len(t.Edges), MaxEdges)
	}
	var r refusals
	seen := make(map[[2]rhumb.RegionName]int, len(t.Edges))
	for i, e := range t.Edges {
		at := field + "[" + strconv.Itoa(i) + "]"
		r.add(place{at + ".from", e.From}.check())
		r.add(place{at + ".to", e.To}.check())
		pair := [2]rhumb.RegionName{e.From, e.To}
		before, twice := seen[pair]
		switch {
		case e.From == "" || e.To == "":
		case e.From == e.To:
			r.add(invalid(at, "leads from region %q to itself", string(e.From)))
		case twice:
			r.add(invalid(at, "the edge from %s to %s stands twice: %s is the first", e.From, e.To, fmt.Sprintf("%s[%d]", field, before)))
		default:
			seen[pair] = i
		}
		r.add(e.Start.validate(at + ".start"))
		r.add(e.Rate.validate(at + ".rate"))
	}
	return r.err()
}
