package kafka

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// readBuffer holds small requests; the bodies of large ones bypass it.
const readBuffer = 16 << 10

var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

// reader reads a connection through a buffer that it has only while there are
// bytes in it: most connections wait for most of the time, and then it holds none.
// The connection's reader owns it.
type reader struct {
	nc  net.Conn
	raw syscall.RawConn // of a TCP connection; others buffer by themselves, or need not
	buf *[readBuffer]byte
	pos int // buf[pos:end] is not read yet
	end int
}

func newReader(nc net.Conn) *reader {
	r := &reader{nc: nc}
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			r.raw = raw
		}
	}
	return r
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.pos == r.end {
		if r.raw == nil || len(p) >= readBuffer {
			return r.nc.Read(p)
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.pos:r.end])
	if r.pos += n; r.pos == r.end {
		r.drop()
	}
	return n, nil
}

// fill waits for bytes without a buffer, and takes one when there are some.
func (r *reader) fill() error {
	var n int
	var failed error
	err := r.raw.Read(func(fd uintptr) (done bool) {
		r.buf = readBuffers.Get().(*[readBuffer]byte)
		if n, failed = readNow(fd, r.buf[:]); failed == errWouldBlock {
			r.drop()
			return false
		}
		return true
	})
	switch {
	case err != nil: // a deadline, or closed; there is no buffer
	case failed != nil:
		err = failed
		r.drop()
	case n == 0:
		err = io.EOF
		r.drop()
	default:
		r.pos, r.end = 0, n
	}
	return err
}

func (r *reader) drop() {
	readBuffers.Put(r.buf)
	r.buf, r.pos, r.end = nil, 0, 0
}
