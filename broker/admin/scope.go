package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// reach says how far a call goes for who administers tenants and has no role, or too
// low a one, in the mesh. A call that says nothing is not for them.
type reach uint8

const (
	reachNone   reach = iota
	reachPath         // the tenant that the path names: it must be one of theirs
	reachScoped       // the call looks at the request's scope itself
)

// String gives the word of openapi.yaml's x-tenant, empty for none.
func (t reach) String() string {
	switch t {
	case reachPath:
		return "path"
	case reachScoped:
		return "scoped"
	}
	return ""
}

// scope is the tenants that a request may be about. nil: the whole mesh.
type scope map[rhumb.Tenant]bool

// scopeKey is where a request's scope is, in its context.
type scopeKey struct{}

func scopeOf(r *http.Request) scope {
	s, _ := r.Context().Value(scopeKey{}).(scope)
	return s
}

func withScope(r *http.Request, s scope) *http.Request {
	if s == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), scopeKey{}, s))
}

// covers reports whether the scope has a tenant.
func (s scope) covers(t rhumb.Tenant) bool { return s == nil || s[t] }

// check refuses a tenant that the scope has not, whether it exists or not.
func (s scope) check(t rhumb.Tenant) error {
	if s.covers(t) {
		return nil
	}
	return rhumb.Errorf(rhumb.KindForbidden, "you administer %s, not tenant %q", s.words(), string(t))
}

func (s scope) names() []rhumb.Tenant {
	var all []rhumb.Tenant
	for t := range s {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}

func (s scope) words() string {
	if len(s) == 1 {
		return "tenant " + s.list()
	}
	return "tenants " + s.list()
}

// maxListed bounds the names in a header and in messages.
const maxListed = 50

// list gives the names with commas between them; of very many the first ones, and an
// ellipsis.
func (s scope) list() string {
	var all []string
	for _, t := range s.names() {
		if len(all) == maxListed {
			all = append(all, "...")
			break
		}
		all = append(all, string(t))
	}
	return strings.Join(all, ", ")
}

// within gives the scope of a caller who may not make the call in the whole mesh, or
// refused, which says why, if none of his tenants lets him.
func (s *Server) within(rt route, r *http.Request, who caller, refused error) (scope, error) {
	if rt.tenant == reachNone || who.role == 0 || s.cfg.Documents == nil {
		return nil, refused
	}
	own := scope{}
	for _, t := range s.cfg.Documents.Tenants() {
		if t.Administers(who.name) {
			own[t.Name] = true
		}
	}
	if len(own) == 0 {
		return nil, refused
	}
	if rt.tenant == reachPath {
		return own, own.check(rhumb.Tenant(r.PathValue("tenant")))
	}
	return own, nil
}

// writer gives what changes documents as far as the request may.
func writer(r *http.Request, docs Documents) *configstore.Writer {
	if s := scopeOf(r); s != nil {
		return docs.Writer().Within(s.names()...)
	}
	return docs.Writer()
}

// scopeLink leaves of a link what concerns the scope's tenants: their partitions and
// pauses, with sums over these. What is counted for the whole link is not told, nor
// its last error, which may name another tenant's topic.
func (s scope) scopeLink(l Link) Link {
	if s == nil {
		return l
	}
	own := func(p Pause) bool { return p.Space.IsZero() || s[p.Space.Tenant] }
	l.Pauses = slices.DeleteFunc(slices.Clone(l.Pauses), func(p Pause) bool { return !own(p) })
	l.PeerPauses = slices.DeleteFunc(slices.Clone(l.PeerPauses), func(p Pause) bool { return !own(p) })
	l.Partitions = slices.DeleteFunc(slices.Clone(l.Partitions), func(p LinkPartition) bool { return !s[p.Topic.Tenant] })
	l.LastError, l.LastErrorAt, l.Path = "", time.Time{}, LinkPath{}
	l.Out, l.In = Flow{}, Flow{LagRecords: -1, LagBytes: -1, Lag: -1}
	l.Refused, l.Diverged = 0, 0
	for _, p := range l.Partitions {
		if !p.Out {
			continue
		}
		if p.LagRecords < 0 {
			l.Out.LagUnknown++
		} else {
			l.Out.LagRecords, l.Out.LagBytes = l.Out.LagRecords+p.LagRecords, l.Out.LagBytes+max(p.LagBytes, 0)
		}
		l.Out.Lag = max(l.Out.Lag, p.Lag)
		if p.Refused != nil {
			l.Refused++
		}
	}
	if l.Out.LagUnknown > 0 && l.Out.LagRecords == 0 {
		l.Out.LagRecords, l.Out.LagBytes, l.Out.Lag = -1, -1, -1
	}
	if slices.Contains([]string{"idle", "flowing", "held", "stalled", "refused", "diverged", "paused"}, l.State) {
		l.State, l.Since = "connected", l.Connection // which of these may be another tenant's: each partition has its own
	}
	return l
}

// region is what a tenant's administrator is told of the region that answers: what a
// command needs to know whom it talks to.
func (s scope) region(all api.Region) api.Region {
	if s == nil {
		return all
	}
	return api.Region{Name: all.Name, Number: all.Number, Mesh: all.Mesh, Version: all.Version, Highest: all.Number,
		Health: api.Health{Live: all.Health.Live, Ready: all.Health.Ready, Problems: []api.Problem{}}}
}
