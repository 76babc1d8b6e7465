package fec

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

const (
	// window is of how many groups packets are kept: parity comes while the group
	// after it does.
	window = 32
	// memory is of how many groups it is known which packets were delivered. What is
	// older is dropped: it could come a second time.
	memory = 512
)

// Budget bounds the bytes that all decoders of a socket keep. The zero Budget is of
// [MaxKept] bytes.
type Budget struct{ used atomic.Int64 }

// MaxKept is how many bytes of packets a socket keeps to recover others.
const MaxKept = 32 << 20

// take reserves a packet's buffer, and reports false if none is left.
func (b *Budget) take() bool {
	if b.used.Add(maxShard) > MaxKept {
		b.used.Add(-maxShard)
		return false
	}
	return true
}

func (b *Budget) give() { b.used.Add(-maxShard) }

// decoder unwraps the packets of one direction and recovers lost ones. It has no
// clock and no goroutine, and is not safe for concurrent use.
type decoder struct {
	key    *key
	budget *Budget

	begun   bool
	highest uint64 // group number
	known   int    // packets of the last group of which that is known
	groups  [window]group
	had     [memory]uint64 // which packets of a group were delivered, a bit for each
	free    [][]byte

	counts Counts // of groups that left the window
}

// group is what is kept of one.
type group struct {
	number uint64
	used   bool
	count  int // data packets in it, 0 if not known yet
	size   int // of its parity, 0 if none came
	data   [MaxData][]byte
	parity [MaxParity][]byte
	rows   uint32 // which of parity are there
	came   int    // packets that did
	back   int    // packets that were recovered
}

// data unwraps a packet. It reports false for one that is not of this session, or
// that was delivered before. The slice is part of the datagram.
func (d *decoder) data(datagram []byte) ([]byte, *group, bool) {
	var h header
	h.get(datagram)
	number := fullNumber(h.group, d.highest)
	body, ok := d.key.open(datagram, number)
	if !ok || len(body) < headerSize+lengthSize || h.index >= MaxData {
		return nil, nil, false
	}
	shard := body[headerSize:]
	packet := shard[lengthSize:]
	if int(binary.BigEndian.Uint16(shard)) != len(packet) || !d.advance(number) {
		return nil, nil, false
	}
	had, bit := &d.had[number%memory], uint64(1)<<h.index
	if *had&bit != 0 {
		return nil, nil, false
	}
	*had |= bit
	if before := d.at(number - 1); before != nil && h.a != 0 && number > 0 {
		d.learn(before, int(h.a))
	}
	g := d.at(number)
	if g == nil {
		return packet, nil, true // too old to help others, not too old to be delivered
	}
	g.came++
	if h.index+1 == h.b {
		d.learn(g, int(h.b))
	}
	d.keep(&g.data[h.index], shard)
	return packet, g, true
}

// parity takes a parity packet in, and gives its group.
func (d *decoder) parity(datagram []byte) (*group, bool) {
	var h header
	h.get(datagram)
	number := fullNumber(h.group, d.highest)
	body, ok := d.key.open(datagram, number)
	size := len(body) - headerSize
	if !ok || size <= lengthSize || h.index >= MaxParity || h.a == 0 || h.a > MaxData || !d.advance(number) {
		return nil, false
	}
	g := d.at(number)
	if g == nil || g.parity[h.index] != nil || (g.size != 0 && g.size != size) {
		return nil, false
	}
	d.learn(g, int(h.a))
	if d.complete(g) {
		return g, true
	}
	g.size = size
	if d.keep(&g.parity[h.index], body[headerSize:]) {
		g.rows |= 1 << h.index
	}
	return g, true
}

// keep stores a copy, if the budget has room for it.
func (d *decoder) keep(to *[]byte, shard []byte) bool {
	if !d.budget.take() {
		return false
	}
	var b []byte
	if n := len(d.free); n > 0 {
		b, d.free = d.free[n-1], d.free[:n-1]
	} else {
		b = make([]byte, maxShard)
	}
	*to = b[:copy(b[:maxShard], shard)]
	return true
}

// learn sets how many packets a group has.
func (d *decoder) learn(g *group, count int) {
	if g.count == 0 && count <= MaxData {
		g.count, d.known = count, count
	}
}

// complete reports whether all packets of a group were delivered, and lets go of it.
func (d *decoder) complete(g *group) bool {
	if g.count == 0 || bits.OnesCount64(d.had[g.number%memory]) < g.count {
		return false
	}
	d.release(g)
	return true
}

func (d *decoder) release(g *group) {
	for i := range g.data {
		d.drop(&g.data[i])
	}
	for i := range g.parity {
		d.drop(&g.parity[i])
	}
	g.rows = 0
}

func (d *decoder) drop(b *[]byte) {
	if *b == nil {
		return
	}
	if len(d.free) < 2*MaxData {
		d.free = append(d.free, *b)
	}
	*b = nil
	d.budget.give()
}

// advance moves the window up to a group. It reports false if that is too old.
func (d *decoder) advance(number uint64) bool {
	if !d.begun {
		d.begun, d.highest = true, number
		d.open(number)
		return true
	}
	if number <= d.highest {
		return d.highest-number < memory
	}
	if jump := number - d.highest; jump > memory {
		// Nothing of all that lies between came.
		d.counts.Expected += (jump - memory) * uint64(max(d.known, 1))
		d.highest = number - memory
	}
	for d.highest < number {
		d.highest++
		d.had[d.highest%memory] = 0
		d.open(d.highest)
	}
	return true
}

// open takes the place of the group that leaves the window, and counts that one.
func (d *decoder) open(number uint64) {
	g := &d.groups[number%window]
	if g.used {
		if g.count == 0 {
			g.count = max(d.known, bits.Len64(d.had[g.number%memory]))
		}
		d.counts.Expected += uint64(g.count)
		d.counts.Received += uint64(g.came)
		d.counts.Recovered += uint64(g.back)
		d.release(g)
	}
	*g = group{number: number, used: true}
}

// at gives a group of the window, nil if it is not there.
func (d *decoder) at(number uint64) *group {
	if g := &d.groups[number%window]; g.used && g.number == number {
		return g
	}
	return nil
}

// close gives back what is kept.
func (d *decoder) close() {
	for i := range d.groups {
		d.release(&d.groups[i])
	}
}
