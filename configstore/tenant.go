package configstore

import (
	"slices"
	"strconv"

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
}

// Allows reports whether namespaces of the tenant may name the region.
func (t *Tenant) Allows(region rhumb.RegionName) bool {
	return t.AllowedRegions == nil || slices.Contains(t.AllowedRegions, region)
}

func (t *Tenant) validate() error { return validateRegionList("allowed_regions", t.AllowedRegions) }

// validateRegionList checks names and that none stands twice.
func validateRegionList(field string, list []rhumb.RegionName) error {
	seen := make(map[rhumb.RegionName]bool, len(list))
	for i, name := range list {
		at := field + "[" + strconv.Itoa(i) + "]"
		if err := name.Validate(); err != nil {
			return invalid(at, "%v", err)
		}
		if seen[name] {
			return invalid(at, "region %q stands twice", string(name))
		}
		seen[name] = true
	}
	return nil
}
