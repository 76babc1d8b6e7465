package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ErrTimestamp means that a record's timestamp is further from now than the
// topic allows.
var ErrTimestamp = errors.New("timestamp out of range")

// RecordFault says what is wrong with one record of a batch (KIP-467).
type RecordFault struct {
	Index int32 // in the batch
	Text  string
}

// maxRecordFaults bounds the records that an answer names: the rest of them are
// refused with the batch.
const maxRecordFaults = 100

// RecordsError refuses a batch for some of its records.
type RecordsError struct {
	Faults []RecordFault // the first ones
	Cause  error         // of kind invalid
}

// Error sums the faults up.
func (e *RecordsError) Error() string {
	return fmt.Sprintf("One or more records have been rejected: record %d: %s", e.Faults[0].Index, e.Faults[0].Text)
}

// Unwrap gives the cause, which has the kind.
func (e *RecordsError) Unwrap() error { return e.Cause }

// checkBatch checks what a producer sent for one partition; see [AppendItem] for sum. It may change the
// batch in place: a topic of LogAppendTime puts its own times in, and a largest
// timestamp that the records do not have is put right if they are looked at. The
// header's largest timestamp is never below its first, whatever the client said.
func (b *Broker) checkBatch(batch []byte, sum *uint32, s settings) (codec.BatchHeader, error) {
	if len(batch) > s.maxMessage {
		return codec.BatchHeader{}, rhumb.Errorf(rhumb.KindTooLarge, "batch of %d bytes, at most %d", len(batch), s.maxMessage)
	}
	h, err := codec.CheckSummed(batch, sum)
	if err != nil {
		return h, err
	}
	switch {
	case h.Count > mostRecords(h):
		return h, rhumb.Errorf(rhumb.KindInvalid, "batch says %d records, which its %d bytes cannot hold", h.Count, h.Size)
	case h.BaseOffset != 0:
		return h, rhumb.Errorf(rhumb.KindInvalid, "batch has base offset %d, which a producer does not know", h.BaseOffset)
	case h.Attributes&codec.AttrControl != 0:
		return h, rhumb.Errorf(rhumb.KindInvalid, "batch has the control bit, which only brokers set")
	case h.Attributes&codec.AttrTransactional != 0:
		return h, rhumb.Errorf(rhumb.KindUnsupported, "batch belongs to a transaction; transactions are not offered")
	case h.Idempotent() && (h.ProducerID < 0 || h.ProducerEpoch < 0 || h.BaseSequence < 0):
		return h, rhumb.Errorf(rhumb.KindInvalid, "batch of producer %d has epoch %d and sequence %d",
			h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case h.Attributes&codec.AttrLogAppendTime != 0 && !s.appendTime:
		return h, rhumb.Errorf(rhumb.KindInvalid, "batch says LogAppendTime, the topic CreateTime")
	}
	now := time.Now().UnixMilli()
	wrong := h.MaxTimestamp < h.FirstTimestamp // whoever wrote this did not look at the records
	h.MaxTimestamp = max(h.MaxTimestamp, h.FirstTimestamp)
	if s.full || wrong && !s.appendTime {
		latest, err := b.checkRecords(batch, s, now)
		if err != nil {
			return h, err
		}
		if latest != h.MaxTimestamp && !s.appendTime {
			h = setLatest(batch, latest)
		}
	}
	if s.appendTime {
		return stampBatch(batch, now), nil
	}
	if text := s.misdated(h.MaxTimestamp, now); text != "" {
		return h, rhumb.Errorf(rhumb.KindInvalid, "%w: batch: %s", ErrTimestamp, text)
	}
	return h, nil
}

// smallestRecord is the size of a record without key, value and headers.
const smallestRecord = 7

// expansion is how many bytes a compressed byte can become at the most, by codec:
// none, gzip, snappy, lz4, zstd (a block of 128 KiB in four bytes).
var expansion = [...]int64{1, 1032, 32, 256, 1 << 15}

// mostRecords is how many records a batch can have by its size. Records are not
// looked at; but a count that is out of all proportion would take offsets that
// nobody ever uses.
func mostRecords(h codec.BatchHeader) int32 {
	room := int64(h.Size-codec.BatchHeaderSize) * expansion[h.Attributes&codec.AttrCodecMask]
	return int32(min(room/smallestRecord, math.MaxInt32))
}

// noTimestamp is what a record without a time carries.
const noTimestamp = -1

// misdated says how a timestamp lies outside of what the topic takes, "" if not.
func (s *settings) misdated(at, now int64) string {
	switch {
	case at == noTimestamp:
		return ""
	case at > now && at-now > s.after:
		return fmt.Sprintf("timestamp %d lies %d ms ahead of %d, at most %d are allowed", at, at-now, now, s.after)
	case at < now && now-at > s.before:
		return fmt.Sprintf("timestamp %d lies %d ms before %d, at most %d are allowed", at, now-at, now, s.before)
	}
	return ""
}

// Places in a batch; all lie under its CRC.
const (
	atAttributes = 21
	atFirst      = 27
	atLatest     = 35
)

// stampBatch makes the batch one of LogAppendTime. These fields lie under the
// CRC, so it is computed anew.
func stampBatch(batch []byte, now int64) codec.BatchHeader {
	be := binary.BigEndian
	be.PutUint16(batch[atAttributes:], be.Uint16(batch[atAttributes:])|codec.AttrLogAppendTime)
	be.PutUint64(batch[atFirst:], uint64(now))
	return setLatest(batch, now)
}

// setLatest writes the largest timestamp of a batch, and its CRC.
func setLatest(batch []byte, latest int64) codec.BatchHeader {
	binary.BigEndian.PutUint64(batch[atLatest:], uint64(latest))
	codec.SealBatch(batch)
	h, _ := codec.ParseBatch(batch) // it parsed before
	return h
}
