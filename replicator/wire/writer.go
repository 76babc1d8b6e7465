package wire

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/s2"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	// writeBuffer is how much a writer collects before it writes by itself.
	writeBuffer = 64 << 10

	// directBatch is the size from which a batch is written from where it lies.
	directBatch = 16 << 10

	// compressFrom is the smallest batch that is worth trying to compress.
	compressFrom = 128

	// compressUpTo is the largest, so that one frame cannot make the writer keep
	// a huge buffer.
	compressUpTo = 4 << 20
)

// Writer writes frames. It is for one goroutine. It collects small frames until
// [Writer.Flush] or until its buffer is full. After an error every call gives
// that error.
type Writer struct {
	w        io.Writer
	buf      []byte
	packed   []byte // reused by compression
	compress bool
	err      error
}

// NewWriter makes a writer. With compress, the batches of data frames are
// compressed with snappy unless their producer compressed them already or they
// do not shrink, or those before them did not: see [Shrink].
func NewWriter(w io.Writer, compress bool) *Writer {
	return &Writer{w: w, buf: make([]byte, 0, writeBuffer), compress: compress}
}

// Write encodes a frame. The frame, and a data frame's batch, are free for reuse
// when it returns. A frame over MaxFrame, which no reader would take, is left
// out with an error of kind too large, and the writer can go on.
func (w *Writer) Write(f Frame) error {
	if d, isData := f.(*Data); isData {
		w.data(d)
	} else {
		start := len(w.buf)
		w.buf = Append(w.buf, f)
		if n := len(w.buf) - start; n > MaxFrame {
			w.buf = w.buf[:start]
			return rhumb.Errorf(rhumb.KindTooLarge, "wire: %s frame of %d bytes, at most %d are accepted", f.Type(), n, MaxFrame)
		}
	}
	if len(w.buf) >= writeBuffer {
		return w.Flush()
	}
	return w.err
}

// data encodes the frame with its batch compressed if that helps. A large batch
// is not copied into the buffer.
func (w *Writer) data(f *Data) {
	var flags byte
	batch := f.Batch
	if w.compress && shrinkable(f.Batch) && f.Shrink.try() {
		if n := s2.MaxEncodedLen(len(f.Batch)); cap(w.packed) < n {
			w.packed = make([]byte, n)
		}
		packed := s2.EncodeSnappy(w.packed[:cap(w.packed)], f.Batch)
		if f.Shrink.saved(len(f.Batch), len(packed)) {
			batch, flags = packed, flagCompressed
		}
	}
	start := len(w.buf)
	w.buf = append(w.buf, 0, 0, 0, 0, byte(TypeData), flags, 0, 0)
	w.buf = f.fixed(w.buf)
	binary.LittleEndian.PutUint16(w.buf[start+6:], uint16(len(w.buf)-start))
	w.buf = f.envelope(w.buf)
	binary.LittleEndian.PutUint32(w.buf[start:], uint32(len(w.buf)-start-4+len(batch)))
	if len(batch) < directBatch {
		w.buf = append(w.buf, batch...)
		return
	}
	if w.Flush() == nil {
		_, w.err = w.w.Write(batch)
	}
}

// shrinkable reports whether it is worth trying to compress the batch.
func shrinkable(batch []byte) bool {
	if len(batch) < compressFrom || len(batch) > compressUpTo {
		return false
	}
	h, err := codec.ParseBatch(batch)
	return err == nil && h.Attributes&codec.AttrCodecMask == 0
}

// Flush writes what was collected.
func (w *Writer) Flush() error {
	if len(w.buf) > 0 && w.err == nil {
		_, w.err = w.w.Write(w.buf)
	}
	w.buf = w.buf[:0]
	return w.err
}
