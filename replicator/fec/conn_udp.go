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
		return &udpConn{UDPConn: udp, s: s, batch: ipv4.NewPacketConn(udp)}
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
	parts [maxBatch][2][]byte // where packets of a batch are read to
	mine  [maxBatch][][]byte  // the caller's, meanwhile
	tails [maxBatch][maxDatagram]byte
	whole [maxDatagram]byte
}

// maxBatch bounds the packets that are read at once.
const maxBatch = 32

// ReadBatch fills messages with what QUIC is to see. It has the signature of
// [ipv4.PacketConn.ReadBatch], which serves IPv6 sockets as well.
func (c *udpConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		if n := c.drain(ms); n > 0 {
			return n, nil
		}
		ms := ms[:min(len(ms), maxBatch)]
		n, err := c.read(ms, flags)
		if err != nil || n <= 0 {
			return n, err
		}
		kept := 0
		for i := range ms[:n] {
			m := &ms[i]
			if m.N > 0 && isPacket(m.Buffers[0]) {
				if !c.unwrap(m, c.tails[i][:]) {
					continue
				}
			} else if m.N > len(m.Buffers[0]) { // QUIC makes none as long
				continue
			}
			if kept != i {
				move(&ms[kept], &ms[i])
			}
			kept++
		}
		if kept += c.drain(ms[kept:]); kept > 0 {
			return kept, nil
		}
	}
}

// read fills messages with what comes. Wrapped packets may be longer than QUIC's buffers:
// their ends go to tails.
func (c *udpConn) read(ms []ipv4.Message, flags int) (int, error) {
	for i := range ms {
		c.mine[i] = ms[i].Buffers
		c.parts[i] = [2][]byte{ms[i].Buffers[0], c.tails[i][:]}
		ms[i].Buffers = c.parts[i][:]
	}
	n, err := c.batch.ReadBatch(ms, flags)
	for i := range ms {
		ms[i].Buffers = c.mine[i]
	}
	return n, err
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

// unwrap puts the QUIC packet of a message in its place, if it has one.
func (c *udpConn) unwrap(m *ipv4.Message, tail []byte) bool {
	buf := m.Buffers[0]
	datagram := buf[:min(m.N, len(buf))]
	if m.N > len(buf) {
		datagram = append(append(c.whole[:0], buf...), tail[:min(m.N-len(buf), len(tail), maxDatagram-len(buf))]...)
	}
	packet := c.s.receive(datagram, func(p []byte) { c.queue.put(p, m.OOB[:m.NN], m.Addr) })
	if packet == nil {
		return false
	}
	m.N = copy(buf, packet)
	return true
}

// move copies a message; the buffers stay where they are, since the caller knows them
// by their place.
func move(to, from *ipv4.Message) {
	to.N, to.NN = copy(to.Buffers[0], from.Buffers[0][:from.N]), copy(to.OOB, from.OOB[:from.NN])
	to.Flags, to.Addr = from.Flags, from.Addr
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
