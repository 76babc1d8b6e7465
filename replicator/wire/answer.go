package wire

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Confirm says that the destination has, committed and flushed, everything up
// to the watermark. Confirms are cumulative.
type Confirm struct {
	Session   SessionID
	Watermark rhumb.Offset
	Chain     uint64 // at the watermark
}

// Type says what the frame is.
func (*Confirm) Type() Type { return TypeConfirm }

func (f *Confirm) fixed(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Session))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Watermark))
	return binary.LittleEndian.AppendUint64(dst, f.Chain)
}

func (f *Confirm) variable(dst []byte) []byte { return dst }

func (f *Confirm) decode(fixed, _ *cursor) {
	f.Session = SessionID(fixed.u64())
	f.Watermark = fixed.offset()
	f.Chain = fixed.u64()
}

// Refuse says that a message of this round failed, and so did everything behind
// it in the round; or, in answer to an open, that there is no session.
type Refuse struct {
	Session   SessionID
	Round     uint32 // of the message; 0 in answer to an open
	Code      Code
	Watermark rhumb.Offset // where to go on; NoOffset in answer to an open
	Chain     uint64       // at the watermark
	Text      string       // for people; at most MaxText bytes
}

// Type says what the frame is.
func (*Refuse) Type() Type { return TypeRefuse }

func (f *Refuse) fixed(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(f.Session))
	dst = le.AppendUint32(dst, f.Round)
	dst = append(dst, byte(f.Code), 0, 0, 0)
	dst = le.AppendUint64(dst, uint64(f.Watermark))
	return le.AppendUint64(dst, f.Chain)
}

func (f *Refuse) variable(dst []byte) []byte { return appendText(dst, f.Text, MaxText) }

func (f *Refuse) decode(fixed, variable *cursor) {
	f.Session = SessionID(fixed.u64())
	f.Round = fixed.u32()
	f.Code = Code(fixed.u8())
	fixed.bytes(3)
	f.Watermark = fixed.offset()
	f.Chain = fixed.u64()
	f.Text = variable.text(MaxText)
}

// Close ends a session from either side; what was not confirmed is not known to
// have arrived.
type Close struct {
	Session SessionID
	Code    Code
	Text    string // for people; at most MaxText bytes
}

// Type says what the frame is.
func (*Close) Type() Type { return TypeClose }

func (f *Close) fixed(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Session))
	return append(dst, byte(f.Code))
}

func (f *Close) variable(dst []byte) []byte { return appendText(dst, f.Text, MaxText) }

func (f *Close) decode(fixed, variable *cursor) {
	f.Session = SessionID(fixed.u64())
	f.Code = Code(fixed.u8())
	f.Text = variable.text(MaxText)
}
