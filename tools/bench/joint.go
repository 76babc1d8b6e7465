package main

import (
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// joint carries IPv4 packets between the regions of a network: TCP, UDP and QUIC meet
// the same line.
type joint struct {
	tuns  []*os.File
	wires [][]*wire // [from][to]
	ended sync.WaitGroup
}

// packet is on its way.
type packet struct {
	data *[]byte
	size int
	due  time.Time
}

// packets are kept for use again.
var packets = sync.Pool{New: func() any { b := make([]byte, 2048); return &b }}

// newJoint begins to carry packets, without delay or loss.
func newJoint(tuns []*os.File) *joint {
	j := &joint{tuns: tuns, wires: make([][]*wire, len(tuns))}
	for from := range tuns {
		for to := range tuns {
			w := newWire(uint64(from*len(tuns) + to))
			j.wires[from] = append(j.wires[from], w)
			j.ended.Go(func() { w.deliver(tuns[to]) })
		}
	}
	for from := range tuns {
		j.ended.Go(func() { j.read(from) })
	}
	return j
}

// set gives all lines their properties. Packets from one region to all others share
// one bottleneck.
func (j *joint) set(l line) {
	now := time.Now()
	for _, wires := range j.wires {
		neck := &bottleneck{}
		for _, w := range wires {
			w.set(l, neck, now)
		}
	}
}

// cut cuts all lines, or joins them again.
func (j *joint) cut(is bool) {
	for _, wires := range j.wires {
		for _, w := range wires {
			w.mu.Lock()
			w.isCut = is
			w.mu.Unlock()
		}
	}
}

// read takes what a region sends, until its device is closed.
func (j *joint) read(from int) {
	defer func() {
		for _, w := range j.wires[from] {
			close(w.held)
		}
	}()
	for {
		data := packets.Get().(*[]byte)
		size, err := j.tuns[from].Read(*data)
		if err != nil {
			return
		}
		to, ok := destination((*data)[:size])
		if !ok || to == from || to >= len(j.tuns) || !j.wires[from][to].send(data, size) {
			packets.Put(data)
		}
	}
}

// destination is the region that a packet is for.
func destination(p []byte) (region int, ok bool) {
	const header, version = 20, 4 // of IPv4
	if len(p) < header || p[0]>>4 != version || p[16] != 10 || p[17] != 77 || p[18] != 0 || p[19] == 0 {
		return 0, false
	}
	return int(p[19]) - 1, true
}

// close waits until nothing is carried any more. The devices must be closed before.
func (j *joint) close() { j.ended.Wait() }

// bottleneck is what packets queue for.
type bottleneck struct {
	mu   sync.Mutex
	free time.Time // when it has sent all that waits
}

// queueTime is how long packets wait at a bottleneck before more are dropped.
const queueTime = 50 * time.Millisecond

// take gives when a packet has left, or that it is dropped.
func (b *bottleneck) take(now time.Time, size int, bits float64) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free.Before(now) {
		b.free = now
	}
	if b.free.Sub(now) > queueTime {
		return time.Time{}, false
	}
	b.free = b.free.Add(time.Duration(float64(size) * 8 / bits * float64(time.Second)))
	return b.free, true
}

// wire is one way from one region to another.
type wire struct {
	held chan packet // 32,768 packets of 1,500 bytes: 200 MB/s for a quarter of a second

	mu    sync.Mutex
	luck  *rand.Rand
	line  line
	neck  *bottleneck
	since time.Time
	isCut bool
}

func newWire(seed uint64) *wire {
	return &wire{held: make(chan packet, 1<<15), luck: rand.New(rand.NewPCG(5, seed)), neck: &bottleneck{}}
}

func (w *wire) set(l line, neck *bottleneck, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line, w.neck, w.since, w.isCut = l, neck, now, false
}

// fate tells when a packet that is sent now arrives, and whether it does. Packets do
// not overtake each other.
func (w *wire) fate(now time.Time, size int) (due time.Time, arrives bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.line
	if luck := w.luck.Float64(); w.isCut || luck < l.loss {
		return due, false
	}
	if l.bursts && now.Sub(w.since)%burstEvery < burstTime {
		return due, false
	}
	if l.bits > 0 {
		left, ok := w.neck.take(now, size, l.bits)
		return left.Add(l.rtt / 2), ok
	}
	return now.Add(l.rtt / 2), true
}

// send puts a packet on the wire, which then owns it, unless it is lost.
func (w *wire) send(data *[]byte, size int) bool {
	due, ok := w.fate(time.Now(), size)
	if !ok {
		return false
	}
	select {
	case w.held <- packet{data, size, due}:
		return true
	default:
		return false
	}
}

// deliver writes packets when they are due, until the wire ends.
func (w *wire) deliver(to *os.File) {
	for p := range w.held {
		time.Sleep(time.Until(p.due))
		// A device refuses packets when it is full, as networks do.
		_, _ = to.Write((*p.data)[:p.size])
		packets.Put(p.data)
	}
}
