package fec

import (
	"errors"
	"net"
)

// errTooLong is what a socket says of a packet that is longer than its path takes.
var errTooLong = errors.New("fec: packet too long")

// queue holds recovered packets until QUIC reads them. It belongs to the one
// goroutine that reads.
type queue struct {
	waiting []queued
	free    []queued
}

type queued struct {
	packet, oob []byte
	from        net.Addr
}

// put copies a packet. oob is that of the packet by which it was recovered: what it
// says of the path holds for this one, too.
func (q *queue) put(packet, oob []byte, from net.Addr) {
	var e queued
	if n := len(q.free); n > 0 {
		e, q.free = q.free[n-1], q.free[:n-1]
	}
	e.packet, e.oob, e.from = append(e.packet[:0], packet...), append(e.oob[:0], oob...), from
	q.waiting = append(q.waiting, e)
}

// take gives the oldest one, valid until the next put.
func (q *queue) take() (queued, bool) {
	if len(q.waiting) == 0 {
		return queued{}, false
	}
	e := q.waiting[0]
	q.waiting = append(q.waiting[:0], q.waiting[1:]...)
	q.free = append(q.free, e)
	return e, true
}

// plainConn corrects over any socket, one packet at a time: those of simulated
// networks, and of systems without anything better.
type plainConn struct {
	net.PacketConn
	s     *Socket
	queue queue
	buf   [maxDatagram + 1]byte
}

// ReadFrom implements [net.PacketConn].
func (c *plainConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		if e, ok := c.queue.take(); ok {
			return copy(b, e.packet), e.from, nil
		}
		n, from, err := c.PacketConn.ReadFrom(c.buf[:]) // wrapped ones may be longer than b
		if err != nil || !isPacket(c.buf[:n]) {
			return copy(b, c.buf[:n]), from, err
		}
		packet := c.s.receive(c.buf[:n], func(p []byte) { c.queue.put(p, nil, from) })
		if packet != nil {
			return copy(b, packet), from, nil
		}
	}
}

// WriteTo implements [net.PacketConn].
func (c *plainConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.s.active.Load() > 0 {
		if p := c.s.pathOf(to); p != nil {
			if taken, err := c.s.send(p, b, nil); taken {
				return len(b), err
			}
		}
	}
	return c.PacketConn.WriteTo(b, to)
}

// SetReadBuffer and SetWriteBuffer are what QUIC asks a socket for; one that has no
// buffers needs none.
func (c *plainConn) SetReadBuffer(n int) error {
	if b, ok := c.PacketConn.(interface{ SetReadBuffer(int) error }); ok {
		return b.SetReadBuffer(n)
	}
	return nil
}

// SetWriteBuffer sets the size of the socket's send buffer.
func (c *plainConn) SetWriteBuffer(n int) error {
	if b, ok := c.PacketConn.(interface{ SetWriteBuffer(int) error }); ok {
		return b.SetWriteBuffer(n)
	}
	return nil
}
