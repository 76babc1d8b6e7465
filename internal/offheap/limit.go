package offheap

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// step is by how much what is held has to change before the runtime is told: each
// telling stops the process for some microseconds.
const step = 16 << 20

var (
	held atomic.Int64 // bytes outside the heap

	mu    sync.Mutex
	limit int64 // of the whole process; 0: none
	told  int64 // what was taken off the limit last
)

// Limit makes n bytes the limit of the runtime's memory and of what is held outside
// its heap together. It is one at which garbage is collected harder, not one at which
// requests fail. 0: the runtime's limit stays as it is.
func Limit(n int64) {
	mu.Lock()
	defer mu.Unlock()
	limit, told = n, -step
	tell()
}

// Add says that n bytes more are held outside the heap, or fewer if n is negative.
func Add(n int64) {
	now := held.Add(n)
	if now/step == (now-n)/step {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	tell()
}

// Held gives how many bytes are held outside the heap.
func Held() int64 { return held.Load() }

// tell sets the runtime's limit. At least half of the limit stays the heap's: below
// that a process would do little but collect garbage. Call with mu held.
func tell() {
	if off := held.Load() / step * step; limit > 0 && off != told {
		told = off
		debug.SetMemoryLimit(max(limit-off, limit/2))
	}
}
