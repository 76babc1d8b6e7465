package configstore

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Scope says how far something reaches: one region or the whole mesh.
type Scope string

// The scopes.
const (
	ScopeRegion Scope = "region"
	ScopeMesh   Scope = "mesh"
)

// Namespace is the document of one namespace: the unit of policy.
type Namespace struct {
	Meta
	// Tenant and Name are in the key.
	Tenant rhumb.Tenant    `json:"-"`
	Name   rhumb.Namespace `json:"-"`
	// Topology says where the namespace flows. nil (absent): nobody decided, it
	// stays local. A shape with an empty list: somebody decided that it stays
	// local.
	Topology *Topology `json:"topology,omitzero"`
	// Generation counts how often the active region of the namespace changed. It is
	// the [Writer]'s: a document that a person stores leaves it out. It outlives the
	// shape and the namespace, because it fences the past.
	Generation uint64 `json:"generation,omitzero"`
	// Retention of its topics. nil: what the region's own config says.
	Retention *Retention `json:"retention,omitzero"`
	// Regions has what differs in single regions.
	Regions map[rhumb.RegionName]RegionPolicy `json:"regions,omitzero"`
	// Backlog says how long retention waits for regions that lack records. nil: what
	// the region's own config says, then a gap.
	Backlog *Backlog `json:"backlog,omitzero"`
	// Limits bound what its topics may be in each region. nil: only the region's own
	// limits count.
	Limits *Limits `json:"limits,omitzero"`
	// DeleteScope says what deleting a topic of a replicated namespace deletes.
	// Empty: ScopeMesh. See [Namespace.Deletes].
	DeleteScope Scope `json:"delete_scope,omitzero"`
	// Dedup says where a producer's retries are recognised. Empty: ScopeRegion,
	// the only one of this version.
	Dedup Scope `json:"dedup,omitzero"`
}

// Retention bounds what a topic keeps. A nil field leaves that bound to the
// region's config; -1 is no bound.
type Retention struct {
	Milliseconds *int64 `json:"ms,omitzero"`
	Bytes        *int64 `json:"bytes,omitzero"`
}

// RegionPolicy is what a namespace says of one region alone.
type RegionPolicy struct {
	// Retention there. A field that is nil leaves that bound to the namespace's.
	Retention *Retention `json:"retention,omitzero"`
}

// RetentionIn gives what the namespace says of retention in a region: of each
// bound what it says of that region, else of all. nil: nothing is said.
func (n *Namespace) RetentionIn(region rhumb.RegionName) (ms, bytes *int64) {
	there := n.Regions[region].Retention.or(n.Retention)
	return there.Milliseconds, there.Bytes
}

// or gives what r says, and what o says where r says nothing.
func (r *Retention) or(o *Retention) Retention {
	var out Retention
	if r != nil {
		out = *r
	}
	if o != nil {
		out.Milliseconds = cmp.Or(out.Milliseconds, o.Milliseconds)
		out.Bytes = cmp.Or(out.Bytes, o.Bytes)
	}
	return out
}

func (r *Retention) validate(field string) error {
	if r == nil {
		return nil
	}
	var wrong refusals
	if r.Milliseconds != nil && *r.Milliseconds < -1 {
		wrong.add(invalid(field+".ms", "must be -1 (no limit) or milliseconds, not %d", *r.Milliseconds))
	}
	if r.Bytes != nil && *r.Bytes < -1 {
		wrong.add(invalid(field+".bytes", "must be -1 (no limit) or bytes, not %d", *r.Bytes))
	}
	return wrong.err()
}

// Active gives the region that takes producers, where the namespace has roles;
// empty if every region does.
func (n *Namespace) Active() rhumb.RegionName {
	if n.Topology == nil || n.Topology.ActiveStandby == nil {
		return ""
	}
	return n.Topology.ActiveStandby.Active
}

// Deletes gives the scope of a topic's deletion.
func (n *Namespace) Deletes() Scope {
	if n.DeleteScope == "" {
		return ScopeMesh
	}
	return n.DeleteScope
}

func (n *Namespace) validate() error {
	var r refusals
	switch n.DeleteScope {
	case "", ScopeRegion, ScopeMesh:
	default:
		r.add(invalid("delete_scope", "must be mesh or region, not %q", string(n.DeleteScope)))
	}
	switch n.Dedup {
	case "", ScopeRegion:
	case ScopeMesh:
		r.add(unbuilt("dedup", "mesh is not supported by this version: use region"))
	default:
		r.add(invalid("dedup", "must be region, not %q", string(n.Dedup)))
	}
	r.add(n.Retention.validate("retention"))
	for _, name := range slices.Sorted(maps.Keys(n.Regions)) {
		if err := name.Validate(); err != nil {
			r.add(invalid("regions."+string(name), "%v", err))
		}
		r.add(n.Regions[name].Retention.validate("regions." + string(name) + ".retention"))
	}
	r.add(n.Backlog.validate())
	r.add(n.Limits.validate())
	if n.Topology != nil {
		r.add(n.Topology.validate())
	}
	return r.err()
}

// allowances is what a namespace's regions are checked against.
type allowances struct {
	Tenant  *Tenant                     // nil: there is no such tenant
	Regions map[rhumb.RegionName]Region // registered ones, without tombstones
	like    string                      // tenants that may have been meant, where there is no such one
}

// refusal says why a namespace may not name the region; empty if it may.
func (a allowances) refusal(region rhumb.RegionName) string {
	switch _, registered := a.Regions[region]; {
	case !registered:
		return "region " + strconv.Quote(string(region)) + " is not registered"
	case a.Tenant == nil:
		return "its tenant does not exist"
	case !a.Tenant.Allows(region):
		return "tenant " + strconv.Quote(string(a.Tenant.Name)) + " does not allow region " + strconv.Quote(string(region))
	}
	return ""
}

// checkPlaces refuses a document of a tenant that names what it may not. had is what
// the stored document names: where it names a region that was removed since, it may
// go on doing so, which has no effect until the name comes back, and be changed
// elsewhere.
func (a allowances) checkPlaces(tenant rhumb.Tenant, places, had []place) error {
	if a.Tenant == nil {
		return invalid("tenant", "tenant %q does not exist%s", string(tenant), a.like)
	}
	var r refusals
	for _, p := range places {
		if _, registered := a.Regions[p.region]; !registered && slices.Contains(had, p) {
			continue
		}
		if why := a.refusal(p.region); why != "" {
			r.add(invalid(p.field, "%s%s", why, a.nearest(p.region)))
		}
	}
	return r.err()
}

// nearest gives the registered regions that somebody may have meant, as the end of a
// refusal; empty if the region is one.
func (a allowances) nearest(region rhumb.RegionName) string {
	if _, registered := a.Regions[region]; registered {
		return ""
	}
	return nearestRegion(region, a.Regions)
}

func nearestRegion(region rhumb.RegionName, registered map[rhumb.RegionName]Region) string {
	names := slices.Collect(maps.Keys(registered))
	return nearest.Hint(string(region), names, func(n *rhumb.RegionName) string { return string(*n) })
}

// places gives every region that the namespace names, with its field.
func (n *Namespace) places() []place {
	out := n.Topology.places()
	for _, name := range slices.Sorted(maps.Keys(n.Regions)) {
		out = append(out, place{"regions." + string(name), name})
	}
	return out
}

// names reports whether the namespace names the region.
func (n *Namespace) names(region rhumb.RegionName) bool {
	_, own := n.Regions[region]
	return own || n.Topology.names(region)
}
