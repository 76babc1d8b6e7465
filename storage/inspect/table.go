package inspect

import (
	"fmt"
	"path/filepath"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// tableFile is an index or segment that is being looked at.
type tableFile struct {
	name  string
	table *index.Table
	// data is the file that holds the batches, nil if it is not there.
	data vfs.File
	in   string // its name
}

// lookAtIndex reads the index of an adopted log file, and the batches that it names
// in the log file.
func (l *look) lookAtIndex(name string) {
	l.report.Indexes++
	l.indexes[fileID(name)] = nil
	l.withTable(name, index.MagicIndex, func(t *tableFile) {
		l.indexes[fileID(name)] = t.table.Dir
		t.data, t.in = nil, filepath.Join("log", fmt.Sprintf("%016x.log", t.table.File))
		f, err := l.fs.Open(filepath.Join(l.dir, t.in))
		if err != nil {
			l.detailf("  its log file is gone: %v", err)
		} else {
			defer f.Close()
			t.data = f
		}
		l.walk(t)
	})
}

// lookAtSegment reads a segment and its batches.
func (l *look) lookAtSegment(name string) {
	l.report.Segments++
	l.withTable(name, index.MagicSegment, l.walk)
}

// withTable opens a table file and calls fn with it.
func (l *look) withTable(name string, magic index.Magic, fn func(*tableFile)) {
	l.out.linef("%s", name)
	path := filepath.Join(l.dir, name)
	f, err := l.fs.Open(path)
	if err != nil {
		l.problem(Problem{File: name, Pos: -1, What: err.Error()})
		return
	}
	defer f.Close()
	size, err := f.Size()
	var id uint64
	var dir *index.Directory
	if err == nil {
		head := make([]byte, index.HeaderSize)
		if n, rerr := f.ReadAt(head, 0); n < len(head) {
			err = rerr
		} else {
			id, err = index.ParseHeader(head, magic)
		}
	}
	if err == nil {
		dir, _, err = index.ReadDirectory(f, size)
	}
	if err != nil {
		l.problem(Problem{File: name, Pos: -1, What: err.Error()})
		return
	}
	for _, s := range dir.Shards {
		l.detailf("  shard %d: entries to %d of term %d live here or before", s.Shard, s.Index, s.Term)
	}
	table := index.NewTable(id, dir, index.NewCache(0), func() (index.ReadCloser, error) { return l.fs.Open(path) })
	fn(&tableFile{name: name, table: table, data: f, in: name})
}

// walk reads all blocks of a table and the batches that they name.
func (l *look) walk(t *tableFile) {
	for _, p := range t.table.Dir.Parts {
		l.detailf("  shard %d partition %d: offsets %d to %d, %d batches, %d bytes", p.Key.Shard, p.Key.Partition, p.Base, p.Last, p.Batches, p.Bytes)
	}
	t.table.Walk(func(p *index.Part, pos uint64, blk *index.Block, err error) {
		if err != nil {
			l.problem(Problem{File: t.name, Pos: int64(pos), What: fmt.Sprintf("shard %d partition %d: %v", p.Key.Shard, p.Key.Partition, err)})
			return
		}
		l.detailf("  %10d block of shard %d partition %d: %d batches from offset %d", pos, p.Key.Shard, p.Key.Partition, len(blk.Refs), blk.Refs[0].Base)
		for i := range blk.Refs {
			l.report.Batches++
			if t.data == nil {
				continue
			}
			if err := checkBatch(t.data, p, &blk.Refs[i]); err != nil {
				l.problem(Problem{File: t.in, Pos: int64(blk.Refs[i].Pos), What: fmt.Sprintf(
					"shard %d partition %d offset %d: %v", p.Key.Shard, p.Key.Partition, blk.Refs[i].Base, err)})
			}
		}
	})
}

// checkBatch reads a batch and compares it with what the index says.
func checkBatch(f vfs.File, p *index.Part, r *index.Ref) error {
	if r.Size > codec.MaxEnvelopeSize+codec.MaxBatchSize {
		return fmt.Errorf("batch of %d bytes", r.Size)
	}
	b := make([]byte, r.Size)
	if n, err := f.ReadAt(b, int64(r.Pos)); n < len(b) {
		return fmt.Errorf("file ends within the batch: %w", err)
	}
	_, _, err := r.Open(p.Key.Partition, b, true)
	return err
}
