//go:build linux || darwin || freebsd

package fec

import (
	"net"

	"golang.org/x/net/ipv4"
)

const (
	// maxRows bounds the rows that are read at once.
	maxRows = 8
	// rowBuffer holds the longest row that Linux gives: as much as one datagram may have.
	rowBuffer = 64 << 10
	// rowControl holds the control messages of a row: those that quic-go asks for, and the
	// size of the datagrams.
	rowControl = 192
)

// rows are datagrams that came and were not taken yet. Linux gives those that come one
// after the other on the same way as one row, if it is asked (UDP_GRO, udp(7)): on fast
// lines and on the loopback, where a row is what the peer sent in one piece, to read them
// one by one costs several times as much. Elsewhere a row is one datagram.
type rows struct {
	messages []ipv4.Message
	ready    []ipv4.Message // of these, read and not taken
	rest     []byte         // of the first of ready
	size     int            // of the datagrams in rest; the last one may be shorter
	oob      []byte         // what the first of ready says of each of them
}

// init makes room, for long rows if there may be some.
func (r *rows) init(merged bool) {
	size := maxDatagram + 1
	if merged {
		size = rowBuffer
	}
	r.messages = make([]ipv4.Message, maxRows)
	for i := range r.messages {
		r.messages[i] = ipv4.Message{Buffers: [][]byte{make([]byte, size)}, OOB: make([]byte, rowControl)}
	}
}

// read waits for rows. There must be none left.
func (r *rows) read(c *ipv4.PacketConn, flags int) error {
	n, err := c.ReadBatch(r.messages, flags)
	if err != nil {
		return err
	}
	r.ready = r.messages[:max(n, 0)]
	r.enter()
	return nil
}

// enter begins with the first of ready.
func (r *rows) enter() {
	if len(r.ready) == 0 {
		return
	}
	m := &r.ready[0]
	r.rest = m.Buffers[0][:m.N]
	r.size, r.oob = splitSize(m.OOB[:m.NN])
	if r.size <= 0 {
		r.size = len(r.rest)
	}
}

// datagram is one of a row: both slices are valid until the next read.
type datagram struct {
	bytes, oob []byte
	from       net.Addr
	flags      int
}

// next takes the next datagram.
func (r *rows) next() (datagram, bool) {
	if len(r.ready) == 0 {
		return datagram{}, false
	}
	m := &r.ready[0]
	n := min(r.size, len(r.rest))
	d := datagram{r.rest[:n:n], r.oob, m.Addr, m.Flags}
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.ready = r.ready[1:]
		r.enter()
	}
	return d, true
}
