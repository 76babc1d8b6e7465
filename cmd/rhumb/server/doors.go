package server

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/kafka"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/version"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator"
	"github.com/rhumbmq/rhumb/replicator/fec"
)

// openLinks starts the links, if there is a geo listener. The configuration
// allows one: links dial and accept on the same socket.
func (s *Server) openLinks(context.Context) error {
	listeners := s.listeners(config.ProtocolGeo)
	if len(listeners) == 0 {
		s.room.region.SetShipped(func() map[rhumb.PartitionRef]region.Shipped {
			return replicator.AllShipped(s.room.region.Topics())
		})
		s.room.region.SetOwed(func() map[rhumb.PartitionRef]region.Owed { return map[rhumb.PartitionRef]region.Owed{} })
		return nil
	}
	l := listeners[0]
	if s.in.udp[l.Name] == nil {
		if _, err := s.bind(l); err != nil {
			return err
		}
	}
	data, mesh := s.room.store.Identity()
	limits := s.cfg.Limits
	m, err := replicator.New(replicator.Config{
		Self: replicator.Identity{Mesh: mesh, Name: s.cfg.Region.Name, Number: s.room.self.Number, Data: data},
		Boot: s.boot, Software: version.Get().Short(),
		Region: s.room.region, Policy: vias{s.room.view, s.cfg.Links}, Documents: s.room.view, PacketConn: s.in.udp[l.Name], Resolve: s.resolve,
		Certs: s.in.certs[l.Name], Correction: corrections(s.cfg.Links),
		Logger: s.opts.Logger, // it adds the region's name itself
		Limits: replicator.Limits{
			SendBudget: int64(limits.LinkMemory), ReceiveBudget: int64(limits.LinkReceive), Window: int64(limits.LinkWindow),
			Connections: limits.LinkConns,
		},
	})
	if err != nil {
		return err
	}
	s.room.links = m
	s.room.region.SetShipped(m.Shipped)
	s.room.region.SetOwed(m.Owed)
	s.onClose(m.Close)
	s.parts.start("links", m.Run, nil)
	return nil
}

// corrections gives the links whose forward error correction the configuration file
// decides over. It was checked.
func corrections(links []config.Link) map[rhumb.RegionName]fec.Mode {
	out := map[rhumb.RegionName]fec.Mode{}
	for _, l := range links {
		if mode, err := fec.ParseMode(l.FEC); err == nil {
			out[l.Region] = mode
		}
	}
	return out
}

// vias is the region's picture of the mesh, in which a region that tells nobody its geo
// address has the one that the configuration file names for it.
type vias struct {
	*configstore.View
	links []config.Link
}

// Regions implements replicator.Policy.
func (v vias) Regions() []configstore.Region {
	all := v.View.Regions()
	for i := range all {
		for _, l := range v.links {
			if l.Region == all[i].Name && l.Via != "" && len(all[i].Geo) == 0 {
				all[i].Geo = []string{l.Via}
			}
		}
	}
	return all
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
		MaxPerAddress: limits.ConnectionsPerAddress, AcceptRate: limits.ConnectionRate,
		IdleTimeout: s.cfg.Kafka.IdleTimeout.Std(), FailedLoginDelay: s.cfg.Kafka.FailedLogin.Std(),
		Accounts: s.accounts(),
	})
	if err != nil {
		return err
	}
	for _, l := range s.listeners(config.ProtocolKafka) {
		door := s.kafkaListener(l)
		if bound := s.in.tcp[l.Name]; bound != nil {
			err = k.AddListener(door, bound)
		} else {
			_, err = k.Listen(door)
		}
		if err != nil {
			return errors.Join(err, k.Close())
		}
	}
	s.kafka.Store(k)
	s.parts.start("Kafka listeners", k.Serve, k.Shutdown)
	return nil
}

func (s *Server) kafkaListener(l config.Listener) kafka.Listener {
	door := kafka.Listener{Name: l.Name, Bind: l.Bind, Advertise: l.Advertise, Namespace: l.Space(), MaxConnections: l.MaxConnections}
	if l.TLS != nil {
		door.TLS = certs.KafkaServer(s.in.certs[l.Name])
	}
	if l.SASL != nil {
		door.SASL = &kafka.SASL{Mechanisms: l.SASL.Mechanisms, Session: l.SASL.Session.Std()}
	}
	return door
}

// accounts are the users of the mesh, as this region sees them.
func (s *Server) accounts() broker.Accounts {
	return broker.Accounts{View: s.room.view, By: s.writer()}
}

func (s *Server) openAdmin(context.Context) error {
	data, mesh := s.room.store.Identity()
	live := admin.Live{Region: s.room.region, Broker: s.room.broker}
	var err error
	if s.in.tokens, err = s.openTokens(); err != nil {
		return err
	}
	for _, l := range s.listeners(config.ProtocolAdmin) {
		cfg := admin.Config{
			Identity: admin.Identity{
				Name: s.cfg.Region.Name, Number: s.room.self.Number, Mesh: mesh, Cluster: s.room.broker.ClusterID(),
				Data: data, Boot: s.boot, Node: nodeID(s.room.self.Number, 0),
			},
			Topics: live, Logs: live, Data: live, Users: s.accounts(),
			Documents: broker.Documents{View: s.room.view, By: s.writer()}, ConfigStore: s.room.view,
			Members: members{broker.Documents{View: s.room.view, By: s.writer()}, s}, Drain: s.drain,
			Links: s.links, LinkSums: s.linkSums, Sums: s.room.region.Sums, Paths: s.paths, Divergence: s.divergence(), LinkControl: s.linkControl(), AutoCreate: s.cfg.Kafka.AutoCreate, Regions: s.regions, Edges: s.edges, Health: s.health,
			Metrics: s.metrics(), Tokens: s.in.tokens, Hosts: slices.Clone(s.cfg.Admin.Hosts),
			StopGrace: time.Second, Logger: s.log, MaxConnections: config.OwnFiles(config.FilesLimit()) / 4,
		}
		if host, _, err := net.SplitHostPort(advertised(l)); err == nil {
			cfg.Hosts = append(cfg.Hosts, host)
		}
		if l.TLS != nil {
			cfg.TLS = certs.AdminServer(s.in.certs[l.Name])
			if l.TLS.CA != "" {
				cfg.Certificates = s.certificateRole(s.in.certs[l.Name], mesh)
			}
		}
		a, err := admin.New(cfg)
		if err != nil {
			return err
		}
		socket := s.in.tcp[l.Name]
		if socket == nil {
			socket, err = a.Listen(l.Bind)
		} else {
			err = cfg.CheckExposure(socket.Addr())
		}
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
		out = append(out, admin.Edge{Tenant: e.Tenant, Namespace: e.Namespace, Topic: e.Topic, From: e.From, To: e.To, Forward: e.Forward, Gone: e.Gone,
			Start: string(e.Start), Rate: e.Rate})
	}
	return out
}
