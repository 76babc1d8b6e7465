package admin

// Routes gives "METHOD /path" of every call, for the test against openapi.yaml.
func Routes(s *Server) (names []string) {
	for _, r := range s.routes {
		names = append(names, r.method+" "+r.path)
	}
	return names
}
