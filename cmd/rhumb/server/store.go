package server

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/version"
)

// openStore opens the configuration store that the file names, unless one was
// handed in. first: this region has never started.
func (s *Server) openStore(first bool) (configstore.Store, error) {
	if s.opts.Store != nil {
		return s.opts.Store, nil
	}
	if c := s.cfg.ConfigStore.Consul; c != nil {
		store, err := consul.Open(c.Backend())
		if err != nil {
			return nil, err
		}
		s.room.consul = store
		s.onClose(store.Close)
		return store, nil
	}
	// A region with a certificate belongs to a mesh that somebody made: a misspelled
	// directory is told at its first start, and not made.
	files, err := embedded.Open(embedded.Config{Dir: s.cfg.ConfigStore.Embedded.Path, Existing: first && !s.certifiedMesh().IsZero()})
	if err != nil {
		return nil, err
	}
	s.onClose(files.Close)
	return files, nil
}

// certifiedMesh is the mesh that the certificate of the links names; zero: none. A
// region with one belongs to that mesh before it has started for the first time: it
// neither makes another one in an empty store nor joins another store's.
func (s *Server) certifiedMesh() rhumb.UUID {
	for _, l := range s.listeners(config.ProtocolGeo) {
		if source := s.in.certs[l.Name]; source != nil {
			id, _ := source.Current().Identity()
			return id.Mesh
		}
	}
	return rhumb.UUID{}
}

// checkCertificate refuses to start with a certificate that peers would refuse: of no
// region, of another one, or of another mesh. Files that take its place later are held to
// the same.
func (s *Server) checkCertificate(context.Context) error {
	for _, l := range s.listeners(config.ProtocolGeo) {
		source := s.in.certs[l.Name]
		if source == nil {
			continue
		}
		file := "the certificate of listener " + l.Name
		if l.TLS != nil {
			file = "certificate " + l.TLS.Cert
		}
		if err := s.fitsRegion(file, source.Current()); err != nil {
			return err
		}
		source.Check(func(now *certs.Loaded) error {
			if err := s.fitsRegion(file, now); err != nil {
				return err
			}
			return now.Begun()
		})
	}
	return nil
}

// fitsRegion says what is wrong with a certificate of the links of this region.
func (s *Server) fitsRegion(file string, now *certs.Loaded) error {
	id, ok := now.Identity()
	mesh, name := s.room.view.Mesh().UUID, s.cfg.Region.Name
	switch {
	case !ok || id.Role != certs.RoleRegion:
		return rhumb.Errorf(rhumb.KindInvalid, "%s names no region of a mesh, so no other region takes it: name the one that 'rhumb certs issue %s' makes", file, name)
	case id.Name != string(name):
		return rhumb.Errorf(rhumb.KindInvalid, "%s is that of region %s, this is region %s: name the one that 'rhumb certs issue %s' makes, or correct region.name", file, id.Name, name, name)
	case id.Mesh != mesh:
		return rhumb.Errorf(rhumb.KindInvalid, "%s is of mesh %s, the configuration store of mesh %s: correct config_store, or name a certificate that the CA of this mesh signed ('rhumb certs issue %s')", file, id.Mesh, mesh, name)
	}
	return nil
}

// serviceNames are the services of Consul by protocol. Links find regions in the
// configuration store.
var serviceNames = map[string]string{
	config.ProtocolKafka: "rhumb-kafka", configstore.ProtocolNative: "rhumb-native", config.ProtocolAdmin: "rhumb-admin",
}

// openServices registers the listeners at Consul, for as long as the region runs.
func (s *Server) openServices(context.Context) error {
	c := s.cfg.ConfigStore.Consul
	if s.room.consul == nil || c.Services == config.ServicesOff {
		return nil
	}
	s.room.services = s.room.consul.Register(s.services(), 0, s.log)
	s.parts.start("services", s.room.services.Run, func(ctx context.Context) error {
		if err := s.room.services.Deregister(ctx); err != nil {
			s.log.Warn("services stay registered at consul, whose checks will fail", "err", err) // no reason to stop badly
		}
		return nil
	})
	return nil
}

// services gives the listeners that clients can be told of.
func (s *Server) services() []consul.Service {
	_, mesh := s.room.store.Identity()
	var out []consul.Service
	for i, l := range s.cfg.Listeners {
		name, known := serviceNames[l.Protocol]
		host, port, err := net.SplitHostPort(advertised(l))
		n, perr := strconv.Atoi(port)
		if !known || err != nil || perr != nil {
			continue
		}
		sv := consul.Service{
			ID:   name + "-" + string(s.cfg.Region.Name) + "-" + strconv.Itoa(i) + "-" + mesh.String()[:8],
			Name: name, Address: host, Port: n,
			Tags: []string{"region=" + string(s.cfg.Region.Name), "mesh=" + mesh.String(), "listener=" + l.Name},
			Meta: map[string]string{"version": cmp.Or(version.Get().Version, "unknown")},
		}
		if l.TLS != nil {
			sv.Tags = append(sv.Tags, "tls")
		}
		if l.Protocol == config.ProtocolAdmin && (l.TLS == nil || l.TLS.CA == "") {
			scheme := "http"
			if l.TLS != nil {
				scheme = "https"
			}
			sv.CheckURL = scheme + "://" + net.JoinHostPort(host, port) + "/readyz"
		}
		out = append(out, sv)
	}
	return out
}

// storeProblems tells how the region stands to the configuration store, and of
// services that Consul does not take.
func (s *Server) storeProblems(problem func(part, state, format string, args ...any)) {
	const part = "configuration store"
	st := s.room.view.Status()
	since := st.Since.UTC().Format(time.RFC3339)
	switch st.State {
	case configstore.StateCurrent:
	case configstore.StateWentBack:
		problem(part, st.State.String(), "since %s: %v; the last good copy is in force and changes are refused: put back what regions have seen with 'rhumb config restore', or restore a newer copy of the store", since, st.Err)
	case configstore.StateOtherMesh:
		problem(part, st.State.String(), "since %s: %v; the last good copy is in force and changes are refused: %s", since, st.Err, s.nextOfOtherMesh("'rhumb config restore --yes'"))
	default:
		problem(part, st.State.String(), "since %s: %v; the last good copy is in force, changes wait: bring the configuration store that config_store names back", since, st.Err)
	}
	if st.KeepErr != nil {
		problem(part, "copy not saved", "%v; the last good copy on disk is older than what is in force: a restart while the store is down would go back to it", st.KeepErr)
	}
	if r := s.room.services; r != nil {
		if err := r.Err(); err != nil && st.State == configstore.StateCurrent {
			problem("services", "not registered", "%v; clients do not find this region in Consul", err)
		}
	}
}

// storeFigures are the metrics of the configuration store.
func (s *Server) storeFigures(emit func(admin.Metric)) {
	st := s.room.view.Status()
	read := 0.0
	if !st.LastRead.IsZero() {
		read = float64(st.LastRead.UnixMilli()) / 1000
	}
	for _, g := range []admin.Metric{
		{Name: "rhumb_configstore_state", Help: "0: current, 1: store down, 2: store went back, 3: other mesh.", Value: float64(st.State)},
		{Name: "rhumb_configstore_state_since_seconds", Help: "When it entered that state, in seconds since 1970.", Value: float64(st.Since.UnixMilli()) / 1000},
		{Name: "rhumb_configstore_last_read_seconds", Help: "When the store was last read and taken, in seconds since 1970; 0: not since the start.", Value: read},
		{Name: "rhumb_configstore_problems", Help: "Documents that are not in force as the store has them.", Value: float64(len(st.Problems))},
		{Name: "rhumb_configstore_documents", Help: "Documents that were seen, with tombstones.", Value: float64(st.Documents)},
		{Name: "rhumb_configstore_caught_by_reread_total", Help: "Changes that the store's watch did not tell of.", Counter: true, Value: float64(st.CaughtByReread)},
	} {
		emit(g)
	}
}
