//go:build unix

package kafka

import "syscall"

// errWouldBlock says that nothing has come yet.
const errWouldBlock = syscall.EAGAIN

// readNow reads what has come, without waiting.
func readNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
