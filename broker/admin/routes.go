package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// route is one call of the API. Exactly one of json and stream is set.
type route struct {
	method, path string
	open         bool  // answers everybody; else role says whom
	role         Role  // what the caller must be at least
	tenant       reach // how far it goes for who only administers tenants
	change       bool  // gets an audit line
	body         int64 // limit of the request's body in bytes, 0: none is read
	json         func(r *http.Request) (answer any, err error)
	stream       func(w http.ResponseWriter, r *http.Request) error
}

// table is every call. openapi.yaml describes the same ones; a test compares.
func (s *Server) table() []route {
	const (
		topics    = api.Prefix + "/topics"
		topic     = topics + "/{tenant}/{namespace}/{topic}"
		partition = topic + "/partitions/{partition}"
		tenant    = api.Prefix + "/tenants/{tenant}"
		namespace = api.Prefix + "/namespaces/{tenant}/{namespace}"
		member    = api.Prefix + "/regions/{region}"
		link      = api.Prefix + "/links/{region}"
	)
	return []route{
		{method: "GET", path: "/healthz", open: true, stream: s.healthz},
		{method: "GET", path: "/readyz", open: true, stream: s.readyz},
		{method: "GET", path: "/metrics", role: RoleViewer, stream: s.serveMetrics},
		{method: "GET", path: debugPrefix + "/{profile}", role: RoleOperator, stream: s.debugProfile},
		{method: "GET", path: api.Prefix + "/openapi.yaml", role: RoleViewer, tenant: reachScoped, stream: s.openapi},
		{method: "GET", path: api.Prefix + "/region", role: RoleViewer, tenant: reachScoped, json: s.region},
		{method: "GET", path: api.Prefix + "/regions", role: RoleViewer, tenant: reachScoped, json: s.regions},
		{method: "GET", path: member, role: RoleViewer, json: s.memberShow},
		{method: "PUT", path: member, role: RoleAdmin, change: true, body: maxSmallBody, json: s.memberPut},
		{method: "DELETE", path: member, role: RoleAdmin, change: true, json: s.memberRemove},
		{method: "POST", path: member + "/drain", role: RoleAdmin, change: true, body: maxSmallBody, json: s.memberDrain},
		{method: "POST", path: member + "/replace", role: RoleAdmin, change: true, json: s.memberReplace},
		{method: "GET", path: api.Prefix + "/config", role: RoleViewer, json: s.configStatus},
		{method: "POST", path: api.Prefix + "/config/restore", role: RoleAdmin, change: true, body: maxSmallBody, json: s.configRestore},
		{method: "GET", path: api.Prefix + "/edges", role: RoleViewer, tenant: reachScoped, json: s.edges},
		{method: "GET", path: api.Prefix + "/links", role: RoleViewer, tenant: reachScoped, json: s.links},
		{method: "GET", path: api.Prefix + "/paths", role: RoleViewer, tenant: reachScoped, json: s.paths},
		{method: "GET", path: link + "/check", role: RoleOperator, json: s.linkCheck},
		{method: "POST", path: link + "/pause", role: RoleOperator, change: true, body: maxSmallBody, json: s.linkPause},
		{method: "POST", path: link + "/resume", role: RoleOperator, change: true, body: maxSmallBody, json: s.linkResume},
		{method: "POST", path: link + "/retry", role: RoleOperator, change: true, body: maxSmallBody, json: s.linkRetry},
		{method: "POST", path: link + "/skip", role: RoleOperator, change: true, body: maxSmallBody, json: s.linkSkip},
		{method: "GET", path: api.Prefix + "/diverged", role: RoleViewer, tenant: reachScoped, json: s.diverged},
		{method: "POST", path: partition + "/life", role: RoleOperator, change: true, body: maxSmallBody, json: s.newLife},
		{method: "GET", path: topics, role: RoleViewer, tenant: reachScoped, json: s.topicList},
		{method: "POST", path: topics, role: RoleOperator, tenant: reachScoped, change: true, body: maxSmallBody, json: s.topicCreate},
		{method: "GET", path: topic, role: RoleViewer, tenant: reachPath, json: s.topicDescribe},
		{method: "DELETE", path: topic, role: RoleOperator, tenant: reachPath, change: true, json: s.topicDelete},
		{method: "POST", path: topic + "/partitions", role: RoleOperator, tenant: reachPath, change: true, body: maxSmallBody, json: s.topicPartitions},
		{method: "GET", path: topic + "/configs", role: RoleViewer, tenant: reachPath, json: s.topicSettings},
		{method: "POST", path: topic + "/configs", role: RoleOperator, tenant: reachPath, change: true, body: maxSmallBody, json: s.topicAlter},
		{method: "GET", path: api.Prefix + "/gaps", role: RoleViewer, tenant: reachScoped, json: s.gapList},
		{method: "GET", path: api.Prefix + "/users", role: RoleOperator, json: s.userList},
		{method: "POST", path: api.Prefix + "/users", role: RoleAdmin, change: true, body: maxSmallBody, json: s.userChange},
		{method: "DELETE", path: api.Prefix + "/users", role: RoleAdmin, change: true, json: s.userDelete},
		{method: "GET", path: api.Prefix + "/tenants", role: RoleViewer, tenant: reachScoped, json: s.tenantList},
		{method: "PUT", path: tenant, role: RoleAdmin, change: true, body: maxSmallBody, json: s.tenantPut},
		{method: "DELETE", path: tenant, role: RoleAdmin, change: true, json: s.tenantDelete},
		{method: "GET", path: api.Prefix + "/namespaces", role: RoleViewer, tenant: reachScoped, json: s.namespaceList},
		{method: "PUT", path: namespace, role: RoleAdmin, tenant: reachPath, change: true, body: maxSmallBody, json: s.namespacePut},
		{method: "DELETE", path: namespace, role: RoleAdmin, tenant: reachPath, change: true, json: s.namespaceDelete},
		{method: "GET", path: api.Prefix + "/topology", role: RoleViewer, tenant: reachScoped, json: s.topologyExport},
		{method: "POST", path: api.Prefix + "/topology/plan", role: RoleViewer, tenant: reachScoped, body: maxTopologyBody, json: s.topologyPlan},
		{method: "POST", path: api.Prefix + "/topology/apply", role: RoleAdmin, tenant: reachScoped, change: true, body: maxTopologyBody, json: s.topologyApply},
		{method: "POST", path: topic + "/records", role: RoleOperator, body: maxRequestBody, json: s.produce},
		{method: "GET", path: partition + "/records", role: RoleOperator, json: s.consume},
		{method: "GET", path: partition + "/digest", role: RoleOperator, stream: s.digest},
	}
}

// Handler gives the whole API, for servers of others and for tests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, rt := range s.routes {
		methods[rt.path] = append(methods[rt.path], rt.method)
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
	for path, known := range methods {
		slices.Sort(known)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(known, ", "))
			s.noCall(w, r, http.StatusMethodNotAllowed)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.noCall(w, r, http.StatusNotFound) })
	return mux
}

// noCall answers a request that is no call of the API.
func (s *Server) noCall(w http.ResponseWriter, r *http.Request, status int) {
	err := rhumb.Errorf(rhumb.KindUnsupported, "no call %s %s: %s/openapi.yaml lists all of them", r.Method, r.URL.Path, api.Prefix)
	writeJSON(w, status, api.ErrorBody{Error: api.Error{Kind: rhumb.KindOf(err).String(), Message: err.Error()}})
}

// serve runs the checks that all calls share, then the call.
func (s *Server) serve(rt route, w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	defer func() { s.metrics.request(rt, rec.status, time.Since(began)) }()
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	rec.Header().Set("Cache-Control", "no-store")
	rec.extend(bodyTimeout)
	r, what := noted(r)
	who, release, err := s.admit(rt, r)
	if err != nil {
		s.refused(rt, r, who, err)
		writeError(rec, err)
		return
	}
	defer release()
	if s.cfg.guarded() { // else it is anybody
		r = r.WithContext(configstore.WithCaller(r.Context(), who.name))
	}
	r = withScope(r, who.within)
	if rt.tenant == reachScoped && who.within != nil {
		rec.Header().Set(api.HeaderWithin, who.within.list())
	}
	r.Body = http.MaxBytesReader(rec, r.Body, rt.body)
	if rt.stream != nil {
		if err := rt.stream(rec, r); err != nil {
			writeError(rec, err)
		}
		return
	}
	answer, err := s.answer(rt, rec, r)
	defer letGo(answer)
	if rt.change {
		s.audit(r, who, what, err)
	}
	if err != nil {
		writeError(rec, err)
		return
	}
	rec.extend(writeTimeout)
	writeJSON(rec, http.StatusOK, answer)
}

// answer calls what answers the request, once its body may be held in memory.
func (s *Server) answer(rt route, rec *recorder, r *http.Request) (any, error) {
	body, err := s.holdBody(rt, r)
	if err != nil {
		return nil, err
	}
	defer body.release()
	rec.extend(bodyTimeout)
	return rt.json(r)
}

// admit decides whether the request may go on, and takes a slot for it. The
// caller is zero if it is not known.
func (s *Server) admit(rt route, r *http.Request) (who caller, release func(), err error) {
	if err := s.checkHost(r); err != nil {
		return who, nil, err
	}
	if err := s.checkOrigin(r); err != nil {
		return who, nil, err
	}
	if !rt.open {
		if who, err = s.callerOf(r); err != nil {
			return who, nil, err
		}
		if err := who.mayCall(rt); err != nil {
			if who.within, err = s.within(rt, r, who, err); err != nil {
				return who, nil, err
			}
		}
	}
	if r.ContentLength > rt.body {
		return who, nil, rhumb.Errorf(rhumb.KindTooLarge, "request body of %d bytes, at most %d: send less at a time", r.ContentLength, rt.body)
	}
	select {
	case s.slots <- struct{}{}:
		return who, func() { <-s.slots }, nil
	default:
		return who, nil, rhumb.Errorf(rhumb.KindUnavailable, "%d admin requests are being answered already", maxConcurrent)
	}
}

// refused writes the line of a request that was not let in. Of an address that
// comes with too many wrong tokens there are lines already.
func (s *Server) refused(rt route, r *http.Request, who caller, err error) {
	switch {
	case errors.Is(err, errTooMany):
	case errors.Is(err, errOtherToken) || errors.Is(err, errOtherCert):
		s.refusedLogin(r, err)
	case rt.change || r.Method != http.MethodGet:
		if who.name == "" {
			who.name = "unknown"
		}
		s.audit(r, who, &change{}, err)
	}
}

// decode reads a JSON body strictly.
func decode(r *http.Request, into any) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return rhumb.Errorf(rhumb.KindInvalid, "Content-Type must be application/json, not %q", r.Header.Get("Content-Type"))
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return rhumb.Errorf(rhumb.KindInvalid, "request body: something follows the JSON document")
		}
		return nil
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return rhumb.Errorf(rhumb.KindTooLarge, "request body is over %d bytes: send less at a time", tooLarge.Limit)
	}
	return rhumb.Errorf(rhumb.KindInvalid, "request body: %w", err)
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if records, is := answer.(heldRecords); is {
		_ = writeRecords(w, &records.RecordList) // as below
		return
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(answer) // a client that went away needs no answer
}

// recorder remembers the status for the metrics.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// extend gives the request d more: to read its body, and to write its answer
// after that. Writers that have no deadline, as in tests, have none.
func (r *recorder) extend(d time.Duration) {
	c := http.NewResponseController(r.ResponseWriter)
	_ = c.SetReadDeadline(time.Now().Add(d))
	_ = c.SetWriteDeadline(time.Now().Add(d + writeTimeout))
}

// isDone reports whether err only says that the caller went away or the server stops.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
