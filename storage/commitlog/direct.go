package commitlog

import (
	"fmt"
	"io"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Fixed tells up to where the bytes of a file are on disk and stay what they are, as long
// as it has its id: what ReadDirect may read. Of the last file that was flushed, the block
// that holds the end is written once more with what follows. It is 0 if the file is gone,
// or if most of it went through the system's page cache and is likely to be there still.
func (l *Log) Fixed(file uint64) int64 {
	flushed := l.Flushed()
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	f := l.files.m[file]
	if f == nil || f.removed || f.cached > f.end/2 {
		return 0
	}
	return f.fixed(flushed)
}

// fixed is Fixed, under fileSet.mu.
func (f *logFile) fixed(flushed Mark) int64 {
	switch {
	case f.id < flushed.File && !f.active:
		return f.end
	case f.id == flushed.File:
		return min(f.end, flushed.Pos) &^ (vfs.TailBlock - 1)
	}
	return 0
}

// ReadDirect fills bufs from off on, past the system's page cache, and tells how much of
// it counts: less than asked at the end of what is [Log.Fixed]. See [vfs.File] for what
// bufs and off must be. [ErrRemoved] says that the file is gone, vfs.ErrNoDirect that the
// file system does not do it. It checks nothing and may run beside everything else.
func (l *Log) ReadDirect(file uint64, off int64, bufs [][]byte) (int64, error) {
	want := int64(0)
	for _, b := range bufs {
		want += int64(len(b))
	}
	flushed := l.Flushed()
	f, err := l.files.pin(file)
	if err != nil {
		return 0, err
	}
	defer l.files.unpin(f)
	h, err := l.files.reader(f)
	if err != nil {
		return 0, err
	}
	l.files.mu.Lock()
	end := f.fixed(flushed)
	l.files.mu.Unlock()
	if off >= end {
		return 0, rhumb.Errorf(rhumb.KindInvalid, "commitlog: read at %d of %s, which is fixed up to %d", off, l.files.path(file), end)
	}
	want = min(want, end-off)
	n, err := h.ReadDirect(off, blocksOf(bufs, want))
	if n >= want {
		return want, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return 0, fmt.Errorf("commitlog: read %s at %d: %w", l.files.path(file), off, err)
}

// blocksOf gives the whole blocks of bufs that hold the first n bytes.
func blocksOf(bufs [][]byte, n int64) (out [][]byte) {
	n = (n + vfs.TailBlock - 1) &^ (vfs.TailBlock - 1)
	for _, b := range bufs {
		if n == 0 {
			break
		}
		b = b[:min(int64(len(b)), n)]
		out, n = append(out, b), n-int64(len(b))
	}
	return out
}
