package codec

import (
	"bytes"
	"errors"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Codecs of a batch's records: its attributes under AttrCodecMask.
const (
	CodecNone = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// Limits bound what reading the records of one batch may cost.
type Limits struct {
	Bytes  int64  // of expanded records that are looked at
	Block  int64  // of a block of snappy, which is expanded as a whole; 0: as Bytes
	Window uint64 // bytes that a zstd stream may refer back to, and so that are held for it
}

// Expander opens batches for reading, whatever they are compressed with. It
// keeps decoders and buffers for the next batch. Those of zstd hold channels,
// so an Expander belongs to one owner (a broker, a server) instead of to the
// package: in a testing/synctest bubble they then never leave it. Its methods
// may be called concurrently.
type Expander struct {
	limits Limits
	free   sync.Pool // of *Records
}

// NewExpander makes an Expander.
func NewExpander(l Limits) *Expander {
	if l.Block == 0 {
		l.Block = l.Bytes
	}
	return &Expander{limits: l}
}

// Open gives the records of the batch at the start of b, which must not change
// until they are closed. Errors are of kind corrupt, or too large.
func (x *Expander) Open(b []byte) (*Records, error) {
	h, err := ParseBatch(b)
	if err != nil {
		return nil, err
	}
	r, _ := x.free.Get().(*Records)
	if r == nil {
		r = &Records{from: x}
	}
	r.header, r.left = h, x.limits.Bytes
	if err := r.expand(b[BatchHeaderSize:h.Size], int(h.Attributes&AttrCodecMask)); err != nil {
		r.Close()
		if _, ours := errors.AsType[*rhumb.Error](err); ours {
			return nil, err
		}
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "record batch: cannot be decompressed: %w", err)
	}
	return r, nil
}

// decoders expand one batch after another.
type decoders struct {
	packed bytes.Reader
	gzip   gzip.Reader
	zstd   *zstd.Decoder
	lz4    *lz4.Reader // of this batch only: it would keep bytes of the last one as a dictionary
	xerial xerialReader
	block  []byte // a raw snappy block expanded
}

// expand sets buf and src. It streams: no more than a window of the codec is
// held, except that a raw snappy block is expanded as a whole.
func (r *Records) expand(packed []byte, kind int) error {
	d := &r.decoders
	d.packed.Reset(packed)
	switch kind {
	case CodecNone:
		r.buf = packed
	case CodecGzip:
		r.src = &d.gzip
		return d.gzip.Reset(&d.packed)
	case CodecSnappy:
		return r.expandSnappy(packed)
	case CodecLZ4:
		d.lz4 = lz4.NewReader(&d.packed)
		r.src = d.lz4
	case CodecZstd:
		return r.expandZstd()
	default:
		return rhumb.Errorf(rhumb.KindCorrupt, "record batch: unknown compression codec %d", kind)
	}
	return nil
}

func (r *Records) expandZstd() error {
	d := &r.decoders
	if d.zstd == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(r.from.limits.Window))
		if err != nil {
			return err
		}
		d.zstd = z
	}
	r.src = d.zstd
	return d.zstd.Reset(&d.packed)
}

// reset lets go of the batch and of what is large.
func (d *decoders) reset() {
	d.packed.Reset(nil)
	d.xerial.src, d.xerial.block = nil, nil
	if d.lz4 != nil {
		d.lz4.Reset(nil) // its blocks go back to its package's pool
		d.lz4 = nil
	}
	if d.zstd != nil && d.zstd.Reset(nil) != nil {
		d.zstd = nil
	}
	d.block, d.xerial.buf = keepSmall(d.block), keepSmall(d.xerial.buf)
}

// keptBuffer bounds a buffer that is kept for the next batch.
const keptBuffer = 1 << 20

func keepSmall(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}
