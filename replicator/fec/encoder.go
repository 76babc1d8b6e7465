package fec

import (
	"encoding/binary"
	"time"
)

// Times of a group.
const (
	// groupTime is how long a group waits for more packets before it ends: a trickle
	// must not wait for a full one.
	groupTime = 5 * time.Millisecond
	// parityGap is the time between parity packets that no data packets space.
	parityGap = time.Millisecond
)

// encoder wraps the packets of one direction and makes their parity. It has no clock
// and no goroutine, and is not safe for concurrent use. What it returns is valid
// until the next call.
type encoder struct {
	key     *key
	session uint32
	code    Code // of the next group

	group uint64    // number of the open one
	now   Code      // of the open group
	count int       // packets in it
	began time.Time // it, if count > 0
	last  int       // packets of the group before
	size  int       // of the longest shard in it
	open  [][]byte  // parity packets under way, header included

	pending [][]byte // parity to be sent, sealed
	free    [][]byte // buffers
	since   int      // data packets since the last parity packet
	sent    time.Time
	scratch [maxDatagram]byte

	stats Sent
}

// Sent counts what an encoder made, in packets and in bytes on the wire (without IP
// and UDP).
type Sent struct {
	Data, DataBytes     uint64
	Parity, ParityBytes uint64
}

// add wraps a QUIC packet of up to maxPacket bytes.
func (e *encoder) add(now time.Time, packet []byte) []byte {
	if e.count == 0 {
		e.begin(now)
	}
	h := header{kind: typeData, session: e.session, group: uint32(e.group) & 0xffffff, index: byte(e.count),
		a: byte(e.last), b: byte(e.now.Data)}
	b := e.scratch[:headerSize+lengthSize+len(packet)]
	h.put(b)
	binary.BigEndian.PutUint16(b[headerSize:], uint16(len(packet)))
	copy(b[headerSize+lengthSize:], packet)
	shard := b[headerSize:]
	for r := range e.open {
		addShard(e.open[r][headerSize:headerSize+maxShard], r, e.count, shard)
	}
	e.size = max(e.size, len(shard))
	b = e.key.seal(b, e.group)
	e.count++
	e.since++
	e.stats.Data++
	e.stats.DataBytes += uint64(len(b))
	if e.count == e.now.Data {
		e.end()
	}
	return b
}

func (e *encoder) begin(now time.Time) {
	e.now, e.began, e.size = e.code, now, 0
	for range e.now.Parity {
		e.open = append(e.open, e.buffer())
	}
}

// buffer gives a cleared one.
func (e *encoder) buffer() []byte {
	n := len(e.free)
	if n == 0 {
		return make([]byte, maxDatagram)
	}
	b := e.free[n-1]
	e.free = e.free[:n-1]
	clear(b[:maxDatagram])
	return b[:maxDatagram]
}

// end closes the open group: its parity waits to be sent. One that ends early needs
// less of it, but more than its share: few packets are lost less evenly.
func (e *encoder) end() {
	parity := e.now.Parity
	if e.count < e.now.Data {
		parity = min(parity, 1+(parity*e.count+e.now.Data-1)/e.now.Data)
	}
	for r, b := range e.open {
		if r >= parity {
			e.free = append(e.free, b)
			continue
		}
		h := header{kind: typeParity, session: e.session, group: uint32(e.group) & 0xffffff, index: byte(r),
			a: byte(e.count), b: byte(parity)}
		h.put(b)
		e.pending = append(e.pending, e.key.seal(b[:headerSize+e.size], e.group))
	}
	e.open = e.open[:0]
	e.last, e.count = e.count, 0
	e.group++
}

// next gives a parity packet that is due, or nil and when to ask again (zero: not
// before the next add). Parity goes out between later data packets, so that it is
// neither a burst nor lost in the same one; without any, after a short time.
func (e *encoder) next(now time.Time) ([]byte, time.Time) {
	if e.count > 0 && now.Sub(e.began) >= groupTime {
		e.end()
	}
	if len(e.pending) > 0 {
		due := e.sent.Add(parityGap)
		spacing := max(1, e.now.Data/(2*max(1, e.now.Parity)))
		if len(e.pending) <= MaxParity && e.since < spacing && now.Before(due) {
			return nil, due
		}
		b := e.pending[0]
		copy(e.pending, e.pending[1:])
		e.pending = e.pending[:len(e.pending)-1]
		e.free = append(e.free, b) // nothing takes it before the next call
		e.since, e.sent = 0, now
		e.stats.Parity++
		e.stats.ParityBytes += uint64(len(b))
		return b, now
	}
	if e.count > 0 {
		return nil, e.began.Add(groupTime)
	}
	return nil, time.Time{}
}
