package commitlog

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// ReadAt fills buf with the data at loc, from its start; buf may be shorter than the
// data, not longer. It checks nothing: the data has checksums of its own. It may run
// beside everything else; [ErrRemoved] says that the file is gone.
func (l *Log) ReadAt(loc Location, buf []byte) error {
	if int64(len(buf)) > int64(loc.Len) {
		return rhumb.Errorf(rhumb.KindInvalid, "commitlog: read of %d bytes where %d are", len(buf), loc.Len)
	}
	f, err := l.files.pin(loc.File)
	if err != nil {
		return err
	}
	defer l.files.unpin(f)
	h, err := l.files.reader(f)
	if err != nil {
		return err
	}
	n, err := h.ReadAt(buf, loc.Pos)
	if n == len(buf) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("commitlog: read %s at %d: %w", l.files.path(loc.File), loc.Pos, err)
}

// Pin keeps a file readable, even if it is removed meanwhile, until release is
// called (once or more). It is false if the file is gone.
func (l *Log) Pin(file uint64) (release func(), ok bool) {
	f, err := l.files.pin(file)
	if err != nil {
		return func() {}, false
	}
	return sync.OnceFunc(func() { l.files.unpin(f) }), true
}

// Share is Pin for a reader that hands parts of the file to the kernel, which may read
// them after release (sendfile). So the file, once removed, is deleted: its space is
// never written to again. f is read from only, and not closed.
func (l *Log) Share(file uint64) (f vfs.File, release func(), err error) {
	lf, err := l.files.pin(file)
	if err != nil {
		return nil, nil, err
	}
	h, err := l.files.reader(lf)
	if err != nil {
		l.files.unpin(lf)
		return nil, nil, err
	}
	l.files.setShared(lf)
	return h, func() { l.files.unpin(lf) }, nil
}

// Files describes the files, by id.
func (l *Log) Files() []FileInfo { return l.files.list(l.Flushed()) }

// Written tells how many bytes of frames were given to the files since Open.
func (l *Log) Written() uint64 { return l.total.Load() }

// Remove takes a closed file out of the log; [ErrInUse] if it is not closed. It is
// used again, or deleted, when nobody pins it. After a crash right behind it the file
// may be there again.
func (l *Log) Remove(id uint64) error {
	infos := l.Files()
	i, found := slices.BinarySearchFunc(infos, id, func(f FileInfo, id uint64) int { return cmp.Compare(f.ID, id) })
	switch {
	case !found:
		return ErrRemoved
	case !infos[i].Closed:
		return ErrInUse
	}
	return l.files.remove(id)
}

// Shards gives what the log knows of each shard after the last frame written.
func (l *Log) Shards() []ShardState { return l.states.list() }

// SetConf sets the marshalled conf state that checkpoints carry for a shard. conf must
// not be changed afterwards.
func (l *Log) SetConf(shard rhumb.ShardID, conf []byte) {
	l.states.mu.Lock()
	defer l.states.mu.Unlock()
	l.states.get(shard).Conf = conf
}

// CompactTo tells that a shard's entries up to index, whose term is given, are not
// needed any more by Raft: what checkpoints carry as its beginning. It never goes
// back.
func (l *Log) CompactTo(shard rhumb.ShardID, index, term uint64) {
	l.states.mu.Lock()
	defer l.states.mu.Unlock()
	s := l.states.get(shard)
	if index <= s.Compacted {
		return
	}
	s.Compacted, s.CompactedTerm = index, term
	if s.Last < index {
		s.Last, s.LastTerm = index, term
	}
}

// Replay calls fn for all frames in files of id from and later, in order, checkpoint
// frames included, up to what is written when it is called. Frames and what they
// refer to are fn's to keep. An error of fn ends it. Damage is a [CorruptError].
func (l *Log) Replay(from uint64, fn func(f *Frame, locs []Location) error) error {
	l.files.mu.Lock()
	var parts []logFile
	for id, f := range l.files.m {
		if id >= from && !f.removed {
			parts = append(parts, logFile{id: id, end: f.end, anyEnd: f.anyEnd})
		}
	}
	l.files.mu.Unlock()
	slices.SortFunc(parts, func(a, b logFile) int { return cmp.Compare(a.id, b.id) })
	for i := range parts {
		if err := l.replayFile(&parts[i], fn); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replayFile(part *logFile, fn func(f *Frame, locs []Location) error) error {
	id, end := part.id, part.end
	f, err := l.files.pin(id)
	if err != nil {
		return nil // removed meanwhile
	}
	defer l.files.unpin(f)
	file, err := l.files.reader(f)
	if err != nil {
		return err
	}
	damage := &CorruptError{File: l.files.path(id), ID: id}
	block := make([]byte, framesStart)
	if n, err := file.ReadAt(block, 0); n < len(block) && err != io.EOF {
		return err
	}
	head, _, err := parseFileBlock(block)
	if err != nil {
		damage.Reason = "file header: " + err.Error()
		return damage
	}
	s := &scanner{r: file, size: end, seed: head.seed()}
	for pos := int64(framesStart); pos < end; {
		h, err := s.header(pos)
		if err == errNoFrame && part.anyEnd {
			return nil
		}
		var body []byte
		if err == nil {
			body, err = s.body(&h, pos)
		}
		var frame *Frame
		var locs []Location
		if err == nil {
			damage.Shard, damage.IsShard = h.shard, true
			frame, locs, err = decodeBody(&h, bytes.Clone(body), id, pos)
		}
		if err != nil {
			damage.Pos, damage.Reason = pos, err.Error()
			return damage
		}
		damage.Shard, damage.IsShard = 0, false
		if err := fn(frame, locs); err != nil {
			return err
		}
		pos = aligned(pos + h.size)
	}
	return nil
}
