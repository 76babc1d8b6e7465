//go:build !linux && !darwin && !freebsd

package fec

import "net"

func newConn(s *Socket) net.PacketConn { return &plainConn{PacketConn: s.raw, s: s} }

// write sends a packet of this package.
func (s *Socket) write(b, _ []byte, to net.Addr) error {
	_, err := s.raw.WriteTo(b, to)
	return err
}
