//go:build unix

package kafka

import "golang.org/x/sys/unix"

// mapRoom gets n bytes from the system, nil if it has none. They take memory only as
// they are written to, and go back at once with unmapRoom: they are never garbage.
func mapRoom(n int64) []byte {
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func unmapRoom(b []byte) { _ = unix.Munmap(b) } // it fails for what is no mapping only
