package admin

import (
	"context"
	"net/http"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ConfigStore is what the API needs of the configuration store as a whole.
type ConfigStore interface {
	// Status says how the region stands to the store.
	Status() configstore.Status
	// Restore puts the region's copies back into a store that went back.
	Restore(ctx context.Context, by string, dry bool) ([]configstore.Restored, error)
}

func (s *Server) configStore() (ConfigStore, error) {
	if s.cfg.ConfigStore == nil {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "this node follows no configuration store")
	}
	return s.cfg.ConfigStore, nil
}

// configStatus answers GET /config.
func (s *Server) configStatus(*http.Request) (any, error) {
	store, err := s.configStore()
	if err != nil {
		return nil, err
	}
	st := store.Status()
	out := api.ConfigStatus{
		Region: s.cfg.Identity.Name, Mesh: s.cfg.Identity.Mesh, State: st.State.String(), Since: millis(st.Since), LastRead: millis(st.LastRead),
		Error: text(st.Err), KeepError: text(st.KeepErr), Documents: st.Documents, Digest: st.Digest,
		CaughtByReread: st.CaughtByReread, Problems: []api.ConfigProblem{},
	}
	for _, p := range st.Problems {
		out.Problems = append(out.Problems, api.ConfigProblem(p))
	}
	return out, nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// configRestore answers POST /config/restore.
func (s *Server) configRestore(r *http.Request) (any, error) {
	store, err := s.configStore()
	if err != nil {
		return nil, err
	}
	var req api.ConfigRestoreRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	done, err := store.Restore(r.Context(), "region "+string(s.cfg.Identity.Name), req.DryRun)
	changes(r, "configuration store, %d documents, dry run %t", len(done), req.DryRun)
	if err != nil {
		return nil, err
	}
	out := api.ConfigRestore{Region: s.cfg.Identity.Name, Done: !req.DryRun, Restored: []api.ConfigRestored{}}
	for _, d := range done {
		one := api.ConfigRestored{Key: d.Key, Had: d.Had, HadBy: d.HadBy, HadCaller: d.HadCaller, Version: d.Version}
		if d.Had > 0 {
			one.HadAt = d.HadAt.UnixMilli()
		}
		out.Restored = append(out.Restored, one)
	}
	return out, nil
}
