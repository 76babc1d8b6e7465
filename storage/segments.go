package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	segmentDir    = "segments"
	segmentSuffix = ".seg"
	// segmentBit tells a segment's id from a log file's.
	segmentBit = 1 << 63
)

func isSegment(file uint64) bool { return file&segmentBit != 0 }

func segmentName(id uint64) string { return fmt.Sprintf("%016x%s", id, segmentSuffix) }

func parseSegmentName(name string) (id uint64, ok bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(hex, 16, 64)
	return id, err == nil && isSegment(id)
}

// segmentSet holds the segments' files open for reading, from their first read on.
type segmentSet struct {
	mu   sync.Mutex
	next uint64 // id of the next segment: never one that a row names
	open map[uint64]*openSegment
}

// openSegment is a file that reads use; the last one closes it after its removal.
type openSegment struct {
	file    vfs.File
	uses    int
	removed bool
}

// newSegment gives the next id.
func (s *segmentSet) newSegment() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next - 1
}

// named notes an id that is or was in use.
func (s *segmentSet) named(id uint64) {
	if isSegment(id) {
		s.next = max(s.next, id+1)
	}
}

// readSegment reads from a segment; errRetry says that it is gone.
func (s *Store) readSegment(id uint64, pos int64, buf []byte) error {
	f, err := s.segments.pin(id, func() (vfs.File, error) { return s.cfg.FS.Open(s.path(segmentDir, segmentName(id))) })
	if errors.Is(err, fs.ErrNotExist) {
		return errRetry
	}
	if err != nil {
		return err
	}
	defer s.segments.unpin(f)
	n, err := f.file.ReadAt(buf, pos)
	if n == len(buf) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("storage: read %s at %d: %w", segmentName(id), pos, err)
}

func (s *segmentSet) pin(id uint64, open func() (vfs.File, error)) (*openSegment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[id]
	if f == nil {
		file, err := open() // rare, and a file is opened quickly
		if err != nil {
			return nil, err
		}
		f = &openSegment{file: file}
		s.open[id] = f
	}
	f.uses++
	return f, nil
}

func (s *segmentSet) unpin(f *openSegment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.uses--; f.uses == 0 && f.removed {
		_ = f.file.Close() // it was only read
	}
}

// forget closes a segment's file when nobody reads it any more.
func (s *segmentSet) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.open[id]; f != nil {
		delete(s.open, id)
		if f.removed = true; f.uses == 0 {
			_ = f.file.Close()
		}
	}
}

func (s *segmentSet) closeAll() {
	for _, id := range s.ids() {
		s.forget(id)
	}
}

func (s *segmentSet) ids() (ids []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.open {
		ids = append(ids, id)
	}
	return ids
}

// openSegments reads the directories of the segments that the state database names,
// and removes others: a crash came before they counted, or after they did not any more.
func (s *Store) openSegments() (tables []*index.Table, err error) {
	rows, err := s.db.Segments()
	if err != nil {
		return nil, err
	}
	s.segments.open = map[uint64]*openSegment{}
	s.segments.named(segmentBit)
	for _, id := range rows {
		s.segments.named(id)
	}
	names, err := s.cfg.FS.List(s.path(segmentDir))
	if errors.Is(err, fs.ErrNotExist) && len(rows) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := map[uint64]bool{}
	for _, name := range names {
		id, ok := parseSegmentName(name)
		if _, named := slices.BinarySearch(rows, id); ok && named {
			found[id] = true
		} else if ok || strings.HasSuffix(name, tmpSuffix) {
			if err := s.cfg.FS.Remove(s.path(segmentDir, name)); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range rows {
		if !found[id] {
			return nil, rhumb.Errorf(rhumb.KindCorrupt, "storage: missing %s: not deleted by compaction, so data would be lost",
				s.path(segmentDir, segmentName(id)))
		}
		dir, err := s.readTable(s.path(segmentDir, segmentName(id)), index.MagicSegment, id)
		if err != nil {
			return nil, err
		}
		t := s.newSegmentTable(id, dir)
		s.files.addSegment(id, t)
		tables = append(tables, t)
	}
	return tables, nil
}

// readTable reads header and directory of a table file.
func (s *Store) readTable(name string, magic index.Magic, id uint64) (*index.Directory, error) {
	f, err := s.cfg.FS.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	head := make([]byte, index.HeaderSize)
	if n, _ := f.ReadAt(head, 0); n < len(head) {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "storage: %s: no header in %d bytes", name, n)
	}
	file, err := index.ParseHeader(head, magic)
	if err == nil && file != id {
		err = rhumb.Errorf(rhumb.KindCorrupt, "it is of file %016x", file)
	}
	if err != nil {
		return nil, fmt.Errorf("storage: %s: %w", name, err)
	}
	dir, _, err := index.ReadDirectory(f, size)
	if err != nil {
		return nil, fmt.Errorf("storage: %s: %w", name, err)
	}
	return dir, nil
}

func (s *Store) newSegmentTable(id uint64, dir *index.Directory) *index.Table {
	return s.tableAt(s.path(segmentDir, segmentName(id)), id, dir)
}

// removeSegments deletes segments of which nothing is live. Their rows are gone, and
// the state database is flushed.
func (s *Store) removeSegments(ids []uint64) error {
	if len(ids) == 0 {
		return nil
	}
	slices.SortFunc(ids, cmp.Compare)
	for _, id := range ids {
		if err := s.cfg.FS.Remove(s.path(segmentDir, segmentName(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.segments.forget(id)
		s.files.remove(id).Forget()
		s.forget(id)
		if s.cfg.Events.Removed != nil {
			s.cfg.Events.Removed(id)
		}
	}
	return s.cfg.FS.SyncDir(s.path(segmentDir))
}
