package configstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Action is what a plan does to a document or an edge.
type Action string

// The actions.
const (
	ActionAdd    Action = "add"
	ActionChange Action = "change"
	ActionRemove Action = "remove"
)

// Plan is what applying a topology file would do, and what that rests on. It is
// true for as long as the documents that it rests on are what they were.
type Plan struct {
	// Base has every document that the file names, those of regions too, and with pruning every one that
	// it could name, as it was.
	Base []PlanBase `json:"base"`
	// Steps are the documents that change, in the order in which they are stored.
	Steps []PlanStep `json:"steps"`
	// Edges that are added, changed and removed.
	Edges []EdgeChange `json:"edges"`
	// Warnings are what an operator would want to know before.
	Warnings []string `json:"warnings"`
}

// PlanBase is one document as a plan saw it.
type PlanBase struct {
	Key     string `json:"key"`
	Version uint64 `json:"version"` // 0: there was none
	By      string `json:"updated_by,omitempty"`

	deleted bool   // it is a tombstone
	who     string // see [Meta.Who]
}

// PlanStep is one document that changes.
type PlanStep struct {
	Kind    string        `json:"kind"` // tenant, namespace or topic
	Name    string        `json:"name"`
	Action  Action        `json:"action"`
	Changes []FieldChange `json:"changes"`

	run func(context.Context, *Writer, *stepVersions) error
}

// FieldChange is one field that a step changes, as JSON; empty: it is not there.
type FieldChange struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// EdgeChange is one edge that a plan changes. Before is nil for one that is added,
// After for one that is removed.
type EdgeChange struct {
	Action Action    `json:"action"`
	Before *PlanEdge `json:"before,omitempty"`
	After  *PlanEdge `json:"after,omitempty"`
}

// PlanEdge is an [Edge] as a plan shows it.
type PlanEdge struct {
	Tenant    rhumb.Tenant     `json:"tenant"`
	Namespace rhumb.Namespace  `json:"namespace"`
	Topic     rhumb.TopicName  `json:"topic,omitempty"`
	From      rhumb.RegionName `json:"from"`
	To        rhumb.RegionName `json:"to"`
	Forward   bool             `json:"forward,omitempty"`
	Gone      bool             `json:"gone,omitempty"`
	Start     Start            `json:"start"`
	Rate      int64            `json:"rate,omitempty"`
}

// Edge gives the one that the change is about: as it will be, or was.
func (c EdgeChange) Edge() PlanEdge {
	if c.After != nil {
		return *c.After
	}
	return *c.Before
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Steps) == 0 }

// stand is what a plan starts from: all documents of policy, read at one go.
type stand struct {
	shown *picture
	docs  map[string]Document
}

// readStand reads the documents of regions, tenants, namespaces and topics. One that
// this version does not take is an error: to plan without it would plan its loss.
func (w *Writer) readStand(ctx context.Context) (stand, error) {
	s := stand{newPicture(), map[string]Document{}}
	for _, prefix := range []string{RegionsPrefix, TenantsPrefix, NamespacesPrefix, TopicsPrefix} {
		docs, err := w.store.List(ctx, prefix)
		if err != nil {
			return s, err
		}
		for _, d := range docs {
			if err := s.shown.put(d); err != nil {
				return s, err
			}
			s.docs[d.Key] = d
		}
	}
	s.shown.link()
	return s, nil
}

// base gives what a plan says of a document.
func (s stand) base(key string) PlanBase {
	d := s.docs[key]
	return PlanBase{key, d.Version, d.UpdatedBy, d.Deleted, d.Who()}
}

// PlanTopology gives what applying a file would do now. With prune, tenants,
// namespaces and policies of topics that the file does not name are removed;
// without, they stay as they are. A refusal names the field of the file.
func (w *Writer) PlanTopology(ctx context.Context, f *TopologyFile, prune bool) (*Plan, error) {
	ctx, cancel := w.patient(ctx)
	defer cancel()
	if err := w.guard(ctx, ""); err != nil {
		return nil, err
	}
	now, err := w.readStand(ctx)
	if err != nil {
		return nil, err
	}
	next := wanted(now.shown, f, prune)
	if err := next.check(now.shown, f); err != nil {
		return nil, err
	}
	if err := w.mayPlan(now.shown, next, f, prune); err != nil {
		return nil, err
	}
	p := &Plan{Base: basesOf(now, f, prune), Steps: stepsTo(now.shown, next), Edges: edgeChanges(effectiveEdges(now.shown, next))}
	p.Warnings = slices.Concat(likeWarnings(now.shown, f), warningsOf(now.shown, next), removedWarnings(next, f))
	if p.Warnings == nil {
		p.Warnings = []string{}
	}
	return p, nil
}

// basesOf lists what a plan rests on, by key.
func basesOf(now stand, f *TopologyFile, all bool) []PlanBase {
	keys := map[string]bool{}
	named := func(t *Topology) { // a region may drain, or be another one of that name
		for _, r := range t.Regions() {
			keys[RegionKey(r)] = true
		}
	}
	for _, t := range f.Tenants {
		keys[TenantKey(t.Name)] = true
		for _, n := range t.Namespaces {
			keys[NamespaceKey(n.Tenant, n.Name)] = true
			named(n.Topology)
			for _, topic := range n.Topics {
				keys[TopicKey(topic.Topic)] = true
				named(topic.Topology)
			}
		}
	}
	for _, t := range now.shown.tenants {
		keys[TenantKey(t.Name)] = keys[TenantKey(t.Name)] || all
	}
	for _, n := range now.shown.namespaces {
		key := NamespaceKey(n.Tenant, n.Name)
		keys[key] = keys[key] || all
	}
	for _, t := range now.shown.topics {
		key := TopicKey(t.Topic)
		keys[key] = keys[key] || all && t.HasPolicy()
	}
	out := []PlanBase{}
	for key, in := range keys {
		if in {
			out = append(out, now.base(key))
		}
	}
	slices.SortFunc(out, func(a, b PlanBase) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// wanted gives the picture that a file asks for, with its edges.
func wanted(now *picture, f *TopologyFile, prune bool) *picture {
	next := now.clone()
	if prune {
		clear(next.tenants)
		clear(next.namespaces)
		for name, t := range next.topics {
			t.Topology, t.Retention = nil, nil
			next.topics[name] = t
		}
	}
	for _, t := range f.Tenants {
		doc := now.tenants[t.Name]
		doc.Name = t.Name
		if t.AllowedRegions != nil || prune {
			doc.AllowedRegions = t.AllowedRegions
		}
		if t.AdminRoles != nil || prune {
			doc.AdminRoles = t.AdminRoles
		}
		next.tenants[t.Name] = doc
		for _, n := range t.Namespaces {
			doc := n.Namespace
			before := now.namespaces[namespaceName{n.Tenant, n.Name}]
			doc.Meta, doc.Generation = before.Meta, before.Generation
			next.namespaces[namespaceName{n.Tenant, n.Name}] = doc
			for _, topic := range n.Topics {
				doc := now.topics[topic.Topic]
				doc.Topic, doc.Topology, doc.Retention = topic.Topic, topic.Topology, topic.Retention
				next.topics[topic.Topic] = doc
			}
		}
	}
	next.link()
	return next
}

// check refuses what a mesh cannot be, by the field of the file that asks for it. What
// documents say already of regions that were removed since may stay.
func (p *picture) check(now *picture, f *TopologyFile) error {
	var wrong refusals
	a := allowances{Regions: map[rhumb.RegionName]Region{}}
	for _, r := range p.sorted {
		a.Regions[r.Name] = r
	}
	for _, t := range sortedValues(f.Tenants, func(x, y FileTenant) int { return cmp.Compare(x.Name, y.Name) }) {
		for _, at := range placesOf(tenantPath(t.Name)+".allowed_regions", t.AllowedRegions) {
			if _, ok := a.Regions[at.region]; !ok && !slices.Contains(now.tenants[t.Name].AllowedRegions, at.region) {
				wrong.add(invalid(at.field, "region %q is not registered%s", string(at.region), a.nearest(at.region)))
			}
		}
		tenant := p.tenants[t.Name]
		a.Tenant = &tenant
		for _, n := range sortedValues(t.Namespaces, func(x, y FileNamespace) int { return cmp.Compare(x.Name, y.Name) }) {
			before := now.namespaces[namespaceName{n.Tenant, n.Name}]
			wrong.add(under(namespacePath(t.Name, n.Name), a.checkPlaces(t.Name, n.places(), before.places())))
			for _, topic := range sortedValues(n.Topics, func(x, y Topic) int { return compareKeys(&x, &y) }) {
				wrong.add(under(topicPath(topic.Topic), a.checkPlaces(t.Name, topic.Topology.places(), now.topics[topic.Topic].Topology.places())))
			}
		}
		wrong.add(p.checkOthers(now, &tenant, &t))
	}
	return wrong.err()
}

// checkOthers refuses to take a region away from a tenant that what the file does
// not name needs, or what it names where it is a region that was removed: of the others
// checkPlaces has told.
func (p *picture) checkOthers(now *picture, t *Tenant, f *FileTenant) error {
	var r refusals
	refuse := func(what string, named bool, places, had []place) {
		for _, at := range places {
			region, there := p.regions[at.region]
			told := named && (there && !region.Deleted || !slices.Contains(had, at))
			if !t.Allows(at.region) && !told {
				r.add(invalid(tenantPath(t.Name)+".allowed_regions", "%s names region %q, and the file does not change that", what, string(at.region)))
			}
		}
	}
	for _, n := range sortedValues(p.namespaces, func(x, y Namespace) int { return compareKeys(&x, &y) }) {
		if n.Tenant == t.Name {
			_, named := f.Namespaces[n.Name]
			before := now.namespaces[namespaceName{n.Tenant, n.Name}]
			refuse("namespace "+string(n.Tenant)+"/"+string(n.Name), named, n.places(), before.places())
		}
	}
	for _, topic := range sortedValues(p.topics, func(x, y Topic) int { return compareKeys(&x, &y) }) {
		if topic.Topic.Tenant == t.Name {
			_, named := f.Namespaces[topic.Topic.Namespace].Topics[topic.Topic.Name]
			refuse("topic "+pathOf(topic.Topic), named, topic.Topology.places(), now.topics[topic.Topic].Topology.places())
		}
	}
	return r.err()
}

// effectiveEdges gives the edges of two pictures. Where a topic has a topology of its own in
// one of them, the other has the edges of its namespace under the topic's name: it is
// those that its own topology replaces.
func effectiveEdges(before, after *picture) (b, a []Edge) {
	own := map[rhumb.Topic]bool{}
	for _, p := range []*picture{before, after} {
		for name, t := range p.topics {
			own[name] = own[name] || t.Topology != nil
		}
	}
	return before.edgesOf(own), after.edgesOf(own)
}

// edgesOf gives the edges, and those that topics have from their namespace once more for
// each such topic of own.
func (p *picture) edgesOf(own map[rhumb.Topic]bool) []Edge {
	out := slices.Clone(p.edges)
	for name, in := range own {
		if !in || p.topics[name].Topology != nil {
			continue
		}
		for _, e := range p.edges {
			if e.Topic == "" && e.Tenant == name.Tenant && e.Namespace == name.Namespace {
				e.Topic = name.Name
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, compareEdges)
	return out
}

func edgeChanges(before, after []Edge) []EdgeChange {
	out := []EdgeChange{}
	for i, k := 0, 0; i < len(before) || k < len(after); {
		order := 0
		switch {
		case i == len(before):
			order = 1
		case k == len(after):
			order = -1
		default:
			order = compareEdges(before[i], after[k])
		}
		switch {
		case order < 0:
			out = append(out, EdgeChange{ActionRemove, planEdge(before[i]), nil})
			i++
		case order > 0:
			out = append(out, EdgeChange{ActionAdd, nil, planEdge(after[k])})
			k++
		default:
			if before[i] != after[k] {
				out = append(out, EdgeChange{ActionChange, planEdge(before[i]), planEdge(after[k])})
			}
			i, k = i+1, k+1
		}
	}
	return out
}

func planEdge(e Edge) *PlanEdge {
	p := PlanEdge(e)
	return &p
}
