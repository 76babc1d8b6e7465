package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// xerialMagic starts the framing that Java clients put around snappy blocks:
// it is followed by two version words, then by blocks with a length each.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

// expandSnappy reads both framings: xerial's row of blocks, and the one bare
// block of other clients.
func (r *Records) expandSnappy(b []byte) (err error) {
	d := &r.decoders
	if len(b) >= xerialHeader && bytes.HasPrefix(b, xerialMagic) {
		d.xerial.src, d.xerial.limit = b[xerialHeader:], r.from.limits.Block
		r.src = &d.xerial
		return nil
	}
	d.block, err = snappyBlock(d.block, b, r.from.limits.Block)
	r.buf = d.block
	return err
}

// LargestBlock gives the bytes that opening the batch at the start of b takes beside
// windows: those of its largest block of snappy, which is expanded as a whole. 0: it has
// none, or none that could be right.
func LargestBlock(b []byte) (most int64) {
	h, err := ParseBatch(b)
	if err != nil || h.Attributes&AttrCodecMask != CodecSnappy {
		return 0
	}
	look := func(block []byte) {
		if n, err := s2.DecodedLen(block); err == nil && n <= snappyRatio*len(block) {
			most = max(most, int64(n))
		}
	}
	b = b[BatchHeaderSize:h.Size]
	if len(b) < xerialHeader || !bytes.HasPrefix(b, xerialMagic) {
		look(b)
		return most
	}
	for b = b[xerialHeader:]; len(b) >= 4; {
		n := binary.BigEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			break
		}
		look(b[4 : 4+n])
		b = b[4+n:]
	}
	return most
}

// snappyRatio bounds what a snappy block expands to: its longest copy makes 64
// bytes out of 3. A block that states more is a lie, for which no room is made.
const snappyRatio = 22

// snappyBlock expands one block into dst if its stated size is possible and
// within limit.
func snappyBlock(dst, b []byte, limit int64) ([]byte, error) {
	n, err := s2.DecodedLen(b)
	switch {
	case err != nil:
		return nil, err
	case int64(n) > limit:
		return nil, rhumb.Errorf(rhumb.KindTooLarge, "record batch: a snappy block expands to %d bytes, at most %d", n, limit)
	case n > snappyRatio*len(b):
		return nil, fmt.Errorf("snappy block of %d bytes states %d", len(b), n)
	}
	return s2.Decode(dst[:cap(dst)], b)
}

// xerialReader reads the blocks of a xerial snappy stream one after another.
type xerialReader struct {
	src   []byte
	block []byte // what of buf is not read yet
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
