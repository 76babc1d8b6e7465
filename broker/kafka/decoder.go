package kafka

import "encoding/binary"

// decoder reads the protocol's primitives from bytes. It remembers that it went
// bad and gives zeros afterwards, so that callers check once. It makes no room
// for anything: strings and bytes are parts of its input.
type decoder struct {
	b   []byte
	bad bool
}

// bytes takes the next n bytes.
func (d *decoder) bytes(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) int16() int16 {
	if b := d.bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if b := d.bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) uvarint() int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > 1<<31-1 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

// length reads the length of an array, a string or bytes: -1 for null.
func (d *decoder) length(compact bool, wide bool) int {
	switch {
	case compact:
		return d.uvarint() - 1
	case wide:
		return int(d.int32())
	}
	return int(d.int16())
}

// nullable reads a string (wide false) or bytes, nil if null.
func (d *decoder) nullable(compact, wide bool) []byte {
	n := d.length(compact, wide)
	if d.bad || n == -1 {
		return nil
	}
	return d.bytes(n)
}

// tags skips tagged fields and counts them.
func (d *decoder) tags() (count int) {
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		d.uvarint()
		d.bytes(d.uvarint())
		count++
	}
	return count
}
