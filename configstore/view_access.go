package configstore

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ViewState says whether a View follows its store.
type ViewState uint8

// The states of a View. In all but the first the last good copy is in force.
const (
	StateCurrent   ViewState = iota // the last read was taken
	StateStoreDown                  // the last read failed
	StateWentBack                   // the store offers older or other documents: writes are refused
	StateOtherMesh                  // the store is another mesh's: writes are refused
)

// String gives the state's words.
func (s ViewState) String() string {
	switch s {
	case StateCurrent:
		return "current"
	case StateStoreDown:
		return "store down"
	case StateWentBack:
		return "store went back"
	case StateOtherMesh:
		return "store of another mesh"
	}
	return fmt.Sprintf("state-%d", uint8(s))
}

// Status is how a View stands to its store.
type Status struct {
	State    ViewState
	Since    time.Time // when it entered the state
	LastRead time.Time // the last read that was taken; zero: none since the start
	Err      error     // why it is not current; nil if it is
	KeepErr  error     // why the last good copy could not be saved; nil if it was
	// Problems lists what of the store is not in force: documents by which it went
	// back, documents refused, edges left out.
	Problems []Problem
	// CaughtByReread counts changes that the watch did not tell of.
	CaughtByReread uint64
	// Documents counts those seen, with tombstones. Digest is over key, version and
	// content of them all: equal in regions that saw the same.
	Documents int
	Digest    string
}

// Status gives the status now.
func (v *View) Status() Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.status
	s.Problems = slices.Clone(s.Problems)
	return s
}

// digest adds up to one value per set of documents, in whatever order they came.
type digest [sha256.Size]byte

// toggle adds a document, or takes away one that was added.
func (g *digest) toggle(d Document) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d ", d.Key, d.Version)
	h.Write(d.JSON)
	for i, b := range h.Sum(nil) {
		g[i] ^= b
	}
}

// Subscribe calls fn after each change of what the View shows, until cancel. fn
// must not block, and must not call Refresh or a Writer of the View.
func (v *View) Subscribe(fn func()) (cancel func()) {
	s := &subscriber{fn}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.subs[s] = struct{}{}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.subs, s)
	}
}

// Mesh gives the mesh's document.
func (v *View) Mesh() Mesh { return v.shown.Load().mesh }

// Regions gives the registered regions by number.
func (v *View) Regions() []Region { return slices.Clone(v.shown.Load().sorted) }

// Region gives a registered region.
func (v *View) Region(name rhumb.RegionName) (Region, bool) {
	r, ok := v.shown.Load().regions[name]
	return r, ok && !r.Deleted
}

// RegionByNumber gives the registered region of a number.
func (v *View) RegionByNumber(n rhumb.RegionNumber) (Region, bool) {
	p := v.shown.Load()
	o, ok := p.owners[n]
	if !ok || o.Gone {
		return Region{}, false
	}
	return p.regions[o.Name], true
}

// NumberOwner gives the name that a number belongs to, or belonged to when its
// region was removed.
func (v *View) NumberOwner(n rhumb.RegionNumber) (rhumb.RegionName, bool) {
	o, ok := v.shown.Load().owners[n]
	return o.Name, ok
}

// Tenant gives a tenant.
func (v *View) Tenant(name rhumb.Tenant) (Tenant, bool) {
	t, ok := v.shown.Load().tenants[name]
	return t, ok
}

// Tenants gives all tenants by name.
func (v *View) Tenants() []Tenant {
	return sortedValues(v.shown.Load().tenants, func(a, b Tenant) int { return compareKeys(&a, &b) })
}

// Namespace gives a namespace. One without a document is local to its region.
func (v *View) Namespace(t rhumb.Tenant, ns rhumb.Namespace) (Namespace, bool) {
	n, ok := v.shown.Load().namespaces[namespaceName{t, ns}]
	return n, ok
}

// Namespaces gives all namespaces by tenant and name.
func (v *View) Namespaces() []Namespace {
	return sortedValues(v.shown.Load().namespaces, func(a, b Namespace) int { return compareKeys(&a, &b) })
}

// TopicDoc gives what a topic has of its own, if anything.
func (v *View) TopicDoc(topic rhumb.Topic) (Topic, bool) {
	t, ok := v.shown.Load().topics[topic]
	return t, ok
}

// TopicDocs gives all documents of topics by name.
func (v *View) TopicDocs() []Topic {
	return sortedValues(v.shown.Load().topics, func(a, b Topic) int { return compareKeys(&a, &b) })
}

// User gives a user.
func (v *View) User(name rhumb.UserName) (User, bool) {
	u, ok := v.shown.Load().users[name]
	return u, ok
}

// Users gives all users by name.
func (v *View) Users() []User {
	return sortedValues(v.shown.Load().users, func(a, b User) int { return compareKeys(&a, &b) })
}

// Active gives the region that takes producers in a namespace with roles; empty
// where every region does. Unlike [View.Namespace] it copies nothing.
func (v *View) Active(t rhumb.Tenant, ns rhumb.Namespace) rhumb.RegionName {
	active := v.shown.Load().active
	if len(active) == 0 {
		return ""
	}
	return active[namespaceName{t, ns}]
}

// RetentionIn gives what the documents say of a topic's retention in a region: of
// each bound what the topic's own says, else the namespace's. nil: nothing is said.
func (v *View) RetentionIn(topic rhumb.Topic, region rhumb.RegionName) (ms, bytes *int64) {
	p := v.shown.Load()
	ns := p.namespaces[namespaceName{topic.Tenant, topic.Namespace}]
	whole := Retention{}
	whole.Milliseconds, whole.Bytes = ns.RetentionIn(region)
	own := p.topics[topic].Retention.or(&whole)
	return own.Milliseconds, own.Bytes
}

// Edges gives all edges, sorted by tenant, namespace, topic, From and To. Those of
// a namespace, without a topic, are of all its topics but those whose document
// has a topology of its own.
func (v *View) Edges() []Edge { return slices.Clone(v.shown.Load().edges) }

// EdgesOf gives the edges of a topic: its own if it has a topology of its own, else
// its namespace's.
func (v *View) EdgesOf(topic rhumb.Topic) []Edge {
	p := v.shown.Load()
	first := Edge{Tenant: topic.Tenant, Namespace: topic.Namespace}
	if p.topics[topic].Topology != nil {
		first.Topic = topic.Name
	}
	i, _ := slices.BinarySearchFunc(p.edges, first, compareEdges)
	n := i
	for n < len(p.edges) && p.edges[n].Tenant == first.Tenant && p.edges[n].Namespace == first.Namespace && p.edges[n].Topic == first.Topic {
		n++
	}
	return p.edges[i:n:n]
}

// Flows reports whether a topic flows to or from a region.
func (v *View) Flows(topic rhumb.Topic, region rhumb.RegionName) bool {
	return slices.ContainsFunc(v.EdgesOf(topic), func(e Edge) bool { return e.From == region || e.To == region })
}

// EdgesFrom gives the edges on which the region sends.
func (v *View) EdgesFrom(region rhumb.RegionName) []Edge {
	return v.edgesWhere(func(e Edge) bool { return e.From == region })
}

// EdgesTo gives the edges on which the region receives.
func (v *View) EdgesTo(region rhumb.RegionName) []Edge {
	return v.edgesWhere(func(e Edge) bool { return e.To == region })
}

// Edge gives one edge of a namespace, as its topics without a topology of their
// own have it.
func (v *View) Edge(t rhumb.Tenant, ns rhumb.Namespace, from, to rhumb.RegionName) (Edge, bool) {
	edges := v.shown.Load().edges
	i, ok := slices.BinarySearchFunc(edges, Edge{Tenant: t, Namespace: ns, From: from, To: to}, compareEdges)
	if !ok {
		return Edge{}, false
	}
	return edges[i], true
}

func (v *View) edgesWhere(want func(Edge) bool) []Edge {
	var out []Edge
	for _, e := range v.shown.Load().edges {
		if want(e) {
			out = append(out, e)
		}
	}
	return out
}
