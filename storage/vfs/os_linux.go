package vfs

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// maxVectors is Linux's limit of buffers in one pwritev (UIO_MAXIOV).
const maxVectors = 1024

// control runs fn with the descriptor, which cannot be closed meanwhile.
func (f *osFile) control(op string, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		// The only reason; its error is package poll's own.
		return &fs.PathError{Op: op, Path: f.Name(), Err: fs.ErrClosed}
	}
	if inner != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: inner}
	}
	return nil
}

// WriteVec writes with pwritev.
func (f *osFile) WriteVec(off int64, bufs [][]byte) error {
	return f.control("pwritev", func(fd int) error {
		for len(bufs) > 0 {
			n := min(len(bufs), maxVectors)
			written, err := unix.Pwritev(fd, bufs[:n], off)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return err
			}
			off += int64(written)
			done := 0
			for done < n && written >= len(bufs[done]) {
				written -= len(bufs[done])
				done++
			}
			bufs = bufs[done:]
			if written == 0 {
				if done == 0 {
					return io.ErrShortWrite
				}
				continue
			}
			// The system took only a part of this buffer: finish it alone.
			if err := pwriteAll(fd, bufs[0][written:], off); err != nil {
				return err
			}
			off += int64(len(bufs[0]) - written)
			bufs = bufs[1:]
		}
		return nil
	})
}

func pwriteAll(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, off)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrShortWrite
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// readAhead uses posix_fadvise, which reads in large pieces and comes back at once.
func (f *osFile) readAhead(off, n int64) {
	_ = f.control("fadvise", func(fd int) error { return unix.Fadvise(fd, off, n, unix.FADV_WILLNEED) }) // only advice
}

// Sync uses fdatasync, which includes a changed size but not times.
func (f *osFile) Sync() error {
	return f.control("fdatasync", func(fd int) error {
		return ignoringInterrupts(func() error { return unix.Fdatasync(fd) })
	})
}

// Allocate uses fallocate where the file system has it.
func (f *osFile) Allocate(size int64) error {
	err := f.control("fallocate", func(fd int) error {
		return ignoringInterrupts(func() error { return unix.Fallocate(fd, 0, 0, size) })
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.grow(size)
	}
	return err
}
