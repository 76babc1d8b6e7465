package admin

// Routes gives "METHOD /path" of every call, for the test against openapi.yaml.
func Routes(s *Server) (names []string) {
	for _, r := range s.routes {
		names = append(names, r.method+" "+r.path)
	}
	return names
}

// RouteRoles gives the least role of every call, "" for those that are open and
// "none" for those that do not say.
func RouteRoles(s *Server) map[string]string {
	roles := map[string]string{}
	for _, r := range s.routes {
		roles[r.method+" "+r.path] = r.role.String()
		if r.open && r.role == 0 {
			roles[r.method+" "+r.path] = ""
		}
	}
	return roles
}

// RouteReaches gives how far every call goes for who administers tenants only: path,
// scoped, or empty if it is not for them.
func RouteReaches(s *Server) map[string]string {
	reaches := map[string]string{}
	for _, r := range s.routes {
		reaches[r.method+" "+r.path] = r.tenant.String()
	}
	return reaches
}

// RememberedAddresses is how many addresses' wrong tokens are remembered.
func RememberedAddresses(s *Server) int { return s.failed.size() }

// Changes gives "METHOD /path" of every call that has audit lines.
func Changes(s *Server) (names []string) {
	for _, r := range s.routes {
		if r.change {
			names = append(names, r.method+" "+r.path)
		}
	}
	return names
}

// RoleOf gives the role of who shows a secret.
func (t *Tokens) RoleOf(secret string) Role {
	who, _ := t.find(secret)
	return who.role
}
