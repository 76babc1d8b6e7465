package kafka

import "net"

// address is what clients of the connection's listener are told to connect to.
func (c *conn) address() (host string, port int32) {
	host, port = c.at.host, c.at.port
	if host == "" {
		if tcp, ok := c.nc.LocalAddr().(*net.TCPAddr); ok {
			host = tcp.IP.String()
		} else {
			host = "localhost"
		}
	}
	return host, port
}

// rack is the region's name, nil if it was not given.
func (s *Server) rack() *string {
	if s.cfg.Rack == "" {
		return nil
	}
	return &s.cfg.Rack
}
