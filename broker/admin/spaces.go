package admin

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Documents is what the API needs of the mesh's tenants and namespaces. Errors of
// the writer carry kinds, and fields where one was refused.
type Documents interface {
	// Tenants gives all tenants by name.
	Tenants() []configstore.Tenant
	// Namespaces gives all namespaces by tenant and name.
	Namespaces() []configstore.Namespace
	// TopicDocs gives what topics have of their own, by name.
	TopicDocs() []configstore.Topic
	// Writer changes them with compare-and-set.
	Writer() *configstore.Writer
}

func (s *Server) documents() (Documents, error) {
	if s.cfg.Documents == nil {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "this node keeps no tenants and namespaces")
	}
	return s.cfg.Documents, nil
}

// tenantList answers GET /tenants.
func (s *Server) tenantList(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	list := api.TenantList{Tenants: []api.Tenant{}}
	for _, t := range docs.Tenants() {
		if scopeOf(r).covers(t.Name) {
			list.Tenants = append(list.Tenants, api.Tenant{Name: t.Name, Tenant: t})
		}
	}
	return list, nil
}

// tenantPut answers PUT /tenants/{tenant}.
func (s *Server) tenantPut(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	doc, err := document(r, configstore.ReadInput[configstore.Tenant])
	if err != nil {
		return nil, err
	}
	name := rhumb.Tenant(r.PathValue("tenant"))
	changes(r, "tenant %s", name)
	var before uint64
	t, err := writer(r, docs).PutTenant(r.Context(), name, func(stored *configstore.Tenant) error {
		like := func() string { return likeTenant(name, docs.Tenants()) }
		if err := mayReplace(r, stored.Meta, doc.Meta, "tenant", string(name), like); err != nil {
			return err
		}
		before = stored.Version
		doc.Meta, doc.Name = stored.Meta, stored.Name
		*stored = doc
		return nil
	})
	changesVersion(r, before, t.Version)
	return api.Tenant{Name: name, Tenant: t}, err
}

// tenantDelete answers DELETE /tenants/{tenant} with the tenant as it was.
func (s *Server) tenantDelete(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	name := rhumb.Tenant(r.PathValue("tenant"))
	changes(r, "tenant %s", name)
	all := docs.Tenants()
	i := slices.IndexFunc(all, func(t configstore.Tenant) bool { return t.Name == name })
	if i < 0 {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "there is no tenant %q%s: see which there are with 'rhumb tenant list'", name, likeTenant(name, all))
	}
	changesVersion(r, all[i].Version, all[i].Version+1)
	return api.Tenant{Name: name, Tenant: all[i]}, writer(r, docs).DeleteTenant(r.Context(), name)
}

// namespaceList answers GET /namespaces.
func (s *Server) namespaceList(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	list := api.NamespaceList{Namespaces: []api.Namespace{}}
	for _, n := range docs.Namespaces() {
		if !scopeOf(r).covers(n.Tenant) {
			continue
		}
		list.Namespaces = append(list.Namespaces, api.Namespace{Space: rhumb.Space{Tenant: n.Tenant, Namespace: n.Name}, Namespace: n})
	}
	return list, nil
}

func spaceOf(r *http.Request) rhumb.Space {
	return rhumb.Space{Tenant: rhumb.Tenant(r.PathValue("tenant")), Namespace: rhumb.Namespace(r.PathValue("namespace"))}
}

// namespacePut answers PUT /namespaces/{tenant}/{namespace}.
func (s *Server) namespacePut(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	doc, err := document(r, configstore.ReadInput[configstore.Namespace])
	if err != nil {
		return nil, err
	}
	at := spaceOf(r)
	changes(r, "namespace %s", at)
	var before uint64
	n, err := writer(r, docs).PutNamespace(r.Context(), at.Tenant, at.Namespace, func(stored *configstore.Namespace) error {
		like := func() string { return likeNamespace(at, docs.Namespaces()) }
		if err := mayReplace(r, stored.Meta, doc.Meta, "namespace", at.String(), like); err != nil {
			return err
		}
		before = stored.Version
		doc.Meta, doc.Tenant, doc.Name = stored.Meta, stored.Tenant, stored.Name
		*stored = doc
		return nil
	})
	changesVersion(r, before, n.Version)
	return api.Namespace{Space: at, Namespace: n}, err
}

// noNamespace is the refusal of a namespace that there is not.
func noNamespace(at rhumb.Space, all []configstore.Namespace) error {
	return rhumb.Errorf(rhumb.KindNotFound, "there is no namespace %q%s: see which there are with 'rhumb namespace list'", at, likeNamespace(at, all))
}

// likeTenant names the tenants that may have been meant.
func likeTenant(name rhumb.Tenant, all []configstore.Tenant) string {
	return nearest.Hint(string(name), all, func(t *configstore.Tenant) string { return string(t.Name) })
}

// likeNamespace names the namespaces of its tenant that may have been meant: of others' the
// caller may not know.
func likeNamespace(at rhumb.Space, all []configstore.Namespace) string {
	mine := slices.DeleteFunc(slices.Clone(all), func(n configstore.Namespace) bool { return n.Tenant != at.Tenant })
	return nearest.Hint(at.String(), mine, func(n *configstore.Namespace) string { return string(n.Tenant) + "/" + string(n.Name) })
}

// namespaceDelete answers DELETE /namespaces/{tenant}/{namespace} with the
// namespace as it was.
func (s *Server) namespaceDelete(r *http.Request) (any, error) {
	docs, err := s.documents()
	if err != nil {
		return nil, err
	}
	at := spaceOf(r)
	changes(r, "namespace %s", at)
	all := docs.Namespaces()
	i := slices.IndexFunc(all, func(n configstore.Namespace) bool { return n.Tenant == at.Tenant && n.Name == at.Namespace })
	if i < 0 {
		return nil, noNamespace(at, all)
	}
	changesVersion(r, all[i].Version, all[i].Version+1)
	return api.Namespace{Space: at, Namespace: all[i]}, writer(r, docs).DeleteNamespace(r.Context(), at.Tenant, at.Namespace)
}

// document reads a request's document as strictly as the store would.
func document[T any](r *http.Request, read func([]byte) (T, error)) (T, error) {
	var none T
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return none, rhumb.Errorf(rhumb.KindInvalid, "Content-Type must be application/json, not %q", r.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return none, rhumb.Errorf(rhumb.KindTooLarge, "the document is over %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return none, rhumb.Errorf(rhumb.KindInvalid, "request body: %w", err)
	}
	return read(text)
}

// mayReplace decides whether what is stored is what the caller means: nothing
// with ?create=true, something with ?create=false, and the version that the
// caller's document carries, if it carries one. like gives what may have been meant.
func mayReplace(r *http.Request, stored, given configstore.Meta, kind, name string, like func() string) error {
	is, create := stored.Version > 0 && !stored.Deleted, r.URL.Query().Get("create")
	switch {
	case create != "" && create != "true" && create != "false":
		return rhumb.Errorf(rhumb.KindInvalid, "create=%s: want true or false", create)
	case create == "true" && is:
		return rhumb.Errorf(rhumb.KindExists, "%s %s is there already, version %d: see it with 'rhumb %[1]s show'", kind, name, stored.Version)
	case create == "false" && !is:
		return rhumb.Errorf(rhumb.KindNotFound, "there is no %s %s%s: make it with 'rhumb %[1]s create'", kind, name, like())
	case given.Deleted:
		return &rhumb.Error{Kind: rhumb.KindInvalid, Err: &configstore.FieldError{Field: "deleted", Reason: "delete it with a command of its own"}}
	case given.Version != 0 && given.Version != stored.Version:
		return rhumb.Errorf(rhumb.KindFenced, "%s %s is at version %d by now (%s), the document is of version %d: look at the newer one first; a document without a version replaces any",
			kind, name, stored.Version, stored.Who(), given.Version)
	}
	return nil
}
