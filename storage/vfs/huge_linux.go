package vfs

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rhumbmq/rhumb/internal/offheap"
)

// hugePage is the size of a large page on usual processors.
const hugePage = 2 << 20

// Huge makes n bytes of memory as [Aligned], in pages as large as the system has: what
// reads and writes past the page cache costs three times as much with small ones. It is
// not the collector's, and counts as held outside its heap (package offheap), whether
// it was used yet or not; free gives it back, once nobody uses it.
func Huge(n int) (b []byte, free func()) {
	m, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return Aligned(n), func() {}
	}
	offheap.Add(int64(n))
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // only advice
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(m)))) & (hugePage - 1)
	return m[skip : skip+n : skip+n], func() {
		offheap.Add(-int64(n))
		_ = unix.Munmap(m) // of what was mapped: it cannot fail
	}
}
