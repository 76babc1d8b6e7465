package dedup

import (
	"fmt"
	"math"

	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// RememberedBatches is how many batches of a producer can be answered as
// duplicates: Kafka clients keep at most five requests in flight.
const RememberedBatches = 5

// SequenceVerdict is what a producer's table says about a batch.
type SequenceVerdict uint8

// The verdicts; the Kafka door maps each to an error code.
const (
	SequenceNew        SequenceVerdict = iota // it continues: append it
	SequenceDuplicate                         // an exact copy of a remembered batch: answer its offset
	SequenceOutOfOrder                        // it does not continue: OUT_OF_ORDER_SEQUENCE_NUMBER
	SequenceFenced                            // a lower epoch: INVALID_PRODUCER_EPOCH
	SequenceInvalid                           // negative epoch or sequences: INVALID_RECORD
)

var sequenceVerdictNames = [...]string{"new", "duplicate", "out of order", "fenced", "invalid"}

// String gives the verdict's words.
func (v SequenceVerdict) String() string {
	if int(v) < len(sequenceVerdictNames) {
		return sequenceVerdictNames[v]
	}
	return fmt.Sprintf("sequence-verdict-%d", uint8(v))
}

// SeqRange is one remembered batch of a producer.
type SeqRange struct {
	First int32
	Last  int32 // below First if the sequence wrapped within the batch
	Base  rhumb.Offset
	Time  int64 // of the log entry, ms since 1970
}

// Producer is what a partition remembers of one producer id. It is a value: a
// copy is a snapshot. No state at all is a nil *Producer.
type Producer struct {
	Epoch   int16
	LastUse int64 // time of the last log entry that touched it, ms since 1970; it only grows

	batches [RememberedBatches]SeqRange // oldest first
	count   uint8
}

// Batches gives the remembered batches, oldest first. The slice is read only.
func (p *Producer) Batches() []SeqRange { return p.batches[:p.count] }

// LastSequence is the sequence of the last of count records of a batch whose
// first record has sequence first: after 2^31-1 comes 0.
func LastSequence(first, count int32) int32 {
	return nextSequence(first, count-1)
}

// nextSequence is seq + n on a circle of 2^31.
func nextSequence(seq, n int32) int32 {
	if mutant.On(mutant.SequenceWrap) {
		return seq + n
	}
	return int32((int64(seq) + int64(n)) & math.MaxInt32)
}

// Judge says what a batch of sequences first to last under an epoch is; p is nil
// if the partition has no state of the producer. For a duplicate it gives the
// base offset that the batch got the first time, else NoOffset. It changes
// nothing.
func (p *Producer) Judge(epoch int16, first, last int32) (SequenceVerdict, rhumb.Offset) {
	switch {
	case epoch < 0 || first < 0 || last < 0:
		return SequenceInvalid, rhumb.NoOffset
	case p == nil && mutant.On(mutant.NoStateZero) && first != 0:
		return SequenceOutOfOrder, rhumb.NoOffset
	case p == nil:
		return SequenceNew, rhumb.NoOffset
	case mutant.On(mutant.EpochAfterCopies) && p.find(first, last) != nil:
		return SequenceDuplicate, p.find(first, last).Base
	case epoch < p.Epoch:
		return SequenceFenced, rhumb.NoOffset
	case epoch > p.Epoch && first != 0 && !mutant.On(mutant.EpochAnyFirst):
		return SequenceOutOfOrder, rhumb.NoOffset
	case epoch > p.Epoch || p.count == 0:
		return SequenceNew, rhumb.NoOffset
	}
	if copied := p.find(first, last); copied != nil {
		return SequenceDuplicate, copied.Base
	}
	if next := nextSequence(p.batches[p.count-1].Last, 1); first == next || mutant.On(mutant.SequenceBorder) && first == next+1 {
		return SequenceNew, rhumb.NoOffset
	}
	return SequenceOutOfOrder, rhumb.NoOffset
}

func (p *Producer) find(first, last int32) *SeqRange {
	for i := range p.Batches() {
		if r := &p.batches[i]; r.First == first && r.Last == last {
			return r
		}
	}
	return nil
}

// Accept gives the state after a batch that [Producer.Judge] says is new. r.Time
// is that of the log entry. A producer without state starts from Producer{}.
func (p Producer) Accept(epoch int16, r SeqRange) Producer {
	remembered := RememberedBatches
	if mutant.On(mutant.FourBatches) {
		remembered--
	}
	switch {
	case epoch != p.Epoch:
		p.count = 0
	case int(p.count) == remembered:
		copy(p.batches[:], p.batches[1:p.count])
		p.count--
	}
	p.batches[p.count] = r
	p.count++
	clear(p.batches[p.count:]) // equal states are equal values
	p.Epoch = epoch
	p.LastUse = max(p.LastUse, r.Time)
	return p
}

// Expired reports whether the producer has not been used for ttl at the time
// now of a log entry (both in ms), so that its state may be dropped.
func (p *Producer) Expired(now, ttl int64) bool {
	if mutant.On(mutant.ExpiryBorder) {
		now++
	}
	return now-p.LastUse > ttl
}
