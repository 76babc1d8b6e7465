package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Type says what a frame is. Values are for ever.
type Type uint8

// The types of frames: up to 15 on the control stream, from 16 on in sessions.
const (
	TypeHello   Type = 1
	TypeBye     Type = 2
	TypeTopic   Type = 3
	TypePing    Type = 4
	TypePong    Type = 5
	TypeJoin    Type = 6
	TypeOpen    Type = 16
	TypeState   Type = 17
	TypeData    Type = 18
	TypeSkip    Type = 19
	TypeGap     Type = 20
	TypeConfirm Type = 21
	TypeRefuse  Type = 22
	TypeClose   Type = 23

	TypePauses Type = 0x80
	TypeWant   Type = 0x81
	TypeSeen   Type = 0x82

	// firstOptional is the first type that a reader which does not know it skips.
	firstOptional Type = 0x80
)

var typeNames = map[Type]string{
	TypeHello: "hello", TypeBye: "bye", TypeTopic: "topic", TypePing: "ping", TypePong: "pong", TypeOpen: "open",
	TypeState: "state", TypeData: "data", TypeSkip: "skip", TypeGap: "gap", TypeConfirm: "confirm",
	TypeRefuse: "refuse", TypeClose: "close", TypePauses: "pauses", TypeJoin: "join", TypeWant: "want", TypeSeen: "seen",
}

// String gives the type's word.
func (t Type) String() string {
	if s, known := typeNames[t]; known {
		return s
	}
	return fmt.Sprintf("type-%d", uint8(t))
}

// Limits of frames, checked before anything is allocated.
const (
	// MaxFrame bounds every frame but data: a topic with many settings is the
	// largest.
	MaxFrame = 256 << 10

	// MaxText bounds the texts of bye, refuse and close.
	MaxText = 1024

	// MaxConfigs bounds the settings of one topic.
	MaxConfigs = 256

	// MaxProbes bounds the offsets that an open asks about.
	MaxProbes = 64

	// MaxDataFrame bounds a data frame: the largest batch and what is around it.
	MaxDataFrame = codec.MaxBatchSize + codec.MaxEnvelopeSize + maxHeader

	// maxHeader bounds the header length that a reader accepts.
	maxHeader = 1024
)

const (
	headerSize = 8

	flagCompressed byte = 0x01
	flagsRequired  byte = 0xf0
)

// Frame is one of the frame types of this package, as a pointer.
type Frame interface {
	// Type says what the frame is.
	Type() Type
	// fixed appends the fixed part, variable the variable part.
	fixed(dst []byte) []byte
	variable(dst []byte) []byte
	// decode reads both; variable parts that a later version appended are ignored.
	decode(fixed, variable *cursor)
}

// Append appends the encoded frame to dst. Data frames are appended
// uncompressed; [Writer] compresses.
func Append(dst []byte, f Frame) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(f.Type()), 0, 0, 0)
	dst = f.fixed(dst)
	binary.LittleEndian.PutUint16(dst[start+6:], uint16(len(dst)-start))
	dst = f.variable(dst)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// newFrame gives an empty frame of a type, nil if the type is not known. Data
// frames are not among them: [Reader] treats them apart.
func newFrame(t Type) Frame {
	switch t {
	case TypeHello:
		return &Hello{}
	case TypeBye:
		return &Bye{}
	case TypeTopic:
		return &Topic{}
	case TypePing:
		return &Ping{}
	case TypePong:
		return &Pong{}
	case TypeOpen:
		return &Open{}
	case TypeState:
		return &State{}
	case TypeSkip, TypeGap:
		return &Skip{}
	case TypeConfirm:
		return &Confirm{}
	case TypeRefuse:
		return &Refuse{}
	case TypeClose:
		return &Close{}
	case TypePauses:
		return &Pauses{}
	case TypeJoin:
		return &Join{}
	case TypeWant:
		return &Want{}
	case TypeSeen:
		return &Seen{}
	}
	return nil
}

// head is the part that all frames have.
type head struct {
	length int // of the whole frame
	kind   Type
	flags  byte
	header int // length
}

// parseHead reads and bounds the first eight bytes of a frame.
func parseHead(b []byte) (head, error) {
	le := binary.LittleEndian
	length := uint64(le.Uint32(b)) + 4
	h := head{kind: Type(b[4]), flags: b[5], header: int(le.Uint16(b[6:]))}
	limit := uint64(MaxFrame)
	if h.kind == TypeData {
		limit = MaxDataFrame
	}
	switch {
	case length > limit:
		return h, rhumb.Errorf(rhumb.KindTooLarge, "wire: %s frame of %d bytes, at most %d are accepted", h.kind, length, limit)
	case h.header < headerSize || h.header > maxHeader || uint64(h.header) > length:
		return h, rhumb.Errorf(rhumb.KindCorrupt, "wire: %s frame of %d bytes has a header of %d", h.kind, length, h.header)
	case h.flags&flagsRequired != 0:
		return h, rhumb.Errorf(rhumb.KindUnsupported, "wire: %s frame with flags %#x needs a newer reader", h.kind, h.flags)
	}
	h.length = int(length)
	return h, nil
}
