package commitlog

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	logSuffix  = ".log"
	freeSuffix = ".free"
)

func fileName(id uint64, suffix string) string { return fmt.Sprintf("%016x%s", id, suffix) }

// parseName reads a file's id from its name.
func parseName(name, suffix string) (uint64, bool) {
	hex, ok := strings.CutSuffix(name, suffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(hex, 16, 64)
	return id, err == nil && id > 0
}

// FileInfo describes one file of the log.
type FileInfo struct {
	ID    uint64
	Bytes int64 // up to the end of its last frame
	// Closed: nothing is written to it any more, it is flushed, and a later file's
	// checkpoint is flushed too: it may be removed.
	Closed bool
	// Prev is the id of the file before it when it was begun; 0 if there was none, or if
	// its header cannot be read.
	Prev uint64
	// Short is how many bytes of the end Open found cut off: the file after it says where
	// its frames ended. 0 if none, or for files that Open read as a whole.
	Short int64
	// LastIndex bounds the indexes of entries and snapshots in the file that were not
	// cancelled, by shard. A shard that is absent has none. For files that Open did not
	// have to read, it comes from checkpoints and may be higher than what is in the file.
	LastIndex map[rhumb.ShardID]uint64
}

// logFile is a file with frames. Under fileSet.mu.
type logFile struct {
	id      uint64
	prev    uint64
	end     int64
	anyEnd  bool // end is the size: where the frames end is not known
	short   int64
	active  bool // the writer has it
	removed bool // goes when the last pin does
	// shared: the kernel may still send parts of it to somebody (see Log.Share), so it
	// is never written over. Files of an earlier run count as such, as sockets outlive
	// the process that wrote to them.
	shared bool
	pins   int
	handle vfs.File // nil: opened on demand
	used   uint64   // when the handle was used last, for closing old ones
	last   map[rhumb.ShardID]uint64
	ahead  window
	cached int64 // bytes that were written by this process through the system's page cache
}

// fileSet is the files that can be read, and the spare ones.
type fileSet struct {
	fs        vfs.FS
	dir       string
	maxOpen   int
	maxSpares int

	mu     sync.Mutex
	m      map[uint64]*logFile
	top    map[rhumb.ShardID]uint64 // the highest of all files' last
	spares []string                 // paths
	opened int
	clock  uint64
	// flushed: all files with lower ids are on disk. The others' handles are the
	// syncer's, too, whether or not the writer still has them.
	flushed uint64
	closed  bool
}

func (s *fileSet) path(id uint64) string { return filepath.Join(s.dir, fileName(id, logSuffix)) }

// pin keeps a file from going away; unpin must follow.
func (s *fileSet) pin(id uint64) (*logFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.m[id]
	if f == nil || f.removed && f.pins == 0 {
		return nil, ErrRemoved
	}
	f.pins++
	return f, nil
}

func (s *fileSet) unpin(f *logFile) {
	s.mu.Lock()
	f.pins--
	gone := f.removed && f.pins == 0
	if gone {
		delete(s.m, f.id)
	}
	s.mu.Unlock()
	if gone {
		// If this fails the file is still there and shows up again at the next Open.
		_ = s.retire(f)
	}
}

func (s *fileSet) setShared(f *logFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.shared = true
}

// reader gives the handle of a pinned file.
func (s *fileSet) reader(f *logFile) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.clock++
	f.used = s.clock
	if f.handle != nil {
		return f.handle, nil
	}
	h, err := s.fs.Open(s.path(f.id))
	if err != nil {
		return nil, err
	}
	f.handle = h
	s.opened++
	s.closeOld()
	return h, nil
}

// closeOld closes the handles that were used longest ago if there are too many.
func (s *fileSet) closeOld() {
	for s.opened > s.maxOpen {
		var oldest *logFile
		for _, f := range s.m {
			idle := f.handle != nil && !f.active && f.pins == 0 && f.id < s.flushed
			if idle && (oldest == nil || f.used < oldest.used) {
				oldest = f
			}
		}
		if oldest == nil {
			return
		}
		_ = oldest.handle.Close() // only read from
		oldest.handle = nil
		s.opened--
	}
}

// allFlushed notes that all files before id are on disk.
func (s *fileSet) allFlushed(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id > s.flushed {
		s.flushed = id
		s.closeOld()
	}
}

// remove takes a file out; it is retired when nobody pins it.
func (s *fileSet) remove(id uint64) error {
	s.mu.Lock()
	f := s.m[id]
	if f == nil || f.removed {
		s.mu.Unlock()
		return ErrRemoved
	}
	if f.pins > 0 {
		f.removed = true
		s.mu.Unlock()
		return nil
	}
	delete(s.m, id)
	s.mu.Unlock()
	return s.retire(f)
}

// retire makes a spare of a file that nobody can reach any more, or deletes it.
func (s *fileSet) retire(f *logFile) error {
	s.mu.Lock()
	h := f.handle
	f.handle = nil
	if h != nil {
		s.opened--
	}
	s.mu.Unlock()
	if h != nil {
		_ = h.Close()
	}
	if f.shared {
		return s.fs.Remove(s.path(f.id))
	}
	return s.retirePath(s.path(f.id))
}

func (s *fileSet) retirePath(path string) error {
	s.mu.Lock()
	keep := len(s.spares) < s.maxSpares && !s.closed
	s.mu.Unlock()
	if !keep {
		return s.fs.Remove(path)
	}
	free := strings.TrimSuffix(path, logSuffix) + freeSuffix
	if err := s.fs.Rename(path, free); err != nil {
		return err
	}
	s.mu.Lock()
	s.spares = append(s.spares, free)
	s.mu.Unlock()
	return nil
}

func (s *fileSet) takeSpare() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spares) == 0 {
		return "", false
	}
	path := s.spares[len(s.spares)-1]
	s.spares = s.spares[:len(s.spares)-1]
	return path, true
}

// activate adds the file that the writer starts.
func (s *fileSet) activate(id, prev uint64, h vfs.File) *logFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &logFile{id: id, prev: prev, end: framesStart, active: true, handle: h, last: map[rhumb.ShardID]uint64{}}
	s.m[id] = f
	s.opened++
	s.closeOld()
	return f
}

// deactivate ends writing to a file; its handle stays for readers.
func (s *fileSet) deactivate(f *logFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.active = false
}

// record notes that a round of frames was written to f, up to end; cached bytes of it went
// through the system's page cache.
func (s *fileSet) record(f *logFile, end, cached int64, changes []change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.end = end
	f.cached += cached
	for i := range changes {
		s.apply(f, &changes[i])
	}
}

// apply notes what a frame in f adds and cancels.
func (s *fileSet) apply(f *logFile, c *change) {
	if c.first == 0 {
		return
	}
	defer func() { s.top[c.shard] = max(s.top[c.shard], f.last[c.shard]) }()
	switch c.kind {
	case KindEntries:
		s.limit(c.shard, c.first-1)
		f.last[c.shard] = c.last
	case KindSnapshot:
		s.limit(c.shard, c.last)
		f.last[c.shard] = c.last
	case KindSnapshotData:
		f.last[c.shard] = max(f.last[c.shard], c.last)
	}
}

// limit notes that entries of a shard beyond index were cancelled. It is rare that
// there are any.
func (s *fileSet) limit(shard rhumb.ShardID, index uint64) {
	if s.top[shard] <= index {
		return
	}
	s.top[shard] = index
	for _, f := range s.m {
		if f.last[shard] > index {
			f.last[shard] = index
		}
	}
}

// list describes the files, by id; those before the mark are closed.
func (s *fileSet) list(flushed Mark) []FileInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []FileInfo
	for _, id := range slices.Sorted(maps.Keys(s.m)) {
		f := s.m[id]
		if f.removed {
			continue
		}
		out = append(out, FileInfo{ID: id, Prev: f.prev, Short: f.short, Bytes: f.end, Closed: !f.active && id < flushed.File, LastIndex: maps.Clone(f.last)})
	}
	return out
}

// close closes all handles; pins do not help any more.
func (s *fileSet) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var first error
	for _, f := range s.m {
		if f.handle != nil {
			if err := f.handle.Close(); err != nil && first == nil {
				first = err
			}
			f.handle = nil
		}
	}
	s.opened = 0
	return first
}
