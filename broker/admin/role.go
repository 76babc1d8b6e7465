package admin

import (
	"fmt"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Role says how much a caller may do. A higher one may do all that a lower one
// may. The zero Role is none.
type Role uint8

// The roles, from the least to the most.
const (
	// RoleTenant may nothing but what tenants let it, whose documents name it in
	// admin_roles: a caller of a higher role may that, too.
	RoleTenant Role = iota + 1
	// RoleViewer sees states, figures and documents, never records or users.
	RoleViewer
	// RoleOperator also works with topics, records and links.
	RoleOperator
	// RoleAdmin also changes policy: tenants, namespaces, users, regions, topologies.
	RoleAdmin
)

var roleNames = map[Role]string{RoleTenant: "tenant", RoleViewer: "viewer", RoleOperator: "operator", RoleAdmin: "admin"}

// String gives the role's word; "none" for no role.
func (r Role) String() string {
	if name, known := roleNames[r]; known {
		return name
	}
	return "none"
}

// ParseRole reads a role's word.
func ParseRole(text string) (Role, error) {
	for role, name := range roleNames {
		if name == text {
			return role, nil
		}
	}
	return 0, rhumb.Errorf(rhumb.KindInvalid, "%q is no role: want tenant, viewer, operator or admin", text)
}

// caller is who makes a request.
type caller struct {
	name   string // for the audit line: of a token or certificate, or how it came
	role   Role
	cert   string // subject of its certificate; empty: it came with none
	within scope  // his tenants, where his role does not suffice; nil: the whole mesh
}

// mayCall refuses a caller whose role is below the route's. A route that names no
// role is the admin's alone.
func (c caller) mayCall(rt route) error {
	least := rt.role
	if least == 0 {
		least = RoleAdmin
	}
	if c.role >= least {
		return nil
	}
	if c.role == 0 {
		return rhumb.Errorf(rhumb.KindForbidden, "the certificate of %s has no role here: issue one with 'rhumb certs issue --client --role', or give its subject, %s, a role in admin.certificates in the region's file", c.name, c.cert)
	}
	if c.role == RoleTenant && rt.tenant != reachNone {
		return rhumb.Errorf(rhumb.KindForbidden, "%s has the role %s, and no tenant names it in admin_roles: an admin of the mesh does that", c.name, c.role)
	}
	return rhumb.Errorf(rhumb.KindForbidden, "%s has the role %s, and %s %s needs %s: come with a token or certificate of that role",
		c.name, c.role, rt.method, rt.path, atLeast(least))
}

// atLeast names a role and those above it.
func atLeast(least Role) string {
	var all []string
	for r := least; r <= RoleAdmin; r++ {
		all = append(all, fmt.Sprint(r))
	}
	return strings.Join(all, " or ")
}
