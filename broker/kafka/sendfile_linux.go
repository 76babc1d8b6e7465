package kafka

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// canSendFile tells if sendFile does something here.
const canSendFile = true

// sendFile has the kernel send n bytes of a file from pos on (sendfile(2), with a
// position of its own, so that many may send from one open file). It waits as long as
// the connection's write deadline allows.
func sendFile(tcp *net.TCPConn, file syscall.RawConn, pos int64, n int) error {
	dst, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	left := n
	var failed error
	err = dst.Write(func(to uintptr) bool {
		for left > 0 {
			var sent int
			var errno error
			if err := file.Control(func(from uintptr) { sent, errno = unix.Sendfile(int(to), int(from), &pos, left) }); err != nil {
				failed = fmt.Errorf("%w: %w", errUnreadable, err)
				return true
			}
			switch {
			case errno == unix.EINTR:
			case errno == unix.EAGAIN:
				return false
			case errors.Is(errno, unix.EPIPE) || errors.Is(errno, unix.ECONNRESET):
				failed = errno
				return true
			case errno != nil && left == n && (errno == unix.EINVAL || errno == unix.ENOSYS || errno == unix.EOPNOTSUPP):
				failed = errNoSendFile
				return true
			case errno != nil:
				failed = fmt.Errorf("%w: sendfile: %w", errUnreadable, errno)
				return true
			case sent == 0:
				failed = fmt.Errorf("%w: %w", errUnreadable, io.ErrUnexpectedEOF)
				return true
			default:
				left -= sent
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return err
}
