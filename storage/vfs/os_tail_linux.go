package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// directChunk is how much goes to the disk at a time.
const directChunk = 2 << 20

// osTail writes large tails past the page cache: with O_DIRECT, from memory and to
// places that lie on borders of blocks. So what the block of its beginning holds before
// it is written again, as the page cache would do, and its last block is filled up.
type osTail struct {
	mu     sync.Mutex
	fd     int // the same file, opened for that; valid if opened
	opened bool
	unable bool // the file system does not do it

	end  int64  // of the last WriteTail
	head []byte // what the block that holds end has before it
	good bool   // head is known
}

// directBuffer is memory that begins at the border of a block.
type directBuffer struct {
	b    []byte
	free func()
}

// directBuffers holds one. Most processes write one tail at a time; what more need is made
// and given up.
var directBuffers = make(chan directBuffer, 1)

func takeDirectBuffer() (d directBuffer) {
	select {
	case d = <-directBuffers:
	default:
		d.b, d.free = Huge(directChunk)
	}
	return d
}

func giveDirectBuffer(d directBuffer) {
	select {
	case directBuffers <- d:
	default:
		d.free()
	}
}

// WriteTail writes with O_DIRECT what is large and goes on where the last one ended.
func (f *osFile) WriteTail(off int64, bufs [][]byte) error {
	t := &f.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	end := off
	for _, b := range bufs {
		end += int64(len(b))
	}
	known := off%TailBlock == 0 || t.good && t.end == off
	if end-off >= DirectFrom && known && f.tailDirect(end) {
		if off%TailBlock == 0 {
			t.head = t.head[:0]
		}
		err := t.write(off, bufs)
		if err == nil {
			t.end, t.good = end, true
			return nil
		}
		t.good = false
		if !errors.Is(err, unix.EINVAL) {
			return &fs.PathError{Op: "pwrite", Path: f.Name(), Err: err}
		}
		t.unable = true // and written once more, in the usual way
	}
	if err := f.WriteVec(off, bufs); err != nil {
		t.good = false
		return err
	}
	t.remember(off, end, bufs)
	return nil
}

// remember keeps what a write left in the block that holds its end.
func (t *osTail) remember(off, end int64, bufs [][]byte) {
	border := end &^ (TailBlock - 1)
	if border < off && !(t.good && t.end == off) {
		t.good = false
		return
	}
	if border >= off {
		t.head = t.head[:0]
	}
	for _, b := range bufs {
		skip := min(int64(len(b)), max(0, border-off))
		t.head = append(t.head, b[skip:]...)
		off += int64(len(b))
	}
	t.end, t.good = end, true
}

// tailDirect reports whether a tail up to end can be written past the page cache; it opens
// the file for that. The caller holds mu.
func (f *osFile) tailDirect(end int64) bool {
	t := &f.tail
	size, err := f.Size()
	if t.unable || err != nil || (end+TailBlock-1)&^(TailBlock-1) > size {
		return false
	}
	if t.opened {
		return true
	}
	err = f.control("open", func(fd int) (err error) {
		t.fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
		return err
	})
	t.opened, t.unable = err == nil, err != nil
	return t.opened
}

// write puts what the first block has before it, bufs, and zeros into whole blocks, and
// those to their place. It leaves in head what the last block has of it.
func (t *osTail) write(off int64, bufs [][]byte) error {
	buffer := takeDirectBuffer()
	defer giveDirectBuffer(buffer)
	chunk := buffer.b
	at := off - int64(len(t.head))
	n := copy(chunk, t.head)
	for _, b := range bufs {
		for len(b) > 0 {
			took := copy(chunk[n:], b)
			b, n = b[took:], n+took
			if n < len(chunk) {
				continue
			}
			if err := pwriteBlocks(t.fd, chunk, at); err != nil {
				return err
			}
			at, n = at+int64(n), 0
		}
	}
	border := n &^ (TailBlock - 1)
	t.head = append(t.head[:0], chunk[border:n]...)
	if n == 0 {
		return nil
	}
	whole := (n + TailBlock - 1) &^ (TailBlock - 1)
	clear(chunk[n:whole])
	return pwriteBlocks(t.fd, chunk[:whole], at)
}

// pwriteBlocks is pwriteAll for whole blocks: a short write that does not end at a
// border of one is an error.
func pwriteBlocks(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, off)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0 || n%TailBlock != 0:
			return io.ErrShortWrite
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// WriteAt is os.File's. What WriteTail remembers of the file may be wrong after it.
func (f *osFile) WriteAt(b []byte, off int64) (int, error) {
	f.tail.forget()
	return f.File.WriteAt(b, off)
}

// Truncate is os.File's, with the same reservation.
func (f *osFile) Truncate(size int64) error {
	f.tail.forget()
	return f.File.Truncate(size)
}

func (t *osTail) forget() {
	t.mu.Lock()
	t.good = false
	t.mu.Unlock()
}

// EndTail closes what large tails were written with. Another one would go through the cache.
func (f *osFile) EndTail() {
	t := &f.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened {
		_ = unix.Close(t.fd) // what it wrote, Sync answers for
	}
	t.opened, t.unable, t.good, t.head = false, true, false, nil
}

// Close closes all that was opened for the file.
func (f *osFile) Close() error {
	f.EndTail()
	f.direct.close()
	return f.File.Close()
}
