package configstore

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Tenant is the document of one tenant.
type Tenant struct {
	Meta
	// Name is the tenant's name; it is in the key.
	Name rhumb.Tenant `json:"-"`
	// AllowedRegions are the regions that namespaces of this tenant may name.
	// nil (absent): every region of the mesh, also those that come later.
	// Empty: none, so every namespace stays local.
	AllowedRegions []rhumb.RegionName `json:"allowed_regions,omitzero"`
	// AdminRoles are the callers of the HTTP API, by the names of their tokens or
	// certificates, who administer this tenant: its namespaces and topics, not the
	// tenant itself ([Writer.Within]).
	AdminRoles []string `json:"admin_roles,omitzero"`
}

// Bounds of a tenant's admin roles.
const (
	MaxAdminRoles     = 64
	MaxAdminRoleBytes = 256
)

// Administers reports whether a caller of that name administers the tenant.
func (t *Tenant) Administers(name string) bool { return slices.Contains(t.AdminRoles, name) }

// Allows reports whether namespaces of the tenant may name the region.
func (t *Tenant) Allows(region rhumb.RegionName) bool {
	return t.AllowedRegions == nil || slices.Contains(t.AllowedRegions, region)
}

func (t *Tenant) validate() error {
	var r refusals
	r.add(validateRegionList("allowed_regions", t.AllowedRegions))
	if len(t.AdminRoles) > MaxAdminRoles {
		r.add(invalid("admin_roles", "has %d, at most %d are allowed", len(t.AdminRoles), MaxAdminRoles))
		return r.err()
	}
	for i, name := range t.AdminRoles {
		at := "admin_roles[" + strconv.Itoa(i) + "]"
		switch {
		case name == "" || len(name) > MaxAdminRoleBytes || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl):
			r.add(invalid(at, "must be the name of a token or certificate, of 1 to %d bytes, not %q", MaxAdminRoleBytes, name))
		case slices.Contains(t.AdminRoles[:i], name):
			r.add(invalid(at, "%q stands twice", name))
		}
	}
	return r.err()
}

// validateRegionList checks names and that none stands twice.
func validateRegionList(field string, list []rhumb.RegionName) error {
	var r refusals
	seen := make(map[rhumb.RegionName]bool, len(list))
	for i, name := range list {
		at := field + "[" + strconv.Itoa(i) + "]"
		if err := name.Validate(); err != nil {
			r.add(invalid(at, "%v", err))
		} else if seen[name] {
			r.add(invalid(at, "region %q stands twice", string(name)))
		}
		seen[name] = true
	}
	return r.err()
}
