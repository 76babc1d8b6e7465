package fec

import (
	"encoding/binary"
	"math/bits"
)

// recover gives the lost packets of a group to deliver, if enough of it is there. The
// packets are valid until the next call to the decoder.
func (d *decoder) recover(g *group, deliver func(packet []byte)) {
	if d.complete(g) || g.count == 0 {
		return
	}
	had := &d.had[g.number%memory]
	missing := g.count - bits.OnesCount64(*had)
	if missing > bits.OnesCount32(g.rows) {
		return
	}
	var lost []int
	for c := range g.count {
		switch there := *had&(1<<c) != 0; {
		case !there:
			lost = append(lost, c)
		case g.data[c] == nil, len(g.data[c]) > g.size:
			return // the budget had no room for it, or the peer contradicts itself
		}
	}
	var rows []int
	var left [][]byte
	for r := range g.parity {
		if g.parity[r] != nil && len(rows) < len(lost) {
			rows, left = append(rows, r), append(left, g.parity[r])
		}
	}
	for i, r := range rows {
		for c := range g.count {
			if g.data[c] != nil {
				addShard(left[i], r, c, g.data[c])
			}
		}
	}
	solve(left, rows, lost)
	for i, c := range lost {
		*had |= 1 << c
		n := int(binary.BigEndian.Uint16(left[i]))
		if n == 0 || n > len(left[i])-lengthSize {
			continue // the peer made its parity of something else
		}
		g.back++
		deliver(left[i][lengthSize : lengthSize+n])
	}
	d.release(g)
}
