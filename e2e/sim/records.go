package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
)

// encodeBatch builds the batch of an idempotent producer with these values.
func encodeBatch(producer int64, firstSequence int32, values []string) ([]byte, codec.BatchHeader) {
	now := time.Now().UnixMilli()
	records := make([]codec.PlainRecord, 0, len(values))
	for _, v := range values {
		records = append(records, codec.PlainRecord{Timestamp: now, Value: []byte(v)})
	}
	raw := codec.BuildBatch(codec.Sender{ID: producer, Sequence: firstSequence}, records)
	h, err := codec.CheckBatch(raw)
	if err != nil {
		panic(fmt.Sprintf("sim: built a batch that is not one: %v", err))
	}
	return raw, h
}

// decodeValues gives the values of an uncompressed batch's records.
func decodeValues(raw []byte) ([]string, error) {
	records, err := codec.NewExpander(codec.Limits{Bytes: codec.MaxBatchSize}).Open(raw)
	if err != nil {
		return nil, err
	}
	defer records.Close()
	var values []string
	for {
		r, err := records.Next()
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		values = append(values, string(r.Value))
	}
}
