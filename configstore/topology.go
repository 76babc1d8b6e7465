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

// Topology is the named shape of a namespace's flow. Exactly one shape is
// given; this version knows full-mesh.
type Topology struct {
	// FullMesh: every region of the list sends its own records to every other.
	// nil: another shape is meant. Empty, or one region: local only.
	FullMesh []rhumb.RegionName `json:"full-mesh,omitzero"`
	// Start of edges that are new. Empty: earliest.
	Start Start `json:"start,omitzero"`
}

// MaxShapeRegions bounds a shape: a full mesh of n has n·(n−1) edges.
const MaxShapeRegions = 64

// Edge is policy: a namespace's records flow from one region to another.
type Edge struct {
	Tenant    rhumb.Tenant
	Namespace rhumb.Namespace
	From, To  rhumb.RegionName
	// Forward: records of other origins flow too, not only From's own.
	Forward bool
	// Start is where the edge starts at a partition that it has not carried yet.
	Start Start
}

func (t *Topology) validate() error {
	if t.FullMesh == nil {
		return invalid("topology", "names no shape: give full-mesh")
	}
	if len(t.FullMesh) > MaxShapeRegions {
		return invalid("topology.full-mesh", "has %d regions, at most %d are allowed", len(t.FullMesh), MaxShapeRegions)
	}
	switch t.Start {
	case "", StartEarliest, StartLatest:
	default:
		return invalid("topology.start", "must be earliest or latest, not %q", string(t.Start))
	}
	return validateRegionList("topology.full-mesh", t.FullMesh)
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
	start := cmp.Or(n.Topology.Start, StartEarliest)
	var edges []Edge
	for _, from := range n.Topology.FullMesh {
		for _, to := range n.Topology.FullMesh {
			if from != to {
				edges = append(edges, Edge{Tenant: n.Tenant, Namespace: n.Name, From: from, To: to, Start: start})
			}
		}
	}
	slices.SortFunc(edges, compareEdges)
	return edges, nil
}

// compareEdges orders by tenant, namespace, from, to: the identity of an edge.
func compareEdges(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// names reports whether the shape names the region; a nil shape names none.
func (t *Topology) names(region rhumb.RegionName) bool {
	return t != nil && slices.Contains(t.FullMesh, region)
}
