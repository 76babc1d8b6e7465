package wire

import (
	"encoding/binary"
	"math"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// cursor reads fields one after the other. It remembers that something was
// wrong and gives zeros from then on, so that decoders need no ladder of errors.
type cursor struct {
	b     []byte
	wrong string // "" while all is well
}

func (c *cursor) fail(why string) {
	if c.wrong == "" {
		c.wrong = why
	}
	c.b = nil
}

func (c *cursor) bytes(n int) []byte {
	if n > len(c.b) {
		c.fail("is too short")
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) i64() int64 { return int64(c.u64()) }

// offset reads an offset, which is NoOffset at least.
func (c *cursor) offset() rhumb.Offset {
	o := rhumb.Offset(c.u64())
	if o < rhumb.NoOffset {
		c.fail("holds a negative offset")
	}
	return o
}

func (c *cursor) id() (id [16]byte) {
	copy(id[:], c.bytes(len(id)))
	return id
}

// count reads how many items of size bytes follow, at most MaxProbes: none where
// an older version ends.
func (c *cursor) count(size int) int {
	if len(c.b) == 0 {
		return 0
	}
	n := int(c.u16())
	if n > MaxProbes || n*size > len(c.b) {
		c.fail("holds more points than fit")
		return 0
	}
	return n
}

func (c *cursor) text(limit int) string {
	n := int(c.u16())
	if n > limit {
		c.fail("holds a text that is too long")
	}
	return string(c.bytes(n))
}

// topic reads the three names of a topic and checks them.
func (c *cursor) topic() rhumb.Topic {
	t := rhumb.Topic{Tenant: rhumb.Tenant(c.text(64)), Namespace: rhumb.Namespace(c.text(64)), Name: rhumb.TopicName(c.text(249))}
	if c.wrong != "" {
		return rhumb.Topic{}
	}
	if err := t.Validate(); err != nil {
		c.fail("names no legal topic")
	}
	return t
}

// appendText appends a text, cut to limit bytes.
func appendText(dst []byte, s string, limit int) []byte {
	s = s[:min(len(s), limit, math.MaxUint16)]
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func appendTopic(dst []byte, t rhumb.Topic) []byte {
	dst = appendText(dst, string(t.Tenant), math.MaxUint16)
	dst = appendText(dst, string(t.Namespace), math.MaxUint16)
	return appendText(dst, string(t.Name), math.MaxUint16)
}
