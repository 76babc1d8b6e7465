package broker

import (
	"encoding/binary"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// checkBatch checks what a producer sent for one partition. It may change the
// batch in place: a topic of LogAppendTime puts its own times in. The header's
// max timestamp is never below its first timestamp, whatever the client said.
func (b *Broker) checkBatch(batch []byte, s settings) (codec.BatchHeader, error) {
	if len(batch) > s.maxMessage {
		return codec.BatchHeader{}, rhumb.Errorf(rhumb.KindTooLarge, "batch of %d bytes, at most %d", len(batch), s.maxMessage)
	}
	h, err := codec.CheckBatch(batch)
	if err != nil {
		return h, err
	}
	switch {
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
	h.MaxTimestamp = max(h.MaxTimestamp, h.FirstTimestamp)
	if !s.appendTime && h.MaxTimestamp > now && h.MaxTimestamp-now > s.ahead {
		return h, rhumb.Errorf(rhumb.KindInvalid, "batch: timestamp %d lies more than %d ms ahead", h.MaxTimestamp, s.ahead)
	}
	if s.full {
		if err := b.checkRecords(batch, s.compacted); err != nil {
			return h, err
		}
	}
	if s.appendTime {
		h = stampBatch(batch, now)
	}
	return h, nil
}

// stampBatch makes the batch one of LogAppendTime. These fields lie under the
// CRC, so it is computed anew.
func stampBatch(batch []byte, now int64) codec.BatchHeader {
	const attributes, first, maximum = 21, 27, 35
	be := binary.BigEndian
	be.PutUint16(batch[attributes:], be.Uint16(batch[attributes:])|codec.AttrLogAppendTime)
	be.PutUint64(batch[first:], uint64(now))
	be.PutUint64(batch[maximum:], uint64(now))
	codec.SealBatch(batch)
	h, _ := codec.ParseBatch(batch) // it parsed before
	return h
}
