package kafka

import (
	"math/bits"
	"sync"
)

// Bodies of Produce requests are most of what a server allocates, so they are
// used again once the region is done with them. The sizes of buffers are four
// to a power of two, so that one is at most a quarter longer than its content. Those
// above maxPooled are the system's own memory ([rooms]): as garbage a few of them, which
// come and go, would be several times the budget.
const (
	minShift  = 12
	maxShift  = 22
	minPooled = 1 << minShift
	maxPooled = 1 << maxShift
	sizeSteps = 4 // to a power of two
)

var pooled [sizeSteps*(maxShift-minShift) + 1]sync.Pool // of *buffer

// buffer is room for the body of a request.
type buffer struct {
	bytes  []byte // of the length that was asked for
	class  int    // in pooled; -1 if it is not kept
	mapped []byte // what home takes back, nil if it is not the system's
	home   *rooms
}

// sizeClass gives the class of buffers for n bytes, -1 above maxPooled, and their size.
func sizeClass(n int64) (class int, size int64) {
	switch {
	case n <= minPooled:
		return 0, minPooled
	}
	top := bits.Len64(uint64(n-1)) - 1 // n-1 lies in [2^top, 2^(top+1))
	step := int64(1) << (top - 2)
	steps := (n - 1 - 1<<top) / step // whole steps after 2^top
	class, size = (top-minShift)*sizeSteps+int(steps)+1, 1<<top+(steps+1)*step
	if n > maxPooled {
		class = -1
	}
	return class, size
}

// newBuffer gives a buffer for n bytes. Its content is anything.
func newBuffer(n int64, home *rooms) *buffer {
	class, size := sizeClass(n)
	if class >= 0 {
		if b, ok := pooled[class].Get().(*buffer); ok {
			b.bytes = b.bytes[:n]
			return b
		}
	} else if b := home.get(size); b != nil {
		return &buffer{bytes: b[:n], class: class, mapped: b, home: home}
	}
	return &buffer{bytes: make([]byte, size)[:n], class: class}
}

// free takes a buffer back, nil for none. Nobody may use its bytes any more.
func (b *buffer) free() {
	switch {
	case b == nil:
	case b.mapped != nil:
		b.home.put(b.mapped)
		b.bytes, b.mapped = nil, nil
	case b.class >= 0:
		pooled[b.class].Put(b)
	}
}
