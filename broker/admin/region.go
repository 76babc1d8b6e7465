package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// region answers GET /region.
func (s *Server) region(r *http.Request) (any, error) {
	id := s.cfg.Identity
	out := api.Region{Name: id.Name, Number: id.Number, Mesh: id.Mesh, Cluster: id.Cluster, Data: id.Data, Node: id.Node,
		Version: s.cfg.Version, Health: s.health(), Drain: s.drain(), Highest: id.Number}
	if s.cfg.Members != nil {
		out.Highest = max(out.Highest, s.cfg.Members.Highest())
	}
	return scopeOf(r).region(out), nil
}

// regions answers GET /regions.
func (s *Server) regions(r *http.Request) (any, error) {
	list := api.RegionList{Regions: []api.RegionEntry{}}
	documents := map[rhumb.RegionName]*configstore.Region{}
	if s.cfg.Members != nil && scopeOf(r) == nil {
		for _, doc := range s.cfg.Members.Regions() {
			documents[doc.Name] = &doc
		}
	}
	for _, e := range s.mesh() {
		entry := api.RegionEntry{Name: e.Name, Number: e.Number, State: e.State, Admin: []string{}, Document: documents[e.Name]}
		for _, a := range e.Admin {
			entry.Admin = append(entry.Admin, s.adminURL(a))
		}
		list.Regions = append(list.Regions, entry)
	}
	return list, nil
}

// mesh gives all known regions, by number.
func (s *Server) mesh() []RegionEntry {
	var all []RegionEntry
	if s.cfg.Regions != nil {
		all = slices.Clone(s.cfg.Regions())
	}
	if !slices.ContainsFunc(all, func(e RegionEntry) bool { return e.Name == s.cfg.Identity.Name }) {
		all = append(all, RegionEntry{Name: s.cfg.Identity.Name, Number: s.cfg.Identity.Number, State: "active"})
	}
	slices.SortFunc(all, func(a, b RegionEntry) int { return int(a.Number) - int(b.Number) })
	return all
}

// adminURL makes a URL of an address without a scheme. All regions of a mesh are
// taken to use TLS on their admin API if this one does.
func (s *Server) adminURL(addr string) string {
	if strings.Contains(addr, "://") {
		return addr
	}
	if s.cfg.TLS != nil {
		return "https://" + addr
	}
	return "http://" + addr
}

// namer gives the names of region numbers as they are known now.
func (s *Server) namer() func(rhumb.RegionNumber) rhumb.RegionName {
	names := map[rhumb.RegionNumber]rhumb.RegionName{}
	for _, e := range s.mesh() {
		names[e.Number] = e.Name
	}
	return func(n rhumb.RegionNumber) rhumb.RegionName { return names[n] }
}

// edges answers GET /edges.
func (s *Server) edges(r *http.Request) (any, error) {
	list, scope := api.EdgeList{Edges: []api.Edge{}}, scopeOf(r)
	if s.cfg.Edges != nil {
		for _, e := range s.cfg.Edges() {
			if scope.covers(e.Tenant) {
				list.Edges = append(list.Edges, api.Edge(e))
			}
		}
	}
	if s.cfg.Documents != nil {
		for _, t := range s.cfg.Documents.TopicDocs() {
			if t.Topology != nil && scope.covers(t.Topic.Tenant) {
				list.OwnTopology = append(list.OwnTopology, t.Topic.String())
			}
		}
	}
	return list, nil
}

// health asks the node for its health.
func (s *Server) health() api.Health {
	h := Health{Live: true, Ready: true}
	if s.cfg.Health != nil {
		h = s.cfg.Health()
	}
	out := api.Health{Live: h.Live, Ready: h.Ready, Problems: []api.Problem{}}
	for _, p := range h.Problems {
		out.Problems = append(out.Problems, api.Problem(p))
	}
	return out
}

// healthz answers whether the process lives; orchestrators restart it if not.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return s.answerHealth(w, s.health().Live)
}

// readyz answers whether the node takes requests now.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) error {
	return s.answerHealth(w, s.health().Ready && s.stopping.Err() == nil)
}

// answerHealth gives no details: these calls are open to everybody, and
// GET /region says the rest. Only which process answers is told: a second one of
// the same region asks that before it starts.
func (s *Server) answerHealth(w http.ResponseWriter, good bool) error {
	status, word := http.StatusOK, "ok"
	if !good {
		status, word = http.StatusServiceUnavailable, "not ok"
	}
	id := s.cfg.Identity
	writeJSON(w, status, api.Status{Status: word, Region: id.Name, Data: id.Data, Boot: id.Boot})
	return nil
}
