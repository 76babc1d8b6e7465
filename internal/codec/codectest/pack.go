// Package codectest compresses records as clients do, for tests of what reads
// them.
package codectest

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/rhumbmq/rhumb/internal/codec"
)

// Packing is one way to compress records.
type Packing struct {
	Name  string
	Codec int16 // of the batch's attributes
	Pack  func(records []byte) []byte
}

// Packings are all ways that clients use.
var Packings = []Packing{
	{"plain", codec.CodecNone, slices.Clone[[]byte]},
	{"gzip", codec.CodecGzip, through(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })},
	{"snappy", codec.CodecSnappy, func(b []byte) []byte { return s2.EncodeSnappy(nil, b) }},
	{"xerial", codec.CodecSnappy, func(b []byte) []byte { return Xerial(b, 32<<10) }},
	{"xerial in small blocks", codec.CodecSnappy, func(b []byte) []byte { return Xerial(b, 50) }},
	{"lz4", codec.CodecLZ4, through(func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) })},
	{"zstd", codec.CodecZstd, through(func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // only wrong options do this
		}
		return z
	})},
}

func through(open func(io.Writer) io.WriteCloser) func([]byte) []byte {
	return func(b []byte) []byte {
		var out bytes.Buffer
		w := open(&out)
		if _, err := w.Write(b); err != nil {
			panic(err) // a buffer takes all
		}
		if err := w.Close(); err != nil {
			panic(err)
		}
		return out.Bytes()
	}
}

// Xerial compresses with snappy in the framing of Java clients, in blocks of
// that many bytes.
func Xerial(b []byte, block int) []byte {
	out := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	for part := range slices.Chunk(b, block) {
		packed := s2.EncodeSnappy(nil, part)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(packed))), packed...)
	}
	return out
}

// Batch compresses the records of an uncompressed batch.
func (p Packing) Batch(batch []byte) []byte {
	return WithRecords(batch, p.Codec, p.Pack(batch[codec.BatchHeaderSize:]))
}

// WithRecords makes a batch with the header of another and these bytes as its
// compressed records, whatever they are.
func WithRecords(batch []byte, kind int16, records []byte) []byte {
	out := append(slices.Clone(batch[:codec.BatchHeaderSize]), records...)
	out[22] = out[22]&^codec.AttrCodecMask | byte(kind)
	codec.SealBatch(out)
	return out
}
