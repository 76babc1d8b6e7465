package strands

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	magic        = 0x53424d52 // "RMBS" in the order of the wire
	prologueSize = 16
	maxPrologue  = 256
	headSize     = 12

	// MaxPiece bounds the bytes of one piece.
	MaxPiece = 64 << 10

	// spreadPiece bounds a piece when there are several strands, which is copied.
	spreadPiece = 16 << 10

	// leastPiece is the least that a slow strand takes at once: a few packets. A piece
	// that takes longer than slowPiece makes the next one half as large, one that takes
	// less than quickPiece twice: so a poor connection does not hold others up for long.
	leastPiece = 2 << 10
	slowPiece  = 300 * time.Millisecond
	quickPiece = 50 * time.Millisecond

	// Max bounds the strands of a lane: one for each connection of a link.
	Max = 64

	spreadMark = 1 << 31 // in the length: several strands from here on
)

// head is what comes before the bytes of a piece.
type head struct {
	number uint64
	length int
	spread bool
}

func (h head) put(b []byte) {
	n := uint32(h.length)
	if h.spread {
		n = spreadMark
	}
	binary.LittleEndian.PutUint32(b, n)
	binary.LittleEndian.PutUint64(b[4:], h.number)
}

func readHead(r io.Reader, b []byte) (head, error) {
	if _, err := io.ReadFull(r, b[:headSize]); err != nil {
		return head{}, err // io.EOF between two pieces
	}
	n := binary.LittleEndian.Uint32(b)
	h := head{number: binary.LittleEndian.Uint64(b[4:]), length: int(n &^ spreadMark), spread: n&spreadMark != 0}
	switch {
	case h.spread && h.length != 0:
		return h, corruptf("a mark that others follow with %d bytes", h.length)
	case !h.spread && (h.length == 0 || h.length > MaxPiece):
		return h, corruptf("a piece of %d bytes", h.length)
	}
	return h, nil
}

func appendPrologue(b []byte, lane uint64) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, magic)
	b = le.AppendUint16(b, prologueSize)
	b = le.AppendUint16(b, 0)
	return le.AppendUint64(b, lane)
}

// readPrologue gives the lane that a strand belongs to.
func readPrologue(r *bufio.Reader) (lane uint64, err error) {
	var b [prologueSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, whole(err)
	}
	le := binary.LittleEndian
	size := int(le.Uint16(b[4:]))
	if le.Uint32(b[:]) != magic || size < prologueSize || size > maxPrologue {
		return 0, corruptf("a prologue that is none")
	}
	if _, err := r.Discard(size - prologueSize); err != nil {
		return 0, whole(err)
	}
	return le.Uint64(b[8:]), nil
}

func corruptf(format string, args ...any) error {
	return rhumb.Errorf(rhumb.KindCorrupt, "strands: %s", fmt.Sprintf(format, args...))
}

// whole makes the end of a stream inside something an error.
func whole(err error) error {
	if err == io.EOF { //nolint:errorlint // io.ReadFull gives it bare
		return io.ErrUnexpectedEOF
	}
	return err
}
