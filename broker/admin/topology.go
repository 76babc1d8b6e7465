package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// topologyExport answers GET /topology.
func (s *Server) topologyExport(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	tenants := slices.DeleteFunc(docs.Tenants(), func(t configstore.Tenant) bool { return !scopeOf(r).covers(t.Name) })
	return configstore.ExportTopology(tenants, docs.Namespaces(), docs.TopicDocs()), nil
}

// pruning reads ?prune.
func pruning(r *http.Request) (bool, error) {
	text := r.URL.Query().Get("prune")
	if text == "" {
		return false, nil
	}
	prune, err := strconv.ParseBool(text)
	if err != nil {
		return false, rhumb.Errorf(rhumb.KindInvalid, "prune=%s: want true or false", text)
	}
	return prune, nil
}

// topologyPlan answers POST /topology/plan.
func (s *Server) topologyPlan(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	prune, err := pruning(r)
	if err != nil {
		return nil, err
	}
	file, err := document(r, func(text []byte) (*configstore.TopologyFile, error) { return configstore.ReadTopologyFile(text) })
	if err != nil {
		return nil, err
	}
	return writer(r, docs).PlanTopology(r.Context(), file, prune)
}

// topologyApply answers POST /topology/apply.
func (s *Server) topologyApply(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	prune, err := pruning(r)
	if err != nil {
		return nil, err
	}
	req, err := document(r, func(text []byte) (req api.TopologyApply, err error) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&req); err != nil {
			return req, rhumb.Errorf(rhumb.KindInvalid, "request body: %w", err)
		}
		return req, nil
	})
	if err != nil {
		return nil, err
	}
	file, err := configstore.ReadTopologyFile(req.File)
	if err != nil {
		return nil, err
	}
	return writer(r, docs).ApplyTopology(r.Context(), file, prune, req.Base)
}
