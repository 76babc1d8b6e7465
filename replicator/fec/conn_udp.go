//go:build linux || darwin || freebsd

package fec

import (
	"errors"
	"net"
	"os"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

func newConn(s *Socket) net.PacketConn {
	if udp, ok := s.raw.(*net.UDPConn); ok {
		return newUDPConn(s, udp)
	}
	return &plainConn{PacketConn: s.raw, s: s}
}

// write sends a packet of this package.
func (s *Socket) write(b, oob []byte, to net.Addr) error {
	udp, ok := s.raw.(*net.UDPConn)
	if !ok {
		_, err := s.raw.WriteTo(b, to)
		return err
	}
	_, _, err := udp.WriteMsgUDP(b, oob, to.(*net.UDPAddr))
	if errors.Is(err, unix.EMSGSIZE) {
		return errTooLong
	}
	return err
}

// udpConn corrects over a UDP socket. It offers all that quic-go uses of the bare one:
// control messages (ECN, the local address), segmentation offload on the way out and,
// by ReadBatch, batches on the way in. quic-go reads with one goroutine.
type udpConn struct {
	*net.UDPConn
	s     *Socket
	batch *ipv4.PacketConn
	queue queue
	rows  rows
}

func newUDPConn(s *Socket, udp *net.UDPConn) *udpConn {
	c := &udpConn{UDPConn: udp, s: s, batch: ipv4.NewPacketConn(udp)}
	c.rows.init(askRows(udp))
	return c
}

// ReadBatch fills messages with what QUIC is to see, at least one. It has the signature of
// [ipv4.PacketConn.ReadBatch], which serves IPv6 sockets as well.
func (c *udpConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		n := c.drain(ms)
		for n < len(ms) {
			d, ok := c.rows.next()
			if !ok {
				break
			}
			if c.give(&ms[n], &d) {
				n++
			}
			n += c.drain(ms[n:])
		}
		if n > 0 || len(ms) == 0 {
			return n, nil
		}
		if err := c.rows.read(c.batch, flags); err != nil {
			return 0, err
		}
	}
}

// give fills a message with the QUIC packet of a datagram, if it has one.
func (c *udpConn) give(m *ipv4.Message, d *datagram) bool {
	packet := d.bytes
	if isPacket(packet) {
		packet = c.unwrap(*d)
	}
	if packet == nil || len(packet) > len(m.Buffers[0]) { // QUIC makes none as long
		return false
	}
	m.N, m.NN, m.Flags, m.Addr = copy(m.Buffers[0], packet), copy(m.OOB, d.oob), d.flags, d.from
	return true
}

// unwrap gives the QUIC packet of one of this package's, nil if it has none.
func (c *udpConn) unwrap(d datagram) []byte {
	return c.s.receive(d.bytes, func(p []byte) { c.queue.put(p, d.oob, d.from) })
}

// drain fills messages with recovered packets.
func (c *udpConn) drain(ms []ipv4.Message) int {
	for i := range ms {
		e, ok := c.queue.take()
		if !ok {
			return i
		}
		m := &ms[i]
		m.N, m.NN, m.Flags, m.Addr = copy(m.Buffers[0], e.packet), copy(m.OOB, e.oob), 0, e.from
	}
	return len(ms)
}

// WriteMsgUDP sends what QUIC sends: one packet, or several of one size.
func (c *udpConn) WriteMsgUDP(b, oob []byte, to *net.UDPAddr) (int, int, error) {
	if c.s.active.Load() > 0 {
		if p := c.s.pathOf(to); p != nil {
			return c.send(p, b, oob, to)
		}
	}
	if len(b) > widestIPv6 && to.IP.To4() == nil && segmentSize(oob) == 0 {
		return 0, 0, os.NewSyscallError("sendmsg", unix.EMSGSIZE)
	}
	return c.UDPConn.WriteMsgUDP(b, oob, to)
}

// widestIPv6 is the longest QUIC packet that fits into 1500 bytes when it is wrapped,
// over IPv6: path MTU discovery must not find a longer one. IPv4 leaves room enough.
const widestIPv6 = 1500 - 40 - 8 - Overhead

// send gives QUIC packets to a path one by one, if it corrects.
func (c *udpConn) send(p *path, b, oob []byte, to *net.UDPAddr) (int, int, error) {
	size := segmentSize(oob)
	if size == 0 {
		size = len(b)
		if size > widestIPv6 && to.IP.To4() == nil {
			return 0, 0, os.NewSyscallError("sendmsg", unix.EMSGSIZE)
		}
	}
	single := withoutSegments(oob)
	for at := 0; at < len(b); {
		end := min(at+size, len(b))
		taken, err := c.s.send(p, b[at:end], single)
		switch {
		case err != nil:
			return at, 0, err
		case !taken && at == 0:
			return c.UDPConn.WriteMsgUDP(b, oob, to)
		case !taken:
			if _, _, err := c.UDPConn.WriteMsgUDP(b[at:end], single, to); err != nil {
				return at, 0, err
			}
		}
		at = end
	}
	return len(b), len(oob), nil
}
