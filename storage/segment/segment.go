// Package segment reads and writes segments: files of batches sorted by partition
// and offset, with an index table behind them. Settling by rewriting makes them, so
// that many small partitions share a file and a reader finds its partition's batches
// in one place.
//
//	header     32 bytes, magic "RHUMBSEG", the segment's id as file (see package index)
//	batches    envelope and batch, one after the other, sorted by shard, partition
//	           and offset
//	table      blocks, handles, directory and footer (see package index); the refs'
//	           positions are those of the envelopes in this file
//
// A segment is written under a temporary name, synced, and renamed; there is no
// half segment. Each batch has the CRCs of its envelope and of itself.
package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
)

const flushSize = 1 << 20 // of batches that the writer gathers before it writes

// Writer writes one segment. Partitions come in key order, batches in offset
// order. It holds the refs of all batches until Finish.
type Writer struct {
	dst   io.WriterAt
	id    uint64
	off   int64
	buf   []byte
	parts []part
}

type part struct {
	key   index.Key
	start index.Vector
	end   index.Vector
	refs  []index.Ref
}

// NewWriter begins the segment of that id at the beginning of dst.
func NewWriter(dst io.WriterAt, id uint64) *Writer {
	return &Writer{dst: dst, id: id, buf: index.AppendHeader(nil, index.MagicSegment, id)}
}

// Partition starts a partition; start is the vector before its first batch, end that
// after the last one that there was before compaction.
func (w *Writer) Partition(key index.Key, start, end index.Vector) {
	w.parts = append(w.parts, part{key: key, start: start, end: end})
}

// Size is how many bytes of batches there are.
func (w *Writer) Size() int64 { return w.off + int64(len(w.buf)) - index.HeaderSize }

// Add adds the next batch of the partition: envelope and batch, and what the index
// says of it; its place is set here.
func (w *Writer) Add(r index.Ref, b []byte) error {
	if len(w.parts) == 0 {
		return errors.New("segment: batch without a partition")
	}
	if len(b) != int(r.Size) {
		return fmt.Errorf("segment: batch of %d bytes, its ref says %d", len(b), r.Size)
	}
	r.File, r.Pos = w.id, uint64(w.off)+uint64(len(w.buf))
	p := &w.parts[len(w.parts)-1]
	p.refs = append(p.refs, r)
	w.buf = append(w.buf, b...)
	if len(w.buf) < flushSize {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	_, err := w.dst.WriteAt(w.buf, w.off)
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
	return err
}

// Finish writes the table and gives the directory and the length of the file. The
// caller syncs and renames it.
func (w *Writer) Finish(shards []index.ShardEnd) (*index.Directory, int64, error) {
	if err := w.flush(); err != nil {
		return nil, 0, err
	}
	t := index.NewWriter(w.dst, w.off)
	for i := range w.parts {
		p := &w.parts[i]
		if err := t.Partition(p.key, p.start); err != nil {
			return nil, 0, err
		}
		for j := range p.refs {
			if err := t.Add(p.refs[j]); err != nil {
				return nil, 0, err
			}
		}
		t.Reach(p.end)
	}
	return t.Finish(shards)
}

// Reader reads a segment.
type Reader struct {
	ID    uint64
	Table *index.Table
	r     io.ReaderAt
}

// Open reads header and directory of a segment of that size. The reader uses r,
// and closes nothing.
func Open(r io.ReaderAt, size int64, cache *index.Cache) (*Reader, error) {
	head := make([]byte, index.HeaderSize)
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "segment: no header: %w", err)
	}
	id, err := index.ParseHeader(head, index.MagicSegment)
	if err != nil {
		return nil, err
	}
	dir, _, err := index.ReadDirectory(r, size)
	if err != nil {
		return nil, err
	}
	table := index.NewTable(id, dir, cache, func() (index.ReadCloser, error) { return keepOpen{r}, nil })
	return &Reader{ID: id, Table: table, r: r}, nil
}

// keepOpen lets the table use a file that is not its own.
type keepOpen struct{ io.ReaderAt }

func (keepOpen) Close() error { return nil }

// Batch reads the batch of a ref of that partition, and checks it.
func (r *Reader) Batch(p rhumb.PartitionID, ref *index.Ref) (codec.Envelope, []byte, error) {
	b := make([]byte, ref.Size)
	if n, err := r.r.ReadAt(b, int64(ref.Pos)); n < len(b) {
		return codec.Envelope{}, nil, rhumb.Errorf(rhumb.KindCorrupt, "segment %016x: ends within the batch at %d: %w", r.ID, ref.Pos, err)
	}
	e, batch, err := ref.Open(p, b, true)
	if err != nil {
		err = fmt.Errorf("segment %016x at %d: %w", r.ID, ref.Pos, err)
	}
	return e, batch, err
}
