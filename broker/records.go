package broker

import (
	"io"
	"math"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// zstdWindow is the most that a zstd stream of a producer may refer back to.
const zstdWindow = 8 << 20

// eachStamp calls fn for each record of a batch that CheckBatch accepted, until
// fn gives an error. It holds no more of the batch than a window of the codec,
// except that a raw snappy block is expanded as a whole. More bytes than
// ExpandLimit are of kind too large, records that do not parse of kind corrupt.
func (b *Broker) eachStamp(batch []byte, fn func(codec.Stamp) error) error {
	b.expand <- struct{}{}
	defer func() { <-b.expand }()
	records, err := b.expander.Open(batch)
	if err != nil {
		return err
	}
	defer records.Close()
	for {
		stamp, err := records.NextStamp()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(stamp)
		}
		if err != nil {
			return err
		}
	}
}

// checkRecords looks at each record: offsets follow each other, the content
// parses, times are within bounds, and in a compacted topic each has a key. It
// gives the largest timestamp.
func (b *Broker) checkRecords(batch []byte, s settings, now int64) (latest int64, err error) {
	refused := &RecordsError{}
	fault := func(index int64, cause error, text string) {
		if refused.Cause == nil {
			refused.Cause = cause
		}
		if len(refused.Faults) < maxRecordFaults {
			refused.Faults = append(refused.Faults, RecordFault{int32(index), text})
		}
	}
	want := int64(0)
	latest = math.MinInt64
	err = b.eachStamp(batch, func(r codec.Stamp) error {
		if r.Delta != want {
			return rhumb.Errorf(rhumb.KindInvalid, "record %d of the batch has offset delta %d", want, r.Delta)
		}
		if s.compacted && !r.HasKey {
			fault(want, rhumb.Errorf(rhumb.KindInvalid, "records without a key"), "Compacted topic cannot accept message without key")
		} else if !s.appendTime {
			if text := s.misdated(r.Timestamp, now); text != "" {
				fault(want, rhumb.Errorf(rhumb.KindInvalid, "%w", ErrTimestamp), text)
			}
		}
		latest = max(latest, r.Timestamp)
		want++
		return nil
	})
	if err == nil && refused.Cause != nil {
		err = refused
	}
	return latest, err
}
