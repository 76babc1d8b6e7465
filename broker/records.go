package broker

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Codecs of a batch's records, from its attributes.
const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// Record is what the broker needs to know of one record in a batch.
type Record struct {
	Offset    rhumb.Offset
	Timestamp int64 // ms since 1970
	HasKey    bool
}

// errStop ends eachRecord early without an error.
var errStop = errors.New("broker: stop")

// eachRecord calls fn for each record of a batch that CheckBatch accepted. It
// streams: no more than a window of the codec is held, except that a raw snappy
// block is expanded as a whole. limit bounds the bytes that are looked at; more
// is of kind too large. Records that do not parse are of kind corrupt.
func eachRecord(batch []byte, limit int64, fn func(Record) error) error {
	h, err := codec.ParseBatch(batch)
	if err != nil {
		return err
	}
	src, done, err := expand(batch[codec.BatchHeaderSize:h.Size], int(h.Attributes&codec.AttrCodecMask), limit)
	if err != nil {
		return err
	}
	defer done()
	r := recordReader{r: bufio.NewReaderSize(src, 4096), left: limit}
	for range h.Count {
		rec, err := r.next(h)
		if err == nil {
			err = fn(rec)
		}
		switch {
		case err == errStop:
			return nil
		case err != nil:
			return err
		}
	}
	if _, err := r.r.ReadByte(); err != io.EOF {
		return rhumb.Errorf(rhumb.KindCorrupt, "record batch: bytes follow its %d records", h.Count)
	}
	return nil
}

// expand gives a reader of the records' bytes, and what frees it.
func expand(b []byte, kind int, limit int64) (io.Reader, func(), error) {
	nothing := func() {}
	var src io.Reader
	var err error
	switch kind {
	case codecNone:
		return bytes.NewReader(b), nothing, nil
	case codecGzip:
		src, err = gzip.NewReader(bytes.NewReader(b))
	case codecSnappy:
		src, err = expandSnappy(b, limit)
	case codecLZ4:
		src = lz4.NewReader(bytes.NewReader(b))
	case codecZstd:
		d, zerr := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
		if zerr == nil {
			return d, d.Close, nil
		}
		err = zerr
	default:
		err = errors.New("unknown codec")
	}
	if err != nil {
		if rhumb.KindOf(err) == rhumb.KindTooLarge {
			return nil, nothing, err
		}
		return nil, nothing, rhumb.Errorf(rhumb.KindCorrupt, "record batch: cannot be decompressed: %w", err)
	}
	return src, nothing, nil
}

// xerialMagic starts the framing that Java clients put around snappy blocks:
// it is followed by two version words, then by blocks with a length each.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

func expandSnappy(b []byte, limit int64) (io.Reader, error) {
	if len(b) >= xerialHeader && bytes.HasPrefix(b, xerialMagic) {
		return &xerialReader{src: b[xerialHeader:], limit: limit}, nil
	}
	block, err := snappyBlock(nil, b, limit)
	return bytes.NewReader(block), err
}

// snappyBlock expands one block into dst if its stated size is within limit.
func snappyBlock(dst, b []byte, limit int64) ([]byte, error) {
	n, err := s2.DecodedLen(b)
	if err != nil {
		return nil, err
	}
	if int64(n) > limit {
		return nil, rhumb.Errorf(rhumb.KindTooLarge, "record batch: a snappy block expands to %d bytes, at most %d", n, limit)
	}
	return s2.Decode(dst[:cap(dst)], b)
}

// xerialReader reads the blocks of a xerial snappy stream one after another.
type xerialReader struct {
	src   []byte
	block []byte
	buf   []byte
	limit int64
}

// Read implements io.Reader.
func (x *xerialReader) Read(p []byte) (int, error) {
	for len(x.block) == 0 {
		if len(x.src) == 0 {
			return 0, io.EOF
		}
		if len(x.src) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(x.src)
		if uint64(n) > uint64(len(x.src)-4) {
			return 0, io.ErrUnexpectedEOF
		}
		block, err := snappyBlock(x.buf, x.src[4:4+n], x.limit)
		if err != nil {
			return 0, err
		}
		x.block, x.buf, x.src = block, block, x.src[4+n:]
	}
	n := copy(p, x.block)
	x.block = x.block[n:]
	return n, nil
}
