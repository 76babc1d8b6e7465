package codec

import (
	"encoding/binary"
	"iter"
)

// Stamp is what is known of a record without its content.
type Stamp struct {
	Delta     int64 // offset after the batch's first, as the record states it: not to be trusted
	Timestamp int64 // ms since 1970
	HasKey    bool
}

// Record is one record of a batch. Its bytes are valid only until the next one
// is read.
type Record struct {
	Stamp
	Key, Value []byte // nil if null
	Headers    Headers
	Raw        []byte // all of it as it is in the batch, without its length
}

// Headers are the headers of a record, still encoded.
type Headers struct {
	count   int
	encoded []byte
}

// Len gives the number of headers.
func (h Headers) Len() int { return h.count }

// All gives keys and values in order. A value may be nil, a key is not.
func (h Headers) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		rest := h.encoded // it was checked when the record was read
		take := func() []byte {
			n, size := binary.Varint(rest)
			rest = rest[size:]
			if n < 0 {
				return nil
			}
			part := rest[:n:n]
			rest = rest[n:]
			return part
		}
		for range h.count {
			if key, value := take(), take(); !yield(key, value) {
				return
			}
		}
	}
}
