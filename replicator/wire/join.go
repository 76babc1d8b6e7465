package wire

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Join is the first frame of a connection that adds itself to another one of the same
// two regions, in place of a hello; the side that was dialled answers with the same.
// Then the connection carries strands of the other one's lanes, both ways.
type Join struct {
	Pool   rhumb.UUID // of the hello of who dialled that one, who dials this one too
	Number uint16     // of this one: both sides use the lowest first
}

// Type says what the frame is.
func (*Join) Type() Type { return TypeJoin }

func (f *Join) fixed(dst []byte) []byte {
	dst = append(dst, f.Pool[:]...)
	return binary.LittleEndian.AppendUint16(dst, f.Number)
}

func (f *Join) variable(dst []byte) []byte { return dst }

func (f *Join) decode(fixed, _ *cursor) { f.Pool, f.Number = fixed.id(), fixed.u16() }

// Want says on the control stream over how many connections its sender would send, of
// what the peer takes: who dials has as many as the side that wants more.
type Want struct{ Connections uint16 }

// Type says what the frame is.
func (*Want) Type() Type { return TypeWant }

func (f *Want) fixed(dst []byte) []byte {
	return binary.LittleEndian.AppendUint16(dst, f.Connections)
}

func (f *Want) variable(dst []byte) []byte { return dst }

func (f *Want) decode(fixed, _ *cursor) { f.Connections = fixed.u16() }
