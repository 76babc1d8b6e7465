package brokertest

import (
	"encoding/binary"

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
	out := b.plain()
	if b.Records != nil {
		out = append(out[:codec.BatchHeaderSize:codec.BatchHeaderSize], b.Records...)
	}
	binary.BigEndian.PutUint16(out[21:], uint16(b.Attributes))
	codec.SealBatch(out)
	return out
}

// Encode gives the records without a header, uncompressed.
func (b Batch) Encode() []byte { return b.plain()[codec.BatchHeaderSize:] }

func (b Batch) plain() []byte {
	records := make([]codec.PlainRecord, 0, len(b.Times))
	for _, at := range b.Times {
		r := codec.PlainRecord{Timestamp: at, Key: []byte("k"), Value: b.Value, Headers: []codec.PlainHeader{{Key: "h"}}}
		if b.NoKeys {
			r.Key = nil
		}
		if r.Value == nil {
			r.Value = []byte{}
		}
		records = append(records, r)
	}
	sender := codec.NoSender
	if b.Idempotent {
		sender = codec.Sender{ID: b.Producer, Epoch: b.Epoch, Sequence: b.Sequence}
	}
	return codec.BuildBatch(sender, records)
}
