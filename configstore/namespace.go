package configstore

import (
	"strconv"

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
	// Retention of its topics. nil: what the region's own config says.
	Retention *Retention `json:"retention,omitzero"`
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

// Deletes gives the scope of a topic's deletion.
func (n *Namespace) Deletes() Scope {
	if n.DeleteScope == "" {
		return ScopeMesh
	}
	return n.DeleteScope
}

func (n *Namespace) validate() error {
	switch n.DeleteScope {
	case "", ScopeRegion, ScopeMesh:
	default:
		return invalid("delete_scope", "must be mesh or region, not %q", string(n.DeleteScope))
	}
	switch n.Dedup {
	case "", ScopeRegion:
	case ScopeMesh:
		return unbuilt("dedup", "mesh is not supported by this version: use region")
	default:
		return invalid("dedup", "must be region, not %q", string(n.Dedup))
	}
	if r := n.Retention; r != nil {
		if r.Milliseconds != nil && *r.Milliseconds < -1 {
			return invalid("retention.ms", "must be -1 (no limit) or milliseconds, not %d", *r.Milliseconds)
		}
		if r.Bytes != nil && *r.Bytes < -1 {
			return invalid("retention.bytes", "must be -1 (no limit) or bytes, not %d", *r.Bytes)
		}
	}
	if n.Topology == nil {
		return nil
	}
	return n.Topology.validate()
}

// allowances is what a namespace's regions are checked against.
type allowances struct {
	Tenant  *Tenant                     // nil: there is no such tenant
	Regions map[rhumb.RegionName]Region // registered ones, without tombstones
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

// check refuses a namespace that names what it may not.
func (a allowances) check(n *Namespace) error {
	if a.Tenant == nil {
		return invalid("tenant", "tenant %q does not exist", string(n.Tenant))
	}
	if n.Topology == nil {
		return nil
	}
	for i, region := range n.Topology.FullMesh {
		if why := a.refusal(region); why != "" {
			return invalid("topology.full-mesh["+strconv.Itoa(i)+"]", "%s", why)
		}
	}
	return nil
}
