package index

import (
	"fmt"
	"io"
	"math"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// flushSize is how much the writer gathers before it writes.
const flushSize = 256 << 10

// Writer writes the blocks, handles, directory and footer of a table. Partitions
// come in key order, refs in offset order; a broken order is an error, never a
// bad table. The caller syncs and renames the file.
type Writer struct {
	dst   io.WriterAt
	off   int64 // where buf goes
	buf   []byte
	first uint64
	dir   Directory
	part  *Part
	block Block
	at    Vector // after the last ref added
	total uint64
}

// NewWriter writes a table to dst from position off on.
func NewWriter(dst io.WriterAt, off int64) *Writer {
	return &Writer{dst: dst, off: off, first: uint64(off)}
}

func (w *Writer) pending() uint64 { return uint64(w.off) + uint64(len(w.buf)) }

// Partition starts the part of a partition; start is the vector before its first ref.
func (w *Writer) Partition(key Key, start Vector) error {
	if err := w.endPart(); err != nil {
		return err
	}
	if n := len(w.dir.Parts); n > 0 && w.dir.Parts[n-1].Key.Compare(key) >= 0 {
		return fmt.Errorf("index: partition %v after %v", key, w.dir.Parts[n-1].Key)
	}
	w.part = &Part{Key: key, Start: start.clone(), MaxTime: math.MinInt64, RetentionTime: math.MinInt64}
	w.at = start.clone()
	w.block = Block{Key: key}
	return nil
}

// Add adds the next ref of the partition.
func (w *Writer) Add(r Ref) error {
	p := w.part
	switch {
	case p == nil:
		return fmt.Errorf("index: ref without a partition")
	case r.Span == 0 || p.Batches > 0 && r.Base <= p.Last:
		return fmt.Errorf("index: partition %v: batch at %d of %d offsets after %d", p.Key, r.Base, r.Span, p.Last)
	}
	if p.Batches == 0 {
		p.Base = r.Base
	}
	if p.Start.find(r.Source) < 0 {
		p.Start = append(p.Start, Mark{Source: r.Source, Watermark: rhumb.NoOffset, Floor: rhumb.NoOffset})
	}
	if len(w.block.Refs) == 0 {
		w.block.Start = w.at.clone()
	}
	w.block.Refs = append(w.block.Refs, r)
	w.at = w.at.advance(&r)
	p.Last, p.Batches, p.Bytes = r.Last(), p.Batches+1, p.Bytes+uint64(r.Size)
	p.MaxTime, p.RetentionTime = max(p.MaxTime, r.MaxTime), max(p.RetentionTime, r.RetentionTime())
	if len(w.block.Refs) == MaxBlockRefs {
		return w.endBlock()
	}
	return nil
}

// Reach says that the log has come as far as v where the partition's next ref is, or
// where its part ends: batches that were there went, and take their marks with them
// otherwise.
func (w *Writer) Reach(v Vector) {
	for _, m := range v {
		if w.part.Start.find(m.Source) < 0 {
			w.part.Start = append(w.part.Start, Mark{Source: m.Source, Watermark: rhumb.NoOffset, Floor: rhumb.NoOffset})
		}
		i := w.at.find(m.Source)
		if i < 0 {
			w.at = append(w.at, m)
			continue
		}
		w.at[i].Watermark, w.at[i].Floor = max(w.at[i].Watermark, m.Watermark), max(w.at[i].Floor, m.Floor)
	}
}

func (w *Writer) endBlock() error {
	if len(w.block.Refs) == 0 {
		return nil
	}
	h := Handle{Base: w.block.Refs[0].Base, MaxTime: math.MinInt64, RetentionTime: math.MinInt64,
		Pos: w.pending(), Refs: uint32(len(w.block.Refs))}
	for i := range w.block.Refs {
		r := &w.block.Refs[i]
		h.Last, h.Bytes = r.Last(), h.Bytes+uint64(r.Size)
		h.MaxTime, h.RetentionTime = max(h.MaxTime, r.MaxTime), max(h.RetentionTime, r.RetentionTime())
	}
	w.buf = AppendBlock(w.buf, &w.block)
	h.Length = uint32(w.pending() - h.Pos)
	w.block.Refs = w.block.Refs[:0]
	w.part.handles = append(w.part.handles, h)
	if len(w.buf) >= flushSize {
		return w.flush()
	}
	return nil
}

func (w *Writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if _, err := w.dst.WriteAt(w.buf, w.off); err != nil {
		return err
	}
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// endPart keeps the part for the directory, unless nothing was added to it.
func (w *Writer) endPart() error {
	if w.part == nil {
		return nil
	}
	if err := w.endBlock(); err != nil {
		return err
	}
	if w.part.Batches > 0 {
		w.total += w.part.Batches
		w.part.End = w.at
		w.dir.Parts = append(w.dir.Parts, w.part)
	}
	w.part = nil
	return nil
}

// Finish writes what ends the table and gives the length of the file. The
// directory belongs to the caller: [Table] can be made of it without reading.
func (w *Writer) Finish(shards []ShardEnd) (d *Directory, size int64, err error) {
	if err := w.endPart(); err != nil {
		return nil, 0, err
	}
	for _, p := range w.dir.Parts {
		p.handlesPos = w.pending()
		w.buf = appendHandles(w.buf, p.handles)
		p.handlesLen = uint32(w.pending() - p.handlesPos)
		p.handles = nil
		if len(w.buf) >= flushSize {
			if err := w.flush(); err != nil {
				return nil, 0, err
			}
		}
	}
	w.dir.Shards = shards
	f := Footer{DirectoryPos: w.pending(), FirstBlock: w.first, Batches: w.total}
	at := len(w.buf)
	w.buf = appendDirectory(w.buf, &w.dir)
	f.DirectoryLen = w.pending() - f.DirectoryPos
	f.DirectoryCRC = codec.Checksum(w.buf[at:])
	w.buf = f.append(w.buf)
	if err := w.flush(); err != nil {
		return nil, 0, err
	}
	return &w.dir, w.off, nil
}
