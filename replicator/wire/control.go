package wire

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Bye ends a link and says why, so that the other side can show it. Nothing
// follows it.
type Bye struct {
	Kind rhumb.Kind
	Text string // at most MaxText bytes
}

// Type says what the frame is.
func (*Bye) Type() Type { return TypeBye }

func (f *Bye) fixed(dst []byte) []byte    { return append(dst, byte(f.Kind)) }
func (f *Bye) variable(dst []byte) []byte { return appendText(dst, f.Text, MaxText) }

func (f *Bye) decode(fixed, variable *cursor) {
	f.Kind = rhumb.Kind(fixed.u8())
	f.Text = variable.text(MaxText)
}

// Topic announces that a topic exists at the sender. The receiver creates it,
// or grows it, unless it knows a higher deletion count or policy forbids it.
type Topic struct {
	Topic      rhumb.Topic
	Partitions int32
	Deletions  uint64            // the count it was born under
	Configs    map[string]string // at most MaxConfigs
}

// Type says what the frame is.
func (*Topic) Type() Type { return TypeTopic }

func (f *Topic) fixed(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, f.Deletions)
	dst = le.AppendUint32(dst, uint32(f.Partitions))
	return le.AppendUint16(dst, uint16(len(f.Configs)))
}

func (f *Topic) variable(dst []byte) []byte {
	dst = appendTopic(dst, f.Topic)
	for _, key := range slices.Sorted(maps.Keys(f.Configs)) {
		dst = appendText(dst, key, math.MaxUint16)
		dst = appendText(dst, f.Configs[key], math.MaxUint16)
	}
	return dst
}

func (f *Topic) decode(fixed, variable *cursor) {
	f.Deletions = fixed.u64()
	f.Partitions = int32(fixed.u32())
	n := int(fixed.u16())
	if f.Partitions <= 0 || n > MaxConfigs {
		fixed.fail("has no partitions or too many configs")
		return
	}
	f.Topic = variable.topic()
	if n == 0 {
		return
	}
	f.Configs = make(map[string]string, n)
	for last := ""; n > 0 && variable.wrong == ""; n-- {
		key := variable.text(math.MaxUint16)
		if key <= last {
			variable.fail("has configs out of order")
			return
		}
		f.Configs[key] = variable.text(math.MaxUint16)
		last = key
	}
}

// Ping asks for a pong at once: for the round trip and the clocks.
type Ping struct {
	Number uint64
	Clock  int64 // wall clock, µs since 1970
}

// Type says what the frame is.
func (*Ping) Type() Type { return TypePing }

func (f *Ping) fixed(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, f.Number)
	return binary.LittleEndian.AppendUint64(dst, uint64(f.Clock))
}

func (f *Ping) variable(dst []byte) []byte { return dst }

func (f *Ping) decode(fixed, _ *cursor) { f.Number, f.Clock = fixed.u64(), fixed.i64() }

// Pong answers a ping.
type Pong struct {
	Number    uint64
	PingClock int64 // as the ping said
	Clock     int64 // wall clock of who answers, µs since 1970
}

// Type says what the frame is.
func (*Pong) Type() Type { return TypePong }

func (f *Pong) fixed(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, f.Number)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.PingClock))
	return binary.LittleEndian.AppendUint64(dst, uint64(f.Clock))
}

func (f *Pong) variable(dst []byte) []byte { return dst }

func (f *Pong) decode(fixed, _ *cursor) {
	f.Number, f.PingClock, f.Clock = fixed.u64(), fixed.i64(), fixed.i64()
}
