package admin_test

import (
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin"
)

// TestEveryRouteNamesItsRole holds the table of calls against openapi.yaml: a call
// says who may make it at least, in both places.
func TestEveryRouteNamesItsRole(t *testing.T) {
	s := newServer(t, sample(t).Config())
	doc := parseDocument(t, do(s.Handler(), "GET", "/admin/v1/openapi.yaml", "").Body.Bytes())
	operations := doc.operations(t)
	for name, reach := range admin.RouteReaches(s) {
		if told := operations[name].Tenant; told != reach {
			t.Errorf("%s: for who administers a tenant the server says %q, openapi.yaml x-tenant %q", name, reach, told)
		}
	}
	for name, role := range admin.RouteRoles(s) {
		if role == "none" {
			t.Errorf("%s names no role: give its row in routes.go one, and x-role in openapi.yaml", name)
		}
		if told := operations[name].Role; told != role {
			t.Errorf("%s: the server asks for role %q, openapi.yaml says x-role %q", name, role, told)
		}
	}
}

func TestRolesAreReadAndWritten(t *testing.T) {
	for _, r := range []admin.Role{admin.RoleTenant, admin.RoleViewer, admin.RoleOperator, admin.RoleAdmin} {
		if back, err := admin.ParseRole(r.String()); err != nil || back != r {
			t.Errorf("%s reads as %s, %v", r, back, err)
		}
	}
	for _, text := range []string{"", "none", "Admin", "root"} {
		if r, err := admin.ParseRole(text); err == nil {
			t.Errorf("%q reads as %s", text, r)
		}
	}
}
