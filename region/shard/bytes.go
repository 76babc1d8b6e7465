package shard

import (
	"encoding/binary"
	"math"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxString bounds every string and blob inside a command or a row: the largest
// is a group's state, which its coordinator keeps far below this.
const maxString = 16 << 20

func putString[S ~string | ~[]byte](b []byte, s S) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func putInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func putUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func putTopic(b []byte, t rhumb.Topic) []byte {
	b = putString(b, t.Tenant)
	b = putString(b, t.Namespace)
	return putString(b, t.Name)
}

func putConfigs(b []byte, configs []configPair) []byte {
	b = putUint(b, uint64(len(configs)))
	for _, c := range configs {
		b = putString(b, c.key)
		b = putString(b, c.value)
	}
	return b
}

// reader takes values off the front of a buffer. After the first value that
// does not fit it is bad and gives zeros, so decoders need no error ladder.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.bad, r.b = true, nil }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int32() int32 {
	v := r.int()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	b := r.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (r *reader) bool() bool { return r.byte() != 0 }

// bytes gives a part of the buffer, not a copy.
func (r *reader) bytes() []byte {
	n := r.uint()
	if n > maxString {
		r.fail()
		return nil
	}
	return r.take(int(n))
}

func (r *reader) string() string { return string(r.bytes()) }

// count reads a number of items of at least size bytes each, so that it cannot
// make its caller allocate more than a small multiple of the input.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) topic() rhumb.Topic {
	return rhumb.Topic{Tenant: rhumb.Tenant(r.string()), Namespace: rhumb.Namespace(r.string()), Name: rhumb.TopicName(r.string())}
}

func (r *reader) uuid() (u rhumb.UUID) {
	copy(u[:], r.take(len(u)))
	return u
}

func (r *reader) life() rhumb.Life { return rhumb.Life(r.uuid()) }

func (r *reader) region() rhumb.RegionNumber {
	v := r.uint()
	if v > uint64(rhumb.MaxRegionNumber) {
		r.fail()
	}
	return rhumb.RegionNumber(v)
}

func (r *reader) configs() []configPair {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	out := make([]configPair, 0, n)
	for range n {
		out = append(out, configPair{r.string(), r.string()})
	}
	return out
}

// err gives an error of kind corrupt if a value was missing. What follows the
// known values belongs to a later version and is skipped.
func (r *reader) err(what string) error {
	if r.bad {
		return rhumb.Errorf(rhumb.KindCorrupt, "shard: %s ends too early", what)
	}
	return nil
}
