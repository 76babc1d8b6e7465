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
// own codec. It keeps buffers and an encoder, and belongs to one goroutine.
type Thinner struct {
	body bytes.Buffer // records, expanded
	zstd *zstd.Encoder
}

// Thin gives the batch at the start of b without the records that keep refuses. At
// least one must stay. Records that stay are copied as they are. The result is a new
// batch with its CRC; what [PatchBatch] writes is taken over.
func (t *Thinner) Thin(x *Expander, b []byte, keep func(i int, r *Record) bool) ([]byte, error) {
	records, err := x.Open(b)
	if err != nil {
		return nil, err
	}
	defer records.Close()
	t.body.Reset()
	latest, count := int64(math.MinInt64), 0
	for i := 0; ; i++ {
		rec, err := records.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if !keep(i, &rec) {
			continue
		}
		var size [binary.MaxVarintLen64]byte
		t.body.Write(binary.AppendVarint(size[:0], int64(len(rec.Raw))))
		t.body.Write(rec.Raw)
		latest = max(latest, rec.Timestamp)
		count++
	}
	if count == 0 {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "record batch: no record is left")
	}
	h := records.Header()
	out, err := t.pack(append(make([]byte, 0, h.Size), b[:BatchHeaderSize]...), int(h.Attributes&AttrCodecMask))
	if err != nil {
		return nil, err
	}
	be := binary.BigEndian
	be.PutUint64(out[35:], uint64(latest))
	be.PutUint32(out[57:], uint32(count))
	SealBatch(out)
	t.body = smaller(t.body)
	return out, nil
}

// smaller lets go of a buffer that is too large to be kept.
func smaller(b bytes.Buffer) bytes.Buffer {
	if b.Cap() > keptBuffer {
		return bytes.Buffer{}
	}
	return b
}

// pack appends the records to a batch's header.
func (t *Thinner) pack(header []byte, kind int) ([]byte, error) {
	out := bytes.NewBuffer(header)
	var w io.WriteCloser
	switch kind {
	case CodecNone:
		out.Write(t.body.Bytes())
		return out.Bytes(), nil
	case CodecGzip:
		w = gzip.NewWriter(out)
	case CodecSnappy:
		return packSnappy(header, t.body.Bytes()), nil
	case CodecLZ4:
		w = lz4.NewWriter(out)
	case CodecZstd:
		return t.packZstd(header)
	default:
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "record batch: unknown compression codec %d", kind)
	}
	_, err := w.Write(t.body.Bytes())
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return out.Bytes(), err
}

// packSnappy writes xerial's framing, which every client reads.
func packSnappy(out, body []byte) []byte {
	const block = 32 << 10
	out = append(out, xerialMagic...)
	out = binary.BigEndian.AppendUint32(out, 1) // version
	out = binary.BigEndian.AppendUint32(out, 1) // and the lowest that reads it
	for len(body) > 0 {
		n := min(len(body), block)
		packed := s2.EncodeSnappy(nil, body[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(packed)))
		out = append(out, packed...)
		body = body[n:]
	}
	return out
}

func (t *Thinner) packZstd(header []byte) ([]byte, error) {
	if t.zstd == nil {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
		if err != nil {
			return nil, err
		}
		t.zstd = z
	}
	return t.zstd.EncodeAll(t.body.Bytes(), header), nil
}
