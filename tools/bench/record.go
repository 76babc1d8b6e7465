package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// A record begins with a header, little-endian, and goes on with text:
//
//	 0  int64   when it was due, Unix ns
//	 8  uint32  lane
//	12  uint32  number in its lane, from 0
//	16  uint32  run, so that records of another run are told apart
const headerSize = 20

// batch is some records of one lane that are sent together. Its memory is used
// again when all of them are answered.
type batch struct {
	lane   int32
	values [][]byte
	due    []int64
	left   atomic.Int32 // records that are not answered
	own    any          // what the client keeps with it
}

func newBatch(records, size int, text []byte, at int) *batch {
	b := &batch{values: make([][]byte, records), due: make([]int64, records)}
	for i := range b.values {
		b.values[i] = make([]byte, size)
		copy(b.values[i], text[(at+i*size)%(len(text)-size):])
	}
	return b
}

// stamp writes the header of record i.
func (b *batch) stamp(i int, due int64, seq, run uint32) {
	v := b.values[i]
	b.due[i] = due
	binary.LittleEndian.PutUint64(v, uint64(due))
	binary.LittleEndian.PutUint32(v[8:], uint32(b.lane))
	binary.LittleEndian.PutUint32(v[12:], seq)
	binary.LittleEndian.PutUint32(v[16:], run)
}

// payload is text as events have it: it shrinks to about half by snappy.
func payload() []byte {
	const size = 4 << 20
	rng := rand.New(rand.NewPCG(3, 4))
	pages := []string{"home", "search", "cart", "checkout", "account", "help"}
	b := make([]byte, 0, size+256)
	for len(b) < size {
		b = fmt.Appendf(b, `{"id":"%012x","user":%d,"page":"/%s/%d","ms":%d,"agent":"Mozilla/5.0"}`,
			rng.Uint64()>>16, rng.IntN(1_000_000), pages[rng.IntN(len(pages))], rng.IntN(5000), rng.IntN(3000))
	}
	return b
}

// checker judges what a consumer gets.
type checker struct {
	run   uint32
	lanes []laneCheck

	Received   int64 `json:"received"`
	Repeated   int64 `json:"repeated"`
	Disordered int64 `json:"disordered"`
	Foreign    int64 `json:"foreign,omitempty"` // not of this run
}

// laneCheck has a bit for each record that was seen.
type laneCheck struct {
	seen []uint64
	next uint32
}

func newChecker(run uint32, lanes int) *checker {
	return &checker{run: run, lanes: make([]laneCheck, lanes)}
}

// look takes a record and gives when it was due. New tells that it is one that
// was not there yet.
func (c *checker) look(v []byte) (due int64, isNew bool) {
	if len(v) < headerSize || binary.LittleEndian.Uint32(v[16:]) != c.run {
		c.Foreign++
		return 0, false
	}
	lane, seq := binary.LittleEndian.Uint32(v[8:]), binary.LittleEndian.Uint32(v[12:])
	if int(lane) >= len(c.lanes) {
		c.Foreign++
		return 0, false
	}
	l := &c.lanes[lane]
	for int(seq/64) >= len(l.seen) {
		l.seen = append(l.seen, 0)
	}
	bit := uint64(1) << (seq % 64)
	if l.seen[seq/64]&bit != 0 {
		c.Repeated++
		return 0, false
	}
	l.seen[seq/64] |= bit
	if seq < l.next {
		c.Disordered++
	}
	l.next = max(l.next, seq+1)
	c.Received++
	return int64(binary.LittleEndian.Uint64(v)), true
}
