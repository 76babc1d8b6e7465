package sim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/codec"
)

// encodeBatch builds the batch of an idempotent producer with these values.
func encodeBatch(producer int64, firstSequence int32, values []string) ([]byte, codec.BatchHeader) {
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: producer, FirstSequence: firstSequence, NumRecords: int32(len(values)),
	}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		body := r.AppendTo(nil)[1:] // without the one-byte length of an empty length field
		r.Length = int32(len(body))
		b.Records = r.AppendTo(b.Records)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], codec.Checksum(raw[21:]))
	h, err := codec.CheckBatch(raw)
	if err != nil {
		panic(fmt.Sprintf("sim: built a batch that is not one: %v", err))
	}
	return raw, h
}

// decodeValues gives the values of an uncompressed batch's records.
func decodeValues(raw []byte) ([]string, error) {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		return nil, err
	}
	var values []string
	for rest := b.Records; len(rest) > 0; {
		length, n := binary.Varint(rest)
		if n <= 0 || int64(len(rest)) < int64(n)+length {
			return nil, fmt.Errorf("record %d of %d is cut", len(values), b.NumRecords)
		}
		var r kmsg.Record
		if err := r.ReadFrom(rest[:n+int(length)]); err != nil {
			return nil, err
		}
		values = append(values, string(r.Value))
		rest = rest[n+int(length):]
	}
	return values, nil
}
