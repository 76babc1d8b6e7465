package commitlog

import (
	"time"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	// aheadWindow is how far readers that go through a file are read ahead of, aheadLow
	// how close they come before more is.
	aheadWindow = 8 << 20
	aheadLow    = 4 << 20
	// aheadGap is how far behind the end of that a read may begin and still go on there.
	aheadGap = 1 << 20
	// aheadFrom is the least of a read that stands alone which the disk is asked for
	// before it is read.
	aheadFrom = 64 << 10
	// aheadFor is for how long what was read ahead is taken to be in memory.
	aheadFor = 10 * time.Second
)

// window is what of a file was read ahead. Readers of several partitions go through a
// file side by side, which the kernel takes for reads here and there.
type window struct {
	end int64 // up to here
	at  time.Time
}

// next gives what is to be read ahead, nothing if n is 0, when a reader is about to
// read from from to to.
func (w *window) next(from, to int64, now time.Time) (off, n int64) {
	known := w.end > 0 && now.Sub(w.at) < aheadFor
	w.at = now
	switch {
	case !known || from > w.end+aheadGap:
		w.end = to
		if to-from < aheadFrom {
			return 0, 0
		}
		return from, to - from
	case to+aheadLow <= w.end:
		return 0, 0
	}
	off, w.end = w.end, to+aheadWindow
	return off, w.end - off
}

// Ahead tells that from from to to is about to be read in a file, by somebody who may go
// on there: the system is asked to have it in memory then. It does not wait for that.
func (l *Log) Ahead(file uint64, from, to int64) {
	s := &l.files
	s.mu.Lock()
	f := s.m[file]
	if f == nil || f.removed {
		s.mu.Unlock()
		return
	}
	off, n := f.ahead.next(from, to, time.Now())
	if n = min(n, f.end-off); n > 0 {
		f.pins++
	}
	s.mu.Unlock()
	if n <= 0 {
		return
	}
	defer s.unpin(f)
	if h, err := s.reader(f); err == nil {
		vfs.ReadAhead(h, off, n)
	}
}
