package configstore

import (
	"cmp"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Start says from where a new edge carries records.
type Start string

// The starts of an edge.
const (
	StartEarliest Start = "earliest" // everything that the source retains
	StartLatest   Start = "latest"   // what comes after the edge
)

// Topology is the named shape of a namespace's flow. Exactly one shape is given.
// Full-mesh, fan-in, fan-out and active-standby carry own records only; chain and
// ring forward.
type Topology struct {
	// FullMesh: every region of the list sends its own records to every other.
	// nil: another shape is meant. Empty, or one region: local only.
	FullMesh []rhumb.RegionName `json:"full-mesh,omitzero"`
	// FanIn: many regions send to one.
	FanIn *FanIn `json:"fan-in,omitzero"`
	// FanOut: one region sends to many.
	FanOut *FanOut `json:"fan-out,omitzero"`
	// ActiveStandby: one region takes producers, the others hold copies.
	ActiveStandby *ActiveStandby `json:"active-standby,omitzero"`
	// Chain: each region sends to the next, what came from before it too.
	Chain []rhumb.RegionName `json:"chain,omitzero"`
	// Ring is a chain whose last region sends to the first. What has gone round
	// ends at its own region, by life and watermark.
	Ring []rhumb.RegionName `json:"ring,omitzero"`
	// Edges is anything else, edge by edge. Empty: local only.
	Edges []EdgeSpec `json:"edges,omitzero"`
	// Start of edges that are new. Empty: earliest.
	Start Start `json:"start,omitzero"`
	// Rate limits each edge on its own. Empty: no limit.
	Rate Rate `json:"rate,omitzero"`
}

// FanIn is the shape of many sources and one destination.
type FanIn struct {
	From []rhumb.RegionName `json:"from"`
	To   rhumb.RegionName   `json:"to"`
}

// FanOut is the shape of one source and many destinations.
type FanOut struct {
	From rhumb.RegionName   `json:"from"`
	To   []rhumb.RegionName `json:"to"`
}

// ActiveStandby is the shape of regions with roles: only the active region takes
// producers. Its edges lead from each region to each other one, so that what the
// old active had not sent when the roles changed still gets out, and none has to
// be made at that moment. [Namespace.Generation] counts changes of the active.
type ActiveStandby struct {
	Active  rhumb.RegionName   `json:"active"`
	Standby []rhumb.RegionName `json:"standby"`
}

// EdgeSpec is one edge of a custom topology.
type EdgeSpec struct {
	From rhumb.RegionName `json:"from"`
	To   rhumb.RegionName `json:"to"`
	// Forward: records of other origins flow too, not only From's own.
	Forward bool `json:"forward,omitzero"`
	// Start and Rate of this edge. Empty: the topology's.
	Start Start `json:"start,omitzero"`
	Rate  Rate  `json:"rate,omitzero"`
}

// Bounds of a topology: a full mesh of n regions has n·(n−1) edges.
const (
	MaxShapeRegions = 64
	MaxEdges        = MaxShapeRegions * (MaxShapeRegions - 1)
)

// Edge is policy: the records of a namespace, or of one topic that has a topology
// of its own, flow from one region to another.
type Edge struct {
	Tenant    rhumb.Tenant
	Namespace rhumb.Namespace
	// Topic is the one that the edge is of. Empty: every topic of the namespace
	// that has no topology of its own.
	Topic    rhumb.TopicName
	From, To rhumb.RegionName
	// Forward: records of other origins flow too, not only From's own.
	Forward bool
	// Gone: what regions published that are removed from the mesh flows too, from
	// whoever has it. The shape would have brought it to To from the region itself.
	Gone bool
	// Start is where the edge starts at a partition that it has not carried yet.
	Start Start
	// Rate limits what the edge carries, in bytes per second. Zero: no limit.
	Rate int64
}

// Compile gives the edges of a namespace, sorted by From, then To. It is pure:
// equal documents compile to equal edges. A namespace without a topology, or
// with an empty one, has none. Refusals name field and reason. Whether the
// regions exist and are allowed is for who stores the document to check.
func Compile(n *Namespace) ([]Edge, error) {
	if err := n.validate(); err != nil {
		return nil, inDocument(NamespaceKey(n.Tenant, n.Name), err)
	}
	if n.Topology == nil {
		return nil, nil
	}
	edges := n.Topology.compile()
	for i := range edges {
		edges[i].Tenant, edges[i].Namespace = n.Tenant, n.Name
	}
	return edges, nil
}

// CompileTopic gives the edges of a topic that has a topology of its own, as
// [Compile] does.
func CompileTopic(t *Topic) ([]Edge, error) {
	if err := t.validate(nil); err != nil {
		return nil, inDocument(TopicKey(t.Topic), err)
	}
	if t.Topology == nil {
		return nil, nil
	}
	edges := t.Topology.compile()
	for i := range edges {
		edges[i].Tenant, edges[i].Namespace, edges[i].Topic = t.Topic.Tenant, t.Topic.Namespace, t.Topic.Name
	}
	return edges, nil
}

// compile gives the edges of a topology that was validated, without the names of
// what they belong to.
func (t *Topology) compile() []Edge {
	var edges []Edge
	for _, e := range t.shape().edges(t) {
		edges = append(edges, Edge{
			From: e.From, To: e.To, Forward: e.Forward, Gone: t.gathers(),
			Start: cmp.Or(e.Start, t.Start, StartEarliest),
			Rate:  cmp.Or(e.Rate, t.Rate).bytes(),
		})
	}
	slices.SortFunc(edges, compareEdges)
	return edges
}

// gathers reports whether the shape has an edge to a region from each region that
// publishes. Where records of a removed one were on their way, or to a region that is
// rebuilt or joins later, the others then stand in for it. A fan-out brings its
// source's records only, and custom edges say themselves whether they forward.
func (t *Topology) gathers() bool {
	return t.FullMesh != nil || t.ActiveStandby != nil || t.FanIn != nil
}

// Brings reports whether the edge carries records of an origin that is neither From
// nor To; gone says that the origin's region was removed from the mesh.
func (e *Edge) Brings(gone bool) bool { return e.Forward || e.Gone && gone }

// compareEdges orders by tenant, namespace, topic, from, to: the identity of an edge.
func compareEdges(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Topic, b.Topic),
		cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

func (t *Topology) validate() error {
	var given []string
	for _, s := range shapes {
		if s.given(t) {
			given = append(given, s.name)
		}
	}
	var r refusals
	if len(given) == 0 {
		r.add(invalid("topology", "names no shape: give one of %s", shapeNames()))
	}
	for i, name := range given {
		if i > 0 {
			r.add(invalid("topology."+name, "is a second shape: %s is there already, give only one", given[0]))
		}
	}
	r.add(t.Start.validate("topology.start"))
	r.add(t.Rate.validate("topology.rate"))
	if len(given) == 1 {
		r.add(t.shape().check(t, "topology."+given[0]))
	}
	return r.err()
}

func (s Start) validate(field string) error {
	switch s {
	case "", StartEarliest, StartLatest:
		return nil
	}
	return invalid(field, "must be earliest or latest, not %q", string(s))
}

// shape gives the one that is given; nil if none is.
func (t *Topology) shape() *topologyShape {
	for i := range shapes {
		if shapes[i].given(t) {
			return &shapes[i]
		}
	}
	return nil
}

// Shape gives the name of the topology's shape, such as full-mesh. Empty: there
// is none.
func (t *Topology) Shape() string {
	if t == nil || t.shape() == nil {
		return ""
	}
	return t.shape().name
}

// Regions gives the regions that the topology names, in its order, once each.
func (t *Topology) Regions() []rhumb.RegionName {
	var out []rhumb.RegionName
	for _, p := range t.places() {
		if !slices.Contains(out, p.region) {
			out = append(out, p.region)
		}
	}
	return out
}

// names reports whether the shape names the region; a nil shape names none.
func (t *Topology) names(region rhumb.RegionName) bool {
	return slices.ContainsFunc(t.places(), func(p place) bool { return p.region == region })
}
