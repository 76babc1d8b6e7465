package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// osDirect reads past the page cache: the same file, opened for that at the first read.
type osDirect struct {
	mu     sync.Mutex
	file   *osFile // has only its os.File; nil until it is opened
	unable bool    // the file system does not do it, or the file is closed
}

// ReadDirect reads with O_DIRECT and preadv.
func (f *osFile) ReadDirect(off int64, bufs [][]byte) (int64, error) {
	d, err := f.openDirect()
	if err != nil {
		return 0, err
	}
	done := int64(0)
	err = d.control("preadv", func(fd int) error {
		done, err = preadBlocks(fd, off, bufs)
		return err
	})
	switch {
	case errors.Is(err, unix.EINVAL):
		f.direct.mu.Lock()
		f.direct.unable = true // what cannot be opened so, is refused by open; this, by the first read
		f.direct.mu.Unlock()
		return 0, ErrNoDirect
	case errors.Is(err, io.EOF):
		return done, io.EOF
	}
	return done, err
}

func (f *osFile) openDirect() (*osFile, error) {
	d := &f.direct
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unable {
		return nil, ErrNoDirect
	}
	if d.file != nil {
		return d.file, nil
	}
	fd := -1
	err := f.control("open", func(own int) error {
		return ignoringInterrupts(func() (err error) {
			fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", own), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
			return err
		})
	})
	switch {
	case errors.Is(err, fs.ErrClosed):
		return nil, err
	case err != nil: // EINVAL where there is no such thing, others without /proc
		d.unable = true
		return nil, ErrNoDirect
	}
	d.file = &osFile{File: os.NewFile(uintptr(fd), f.Name())}
	return d.file, nil
}

// preadBlocks fills bufs. A read that is short and ends at the border of a block is gone on
// with; another one is at the end of the file.
func preadBlocks(fd int, off int64, bufs [][]byte) (done int64, err error) {
	for {
		rest, k := done, 0
		for k < len(bufs) && rest >= int64(len(bufs[k])) {
			rest -= int64(len(bufs[k]))
			k++
		}
		if k == len(bufs) {
			return done, nil
		}
		vec := bufs[k:min(len(bufs), k+maxVectors)]
		if rest > 0 {
			vec = append([][]byte{bufs[k][rest:]}, vec[1:]...)
		}
		n, err := unix.Preadv(fd, vec, off+done)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return done, err
		}
		done += int64(n)
		if n == 0 || n%TailBlock != 0 {
			return done, io.EOF
		}
	}
}

func (d *osDirect) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file != nil {
		_ = d.file.File.Close() // only read from
	}
	d.file, d.unable = nil, true
}
