package wire

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// SessionID names a session on its link and direction. The source gives it and
// never uses one twice on a link.
type SessionID uint64

// Open asks for a session: one origin life of one partition.
type Open struct {
	Session   SessionID
	Partition rhumb.Partition
	Region    rhumb.RegionNumber // of the origin
	Life      rhumb.Life         // of the origin
	Deletions uint64             // the count that the life was born under
	Head      rhumb.Offset       // first origin offset that may not leave yet
	Producer  string             // rhumb.repl.<from>.<to>
	// Probes ask for the destination's chain at these origin offsets, at most
	// MaxProbes: how a source finds where two logs part.
	Probes []rhumb.Offset
	// Alone says that the session is one batch, which follows at once: the destination
	// sends no state, judges the batch, and says where it stands. Then the session is over.
	Alone bool
}

// openAlone is the flag of [Open.Alone].
const openAlone = 1

// Type says what the frame is.
func (*Open) Type() Type { return TypeOpen }

func (f *Open) fixed(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(f.Session))
	dst = le.AppendUint64(dst, f.Deletions)
	dst = le.AppendUint64(dst, uint64(f.Head))
	dst = le.AppendUint32(dst, uint32(f.Partition.Index))
	dst = le.AppendUint16(dst, uint16(f.Region))
	flags := uint16(0)
	if f.Alone {
		flags = openAlone
	}
	dst = le.AppendUint16(dst, flags)
	return append(dst, f.Life[:]...)
}

func (f *Open) variable(dst []byte) []byte {
	dst = appendText(appendTopic(dst, f.Partition.Topic), f.Producer, MaxText)
	if len(f.Probes) == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(f.Probes)))
	for _, o := range f.Probes {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(o))
	}
	return dst
}

func (f *Open) decode(fixed, variable *cursor) {
	f.Session = SessionID(fixed.u64())
	f.Deletions = fixed.u64()
	f.Head = fixed.offset()
	f.Partition.Index = int32(fixed.u32())
	f.Region = rhumb.RegionNumber(fixed.u16())
	f.Alone = fixed.u16()&openAlone != 0
	f.Life = fixed.id()
	if f.Partition.Index < 0 || f.Region.Validate() != nil {
		fixed.fail("names no partition or no region")
	}
	f.Partition.Topic = variable.topic()
	f.Producer = variable.text(MaxText)
	for range variable.count(8) {
		f.Probes = append(f.Probes, variable.offset())
	}
}

// State answers an open: what the destination has, and how many bytes it takes
// before it has confirmed some.
type State struct {
	Session   SessionID
	Window    uint32
	Watermark dedup.Watermark // applied and flushed
	// Chains answer the open's probes, in their order; a chain of 0 says that no
	// batch of the life ends there. Older destinations give none.
	Chains []dedup.ChainPoint
}

// Type says what the frame is.
func (*State) Type() Type { return TypeState }

func (f *State) fixed(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Session))
	return binary.LittleEndian.AppendUint32(dst, f.Window)
}

func (f *State) variable(dst []byte) []byte {
	dst = f.Watermark.Append(dst)
	if len(f.Chains) == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(f.Chains)))
	for _, p := range f.Chains {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.Offset))
		dst = binary.LittleEndian.AppendUint64(dst, p.Chain)
	}
	return dst
}

func (f *State) decode(fixed, variable *cursor) {
	f.Session = SessionID(fixed.u64())
	f.Window = fixed.u32()
	w, n, err := dedup.ParseWatermark(variable.b)
	if err != nil {
		variable.fail("holds no watermark")
		return
	}
	f.Watermark = w
	variable.bytes(n)
	for range variable.count(16) {
		f.Chains = append(f.Chains, dedup.ChainPoint{Offset: variable.offset(), Chain: variable.u64()})
	}
}

// Data carries one batch.
type Data struct {
	Session  SessionID
	Round    uint32
	Head     rhumb.Offset
	Envelope codec.Envelope
	Batch    []byte // of the receiver: its own; may be patched

	// Shrink is not on the wire: what the sender knows of the partition, nil if nothing.
	Shrink *Shrink
}

// Type says what the frame is.
func (*Data) Type() Type { return TypeData }

func (f *Data) fixed(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(f.Session))
	dst = le.AppendUint32(dst, f.Round)
	dst = le.AppendUint32(dst, 0)
	return le.AppendUint64(dst, uint64(f.Head))
}

func (f *Data) variable(dst []byte) []byte { return append(f.envelope(dst), f.Batch...) }

// envelope appends the envelope alone.
func (f *Data) envelope(dst []byte) []byte {
	n := len(dst)
	dst = append(dst, make([]byte, codec.EnvelopeSize)...)
	f.Envelope.Put(dst[n:], f.Batch)
	return dst
}

// Size is the memory that the frame holds and the bytes that it takes from the
// window of its session: envelope and batch, uncompressed.
func (f *Data) Size() int { return codec.EnvelopeSize + len(f.Batch) }

func (f *Data) decode(fixed, variable *cursor) {
	f.decodeFixed(fixed)
	f.decodeContent(variable)
}

func (f *Data) decodeFixed(fixed *cursor) {
	f.Session = SessionID(fixed.u64())
	f.Round = fixed.u32()
	fixed.u32()
	f.Head = fixed.offset()
}

// decodeContent takes the variable part, uncompressed, and keeps it.
func (f *Data) decodeContent(variable *cursor) {
	e, batch, n, err := codec.ParseEnvelope(variable.b)
	if err != nil || n != len(variable.b) {
		variable.fail("holds no whole envelope and batch")
		return
	}
	f.Envelope, f.Batch = e, batch
}

// Skip is a [dedup.Skip] on its way: a skip frame, or a gap frame if its reason
// is one.
type Skip struct {
	Session SessionID
	Round   uint32
	Head    rhumb.Offset
	Skip    dedup.Skip
}

// Type says what the frame is.
func (f *Skip) Type() Type {
	if f.Skip.Reason.IsGap() {
		return TypeGap
	}
	return TypeSkip
}

func (f *Skip) fixed(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(f.Session))
	dst = le.AppendUint32(dst, f.Round)
	dst = append(dst, byte(f.Skip.Reason), 0, 0, 0)
	dst = le.AppendUint64(dst, uint64(f.Skip.From))
	dst = le.AppendUint64(dst, uint64(f.Skip.To))
	dst = le.AppendUint64(dst, f.Skip.Chain)
	return le.AppendUint64(dst, uint64(f.Head))
}

func (f *Skip) variable(dst []byte) []byte {
	if f.Skip.By == "" {
		return dst
	}
	return appendText(dst, f.Skip.By, maxBy)
}

func (f *Skip) decode(fixed, variable *cursor) {
	f.Session = SessionID(fixed.u64())
	f.Round = fixed.u32()
	f.Skip.Reason = rhumb.Reason(fixed.u8())
	fixed.bytes(3)
	f.Skip.From, f.Skip.To = fixed.offset(), fixed.offset()
	f.Skip.Chain = fixed.u64()
	f.Head = fixed.offset()
	if len(variable.b) > 0 { // older versions end before it
		f.Skip.By = variable.text(maxBy)
	}
}
