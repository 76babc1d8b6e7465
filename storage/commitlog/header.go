package commitlog

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	fileMagic      = "RHUMBLOG"
	fileVersion    = 1
	fileHeaderSize = 64
	fileHeaderMax  = 512 // room of one copy
	fileHeaderCopy = 512 // where the second copy is
	framesStart    = 1024

	fileRequired uint32 = 0xffff0000
)

type salt [16]byte

// fileHeader is what a file says about itself.
type fileHeader struct {
	id   uint64
	salt salt
	prev Mark // id of the file before (0: none) and where its frames end
}

// seed starts the CRC of the file's frames.
func (h *fileHeader) seed() uint32 {
	var b [24]byte
	copy(b[:], h.salt[:])
	binary.LittleEndian.PutUint64(b[16:], h.id)
	return codec.Checksum(b[:])
}

// block gives what stands before the first frame.
func (h *fileHeader) block() []byte {
	b := make([]byte, framesStart)
	le := binary.LittleEndian
	copy(b, fileMagic)
	le.PutUint16(b[8:], fileVersion)
	le.PutUint16(b[10:], fileHeaderSize)
	le.PutUint64(b[16:], h.id)
	copy(b[24:40], h.salt[:])
	le.PutUint64(b[48:], h.prev.File)
	le.PutUint64(b[56:], uint64(h.prev.Pos))
	le.PutUint32(b[12:], codec.Checksum(b[:fileHeaderSize]))
	copy(b[fileHeaderCopy:], b[:fileHeaderSize])
	return b
}

// parseFileBlock reads the header from either copy in the first framesStart bytes
// of a file. errNoFrame means that neither is one. whole tells if both are.
func parseFileBlock(b []byte) (h fileHeader, whole bool, err error) {
	if len(b) < framesStart {
		return h, false, errNoFrame
	}
	first, err1 := parseFileHeader(b[:fileHeaderMax])
	second, err2 := parseFileHeader(b[fileHeaderCopy:framesStart])
	switch {
	case err1 == nil && err2 == nil:
		return first, first == second, nil
	case err1 == nil:
		return first, false, nil
	case err2 == nil:
		return second, false, nil
	case rhumb.KindOf(err1) == rhumb.KindUnsupported:
		return h, false, err1
	}
	return h, false, err2
}

func parseFileHeader(b []byte) (h fileHeader, err error) {
	le := binary.LittleEndian
	if string(b[:8]) != fileMagic {
		return h, errNoFrame
	}
	size := int(le.Uint16(b[10:]))
	if size < fileHeaderSize || size > fileHeaderMax {
		return h, errNoFrame
	}
	crc := codec.Checksum(b[:12])
	crc = codec.ChecksumUpdate(crc, make([]byte, 4))
	crc = codec.ChecksumUpdate(crc, b[16:size])
	if crc != le.Uint32(b[12:]) {
		return h, errNoFrame
	}
	if flags := le.Uint32(b[40:]); flags&fileRequired != 0 {
		return h, rhumb.Errorf(rhumb.KindUnsupported, "commitlog: file of version %d, flags %#x needs a newer reader", le.Uint16(b[8:]), flags)
	}
	h.id = le.Uint64(b[16:])
	copy(h.salt[:], b[24:40])
	h.prev = Mark{File: le.Uint64(b[48:]), Pos: int64(le.Uint64(b[56:]))}
	return h, nil
}
