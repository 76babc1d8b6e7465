package index

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ErrGone says that a table's file was removed while a reader was on it: take a
// new view and start again.
var ErrGone = errors.New("index: table was removed")

// ReadCloser is an open table file.
type ReadCloser interface {
	io.ReaderAt
	io.Closer
}

// Part is what one table holds of one partition.
type Part struct {
	Key           Key
	Start         Vector // before the first ref
	End           Vector // after the last ref: the same lives in the same order
	Base, Last    rhumb.Offset
	MaxTime       int64
	RetentionTime int64
	Bytes         uint64 // of the batches
	Batches       uint64

	handlesPos uint64
	handlesLen uint32
	handles    []Handle // only while the table is written
	table      *Table
	below      atomic.Pointer[below]
}

// below remembers what a part's batches below an offset take.
type below struct {
	start rhumb.Offset
	bytes int64
}

// BytesBelow is what the part's batches that end below start take.
func (p *Part) BytesBelow(start rhumb.Offset) (int64, error) {
	if b := p.below.Load(); b != nil && b.start == start {
		return b.bytes, nil
	}
	b := &below{start: start}
	c := &Cursor{view: &View{parts: []*Part{p}}}
	for {
		r, err := c.Next()
		if err != nil {
			return 0, err
		}
		if r == nil || r.Last() >= start {
			p.below.Store(b)
			return b.bytes, nil
		}
		b.bytes += int64(r.Size)
	}
}

// File is the log file or segment that holds the part's batches.
func (p *Part) File() uint64 { return p.table.File }

// Table is one settled file's index. It keeps no file open: blocks are read
// through the cache, and a miss opens the file.
type Table struct {
	File  uint64
	Dir   *Directory
	cache *Cache
	// open gives the file; an error that wraps fs.ErrNotExist becomes ErrGone.
	open func() (ReadCloser, error)
}

// NewTable makes a table of a directory that was just written or read.
func NewTable(file uint64, dir *Directory, cache *Cache, open func() (ReadCloser, error)) *Table {
	t := &Table{File: file, Dir: dir, cache: cache, open: open}
	for _, p := range dir.Parts {
		p.table = t
	}
	return t
}

// ReadDirectory reads footer and directory of a table file of that size.
func ReadDirectory(r io.ReaderAt, size int64) (*Directory, Footer, error) {
	if size < HeaderSize+FooterSize {
		return nil, Footer{}, corruptf("table: file of %d bytes", size)
	}
	b := make([]byte, FooterSize)
	if err := readFull(r, b, size-FooterSize); err != nil {
		return nil, Footer{}, err
	}
	f, err := ParseFooter(b, size)
	if err != nil {
		return nil, f, err
	}
	b = make([]byte, f.DirectoryLen) // lies within the file, so bounded by it
	if err := readFull(r, b, int64(f.DirectoryPos)); err != nil {
		return nil, f, err
	}
	if codec.Checksum(b) != f.DirectoryCRC {
		return nil, f, corruptf("table: CRC of the directory does not match")
	}
	d, err := ParseDirectory(b)
	return d, f, err
}

// readFull reads all of b; a short file is corrupt.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return corruptf("table: ends at %d, want %d bytes more", off+int64(n), len(b)-n)
	}
	return err
}

func (t *Table) read(pos uint64, length uint32) ([]byte, error) {
	f, err := t.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, length)
	return b, readFull(f, b, int64(pos))
}

// handlesOf gives the part's handles, from the cache or the file.
func (t *Table) handlesOf(p *Part) ([]Handle, error) {
	if v, ok := t.cache.get(t, p.handlesPos); ok {
		return v.([]Handle), nil
	}
	b, err := t.read(p.handlesPos, p.handlesLen)
	if err != nil {
		return nil, err
	}
	hs, err := ParseHandles(b)
	if err != nil {
		return nil, err
	}
	t.cache.put(t, p.handlesPos, hs, int64(len(b)))
	return hs, nil
}

// block gives the block of a handle, from the cache or the file.
func (t *Table) block(p *Part, h *Handle) (*Block, error) {
	if v, ok := t.cache.get(t, h.Pos); ok {
		return v.(*Block), nil
	}
	b, err := t.read(h.Pos, h.Length)
	if err != nil {
		return nil, err
	}
	blk, n, err := ParseBlock(b, t.File)
	switch {
	case err != nil:
		return nil, err
	case n != len(b) || blk.Key != p.Key || blk.Refs[0].Base != h.Base:
		return nil, corruptf("block at %d is of %v, not of %v", h.Pos, blk.Key, p.Key)
	}
	t.cache.put(t, h.Pos, blk, int64(len(blk.Refs))*80+int64(len(blk.Start))*64+128)
	return blk, nil
}

// Part gives what the table holds of a partition, nil if it holds nothing.
func (t *Table) Part(k Key) *Part {
	i, ok := slices.BinarySearchFunc(t.Dir.Parts, k, func(p *Part, k Key) int { return p.Key.Compare(k) })
	if !ok {
		return nil
	}
	return t.Dir.Parts[i]
}

// Forget drops what the cache holds of the table.
func (t *Table) Forget() { t.cache.forget(t) }

// Walk reads every block of the table, for offline checks. It goes on after a
// damaged block; fn gets either a block or an error with its place.
func (t *Table) Walk(fn func(p *Part, pos uint64, blk *Block, err error)) {
	for _, p := range t.Dir.Parts {
		hs, err := t.handlesOf(p)
		if err != nil {
			fn(p, p.handlesPos, nil, err)
			continue
		}
		for i := range hs {
			blk, err := t.block(p, &hs[i])
			fn(p, hs[i].Pos, blk, err)
		}
	}
}
