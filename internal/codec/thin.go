package codec

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Thinner takes records out of batches and compresses what is left with the batch's
// own codec. Records go through it in pieces, so that it holds what the codecs hold and
// the batch that it makes, however much is expanded in between. It keeps an encoder,
// and belongs to one goroutine.
type Thinner struct {
	zstd *zstd.Encoder
}

// Thin gives the batch at the start of b without the records that keep refuses, by
// their number. At least one must stay. Records that stay are copied as they are. The
// result is a new batch with its CRC; what [PatchBatch] writes is taken over.
func (t *Thinner) Thin(x *Expander, b []byte, keep func(i int) bool) ([]byte, error) {
	records, err := x.Open(b)
	if err != nil {
		return nil, err
	}
	defer records.Close()
	h := records.Header()
	out := bytes.NewBuffer(append(make([]byte, 0, h.Size), b[:BatchHeaderSize]...))
	w, err := t.packer(out, int(h.Attributes&AttrCodecMask))
	if err != nil {
		return nil, err
	}
	latest, count, err := copyKept(records, w, keep)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return nil, err
	case count == 0:
		return nil, rhumb.Errorf(rhumb.KindInvalid, "record batch: no record is left")
	}
	batch := out.Bytes()
	be := binary.BigEndian
	be.PutUint64(batch[35:], uint64(latest))
	be.PutUint32(batch[57:], uint32(count))
	SealBatch(batch)
	return batch, nil
}

func copyKept(records *Records, w io.Writer, keep func(i int) bool) (latest int64, count int, err error) {
	latest = math.MinInt64
	for i := 0; ; i++ {
		var s Stamp
		stays := keep(i)
		if stays {
			s, err = records.CopyNext(w)
		} else {
			s, err = records.NextStamp()
		}
		if err == io.EOF {
			return latest, count, nil
		}
		if err != nil {
			return 0, 0, err
		}
		if stays {
			latest = max(latest, s.Timestamp)
			count++
		}
	}
}

// packer compresses what is written to it into out.
func (t *Thinner) packer(out *bytes.Buffer, kind int) (io.WriteCloser, error) {
	switch kind {
	case CodecNone:
		return plainWriter{out}, nil
	case CodecGzip:
		return gzip.NewWriter(out), nil
	case CodecSnappy:
		return newXerialWriter(out), nil
	case CodecLZ4:
		return lz4.NewWriter(out), nil
	case CodecZstd:
		return t.packZstd(out)
	}
	return nil, rhumb.Errorf(rhumb.KindCorrupt, "record batch: unknown compression codec %d", kind)
}

type plainWriter struct{ *bytes.Buffer }

// Close does nothing.
func (plainWriter) Close() error { return nil }

// xerialWriter writes xerial's framing, which every client reads.
type xerialWriter struct {
	out   *bytes.Buffer
	block []byte
}

const xerialBlock = 32 << 10

func newXerialWriter(out *bytes.Buffer) *xerialWriter {
	out.Write(xerialMagic)
	out.Write([]byte{0, 0, 0, 1, 0, 0, 0, 1}) // version, and the lowest that reads it
	return &xerialWriter{out: out, block: make([]byte, 0, xerialBlock)}
}

// Write implements io.Writer; it never fails.
func (x *xerialWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), xerialBlock-len(x.block))
		x.block = append(x.block, rest[:n]...)
		if rest = rest[n:]; len(x.block) == xerialBlock {
			x.flush()
		}
	}
	return len(b), nil
}

func (x *xerialWriter) flush() {
	if len(x.block) > 0 {
		packed := s2.EncodeSnappy(nil, x.block)
		x.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(packed))))
		x.out.Write(packed)
		x.block = x.block[:0]
	}
}

// Close writes the last block.
func (x *xerialWriter) Close() error {
	x.flush()
	return nil
}

// zstdWriter lets the encoder go of its output when it is closed.
type zstdWriter struct{ *zstd.Encoder }

// Close ends the frame.
func (z zstdWriter) Close() error {
	err := z.Encoder.Close()
	z.Reset(nil)
	return err
}

func (t *Thinner) packZstd(out io.Writer) (io.WriteCloser, error) {
	if t.zstd == nil {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
		if err != nil {
			return nil, err
		}
		t.zstd = z
	}
	t.zstd.Reset(out)
	return zstdWriter{t.zstd}, nil
}
