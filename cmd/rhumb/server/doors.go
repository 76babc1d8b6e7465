package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/kafka"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// openLinks starts the links, if there is a geo listener. Several are one
// socket each in Kafka's and HTTP's case; links dial and accept on the first.
func (s *Server) openLinks(context.Context) error {
	listeners := s.listeners(config.ProtocolGeo)
	if len(listeners) == 0 {
		return nil
	}
	l := listeners[0]
	source, err := s.geoTLS(l)
	if err != nil {
		return err
	}
	socket, err := s.opts.ListenGeo(l.Bind)
	if err != nil {
		return err
	}
	s.onClose(socket.Close)
	data, mesh := s.room.store.Identity()
	limits := s.cfg.Limits
	m, err := replicator.New(replicator.Config{
		Self:   replicator.Identity{Mesh: mesh, Name: s.cfg.Region.Name, Number: s.room.self.Number, Data: data},
		Region: s.room.region, Policy: s.room.view, PacketConn: socket, Resolve: s.resolve,
		Certs:  source,
		Logger: s.opts.Logger, // it adds the region's name itself
		Limits: replicator.Limits{
			SendBudget: int64(limits.LinkMemory), ReceiveBudget: int64(limits.LinkReceive), Window: int64(limits.LinkWindow),
		},
	})
	if err != nil {
		return err
	}
	s.room.links = m
	s.onClose(m.Close)
	s.parts.start("links", m.Run, nil)
	return nil
}

// geoTLS gives the certificates of links.
func (s *Server) geoTLS(l config.Listener) (*certs.Source, error) {
	if s.opts.GeoTLS != nil {
		return s.opts.GeoTLS, nil
	}
	return certs.Open(certs.Files{CA: l.TLS.CA, Cert: l.TLS.Cert, Key: l.TLS.Key})
}

// resolve finds the address to dial for a region: the one that the
// configuration file names for it, or the given one of its document.
func (s *Server) resolve(ctx context.Context, peer rhumb.RegionName, addr string) (net.Addr, error) {
	for _, l := range s.cfg.Links {
		if l.Region == peer && l.Via != "" {
			addr = l.Via
		}
	}
	return replicator.ResolveUDP(ctx, peer, addr)
}

func (s *Server) openKafka(context.Context) error {
	limits := s.cfg.Limits
	k, err := kafka.New(kafka.Config{
		Broker: s.room.broker, NodeID: nodeID(s.room.self.Number, 0), Rack: string(s.cfg.Region.Name), Logger: s.log,
		MaxRequest: int(limits.RequestBytes), RequestBudget: int64(limits.RequestMemory),
		FetchBudget: int64(limits.ResponseMemory), MaxConnections: limits.Connections,
	})
	if err != nil {
		return err
	}
	for _, l := range s.listeners(config.ProtocolKafka) {
		var conf *tls.Config
		if l.TLS != nil {
			source, err := certs.Open(certs.Files{Cert: l.TLS.Cert, Key: l.TLS.Key})
			if err != nil {
				return errors.Join(err, k.Close())
			}
			conf = certs.Server(source)
		}
		if _, err := k.Listen(kafka.Listener{Name: l.Name, Bind: l.Bind, Advertise: l.Advertise, TLS: conf}); err != nil {
			return errors.Join(err, k.Close())
		}
	}
	s.room.kafka = k
	s.parts.start("Kafka listeners", k.Serve, k.Shutdown)
	return nil
}

func (s *Server) openAdmin(context.Context) error {
	data, mesh := s.room.store.Identity()
	live := admin.Live{Region: s.room.region, Broker: s.room.broker}
	for _, l := range s.listeners(config.ProtocolAdmin) {
		host, _, _ := net.SplitHostPort(advertised(l)) // validated by the configuration
		cfg := admin.Config{
			Hosts: []string{host},
			Identity: admin.Identity{
				Name: s.cfg.Region.Name, Number: s.room.self.Number, Mesh: mesh, Cluster: s.room.broker.ClusterID(),
				Data: data, Node: nodeID(s.room.self.Number, 0),
			},
			Topics: live, Logs: live, Data: live,
			Links: s.links, Regions: s.regions, Edges: s.edges, Health: s.health,
			Metrics: s.metrics(), Token: s.cfg.Admin.Token,
			StopGrace: time.Second, Logger: s.log,
		}
		if l.TLS != nil {
			source, err := certs.Open(certs.Files{CA: l.TLS.CA, Cert: l.TLS.Cert, Key: l.TLS.Key})
			if err != nil {
				return err
			}
			cfg.TLS = certs.AdminServer(source, mesh)
		}
		a, err := admin.New(cfg)
		if err != nil {
			return err
		}
		socket, err := a.Listen(l.Bind)
		if err != nil {
			return err
		}
		s.parts.start("HTTP listener "+l.Name, func(ctx context.Context) error { return a.Run(ctx, socket) }, nil)
	}
	return nil
}

func (s *Server) regions() []admin.RegionEntry {
	var out []admin.RegionEntry
	for _, r := range s.room.view.Regions() {
		out = append(out, admin.RegionEntry{
			Name: r.Name, Number: r.Number, State: string(r.State), Admin: r.Addresses[configstore.ProtocolAdmin],
		})
	}
	return out
}

func (s *Server) edges() []admin.Edge {
	var out []admin.Edge
	for _, e := range s.room.view.Edges() {
		out = append(out, admin.Edge{Tenant: e.Tenant, Namespace: e.Namespace, From: e.From, To: e.To, Forward: e.Forward})
	}
	return out
}
