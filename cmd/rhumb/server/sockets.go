package server

import (
	"context"
	"net"
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/certs"
)

// inputs is what the configuration names and the server opens before anything
// is made or registered, so that what is wrong there leaves no trace.
type inputs struct {
	tokens *admin.Tokens             // of the HTTP API
	certs  map[string]*certs.Source  // by listener
	tcp    map[string]net.Listener   // of listeners with port 0
	udp    map[string]net.PacketConn // the same for geo
}

// openCerts reads the certificates of all listeners.
func (s *Server) openCerts(context.Context) error {
	s.in.certs = map[string]*certs.Source{}
	for _, l := range s.cfg.Listeners {
		source := s.opts.GeoTLS
		if l.Protocol != config.ProtocolGeo || source == nil {
			if l.TLS == nil {
				continue
			}
			var err error
			if source, err = certs.Open(certs.Files{CA: l.TLS.CA, Cert: l.TLS.Cert, Key: l.TLS.Key}); err != nil {
				return err
			}
		}
		s.in.certs[l.Name] = source
	}
	if len(s.in.certs) > 0 {
		s.parts.start("certificates", s.watchCertificates, nil)
	}
	return nil
}

// bindChosen binds the listeners whose port the system chooses: the region's
// document must say which it is. All others are bound when they can be served.
func (s *Server) bindChosen(context.Context) error {
	s.in.tcp, s.in.udp = map[string]net.Listener{}, map[string]net.PacketConn{}
	s.cfg.Listeners = slices.Clone(s.cfg.Listeners)
	for i := range s.cfg.Listeners {
		l := &s.cfg.Listeners[i]
		host, port, err := net.SplitHostPort(l.Bind)
		if err != nil || port != "0" {
			continue
		}
		bound, err := s.bind(*l)
		if err != nil {
			return err
		}
		if ip := net.ParseIP(host); l.Advertise == "" && host != "" && (ip == nil || !ip.IsUnspecified()) {
			_, port, _ = net.SplitHostPort(bound.String()) // an address of our own socket
			l.Advertise = net.JoinHostPort(host, port)
		}
	}
	return nil
}

func (s *Server) bind(l config.Listener) (net.Addr, error) {
	if l.Protocol == config.ProtocolGeo {
		c, err := s.opts.ListenGeo(l.Bind)
		if err != nil {
			return nil, err
		}
		s.in.udp[l.Name] = c
		s.onClose(c.Close)
		return c.LocalAddr(), nil
	}
	c, err := net.Listen("tcp", l.Bind)
	if err != nil {
		return nil, err
	}
	s.in.tcp[l.Name] = c
	s.onClose(func() error { c.Close(); return nil }) // its server may have closed it
	return c.Addr(), nil
}
