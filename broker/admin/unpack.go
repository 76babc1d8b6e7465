package admin

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxZstdWindow bounds the memory that a zstd stream may ask for.
const maxZstdWindow = 16 << 20

// unpack gives the records of a batch decompressed, as a stream.
func unpack(h codec.BatchHeader, packed []byte) (io.ReadCloser, error) {
	in := bytes.NewReader(packed)
	switch h.Attributes & codec.AttrCodecMask {
	case 0:
		return io.NopCloser(in), nil
	case 1:
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindCorrupt, "gzip: %w", err)
		}
		return z, nil
	case 2:
		return unpackSnappy(packed)
	case 3:
		return io.NopCloser(lz4.NewReader(in)), nil
	case 4:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindCorrupt, "zstd: %w", err)
		}
		return z.IOReadCloser(), nil
	}
	return nil, rhumb.Errorf(rhumb.KindCorrupt, "unknown compression codec %d", h.Attributes&codec.AttrCodecMask)
}

// xerial is the header that Java clients put before snappy blocks: magic,
// version and lowest compatible version, 16 bytes. Blocks with a 4 byte
// big-endian length follow.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

// unpackSnappy reads both forms: one bare block, or xerial's row of blocks.
func unpackSnappy(packed []byte) (io.ReadCloser, error) {
	if !bytes.HasPrefix(packed, xerial) {
		out, err := snappyBlock(packed)
		return io.NopCloser(bytes.NewReader(out)), err
	}
	if len(packed) < xerialHeader {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "snappy: header cut off")
	}
	return io.NopCloser(&xerialReader{rest: packed[xerialHeader:]}), nil
}

func snappyBlock(b []byte) ([]byte, error) {
	if n, err := snappy.DecodedLen(b); err != nil || n > maxUnpacked || n > 64*len(b)+64 {
		// a snappy element of 3 bytes makes at most 64: more is a lie
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "snappy: block of %d bytes states %d", len(b), n)
	}
	out, err := snappy.Decode(nil, b)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "snappy: %w", err)
	}
	return out, nil
}

// xerialReader unpacks one block at a time.
type xerialReader struct {
	rest, block []byte
}

func (x *xerialReader) Read(p []byte) (int, error) {
	for len(x.block) == 0 {
		if len(x.rest) == 0 {
			return 0, io.EOF
		}
		if len(x.rest) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(x.rest)
		if uint64(n) > uint64(len(x.rest)-4) {
			return 0, io.ErrUnexpectedEOF
		}
		block, err := snappyBlock(x.rest[4 : 4+n])
		if err != nil {
			return 0, err
		}
		x.block, x.rest = block, x.rest[4+n:]
	}
	n := copy(p, x.block)
	x.block = x.block[n:]
	return n, nil
}

func newByteReader(r io.Reader) byteReader { return bufio.NewReader(r) }
