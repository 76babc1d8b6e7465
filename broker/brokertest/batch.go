package brokertest

import (
	"encoding/binary"
	"slices"

	"github.com/rhumbmq/rhumb/internal/codec"
)

// Batch describes a record batch that a test wants. Its zero value with one
// time is a batch of one small record that no idempotent producer sent.
type Batch struct {
	Times      []int64 // of the records, ms since 1970
	NoKeys     bool
	Value      []byte
	Idempotent bool // then the next three count
	Producer   int64
	Epoch      int16
	Sequence   int32
	Attributes int16
	Records    []byte // in place of what Times would give, for batches that are compressed or wrong
}

// Bytes encodes the batch as a client does.
func (b Batch) Bytes() []byte {
	records := b.Records
	if records == nil {
		records = b.Encode()
	}
	out := make([]byte, codec.BatchHeaderSize, codec.BatchHeaderSize+len(records))
	be := binary.BigEndian
	be.PutUint32(out[8:], uint32(codec.BatchHeaderSize-12+len(records)))
	be.PutUint32(out[12:], 1<<32-1) // leader epoch -1
	out[16] = 2
	be.PutUint16(out[21:], uint16(b.Attributes))
	be.PutUint32(out[23:], uint32(len(b.Times)-1))
	be.PutUint64(out[27:], uint64(b.Times[0]))
	be.PutUint64(out[35:], uint64(slices.Max(b.Times)))
	producer, epoch, sequence := b.Producer, b.Epoch, b.Sequence
	if !b.Idempotent {
		producer, epoch, sequence = -1, -1, -1
	}
	be.PutUint64(out[43:], uint64(producer))
	be.PutUint16(out[51:], uint16(epoch))
	be.PutUint32(out[53:], uint32(sequence))
	be.PutUint32(out[57:], uint32(len(b.Times)))
	out = append(out, records...)
	Seal(out)
	return out
}

// Seal computes the batch's CRC after a test changed it.
func Seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[17:], codec.Checksum(batch[21:]))
}

// Encode gives the records without a header, uncompressed.
func (b Batch) Encode() []byte {
	var out []byte
	for i, t := range b.Times {
		body := []byte{0}
		body = binary.AppendVarint(body, t-b.Times[0])
		body = binary.AppendVarint(body, int64(i))
		if b.NoKeys {
			body = binary.AppendVarint(body, -1)
		} else {
			body = append(binary.AppendVarint(body, 1), 'k')
		}
		body = append(binary.AppendVarint(body, int64(len(b.Value))), b.Value...)
		body = binary.AppendVarint(body, 1) // headers
		body = append(binary.AppendVarint(body, 1), 'h')
		body = binary.AppendVarint(body, -1)
		out = append(binary.AppendVarint(out, int64(len(body))), body...)
	}
	return out
}
