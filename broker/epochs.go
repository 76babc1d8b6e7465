package broker

import (
	"errors"
	"math"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ErrNewerEpoch means that a client knows a leader epoch that this node has not
// seen yet: it should ask again soon.
var ErrNewerEpoch = errors.New("broker: leader epoch is newer than ours")

// CheckEpoch compares the epoch that a client believes in with the partition's:
// kind fenced if it is older, ErrNewerEpoch of kind unavailable if newer. An
// epoch below zero is not checked.
func CheckEpoch(state PartitionState, epoch int32) error {
	switch {
	case epoch < 0 || epoch == state.LeaderEpoch:
		return nil
	case epoch < state.LeaderEpoch:
		return rhumb.Errorf(rhumb.KindFenced, "leader epoch %d is over, it is %d now", epoch, state.LeaderEpoch)
	}
	return rhumb.Errorf(rhumb.KindUnavailable, "%w: %d, ours is %d", ErrNewerEpoch, epoch, state.LeaderEpoch)
}

// EpochEnd gives the largest leader epoch of the partition that is not above
// the one asked for, and where the next one begins: the first batch above it, or the
// log's end. What retention or compaction took away at the border counts as
// the epoch's, as for Kafka: a consumer that has read it must not be told that the log was
// cut. An epoch from which nothing is left, nor from any before it, is itself the
// answer; one that has not begun gives -1 and [rhumb.NoOffset]. Epochs only grow along a log, so it is a binary search with one batch
// read per step.
func (b *Broker) EpochEnd(t *TopicInfo, partition, current, asked int32) (epoch int32, end rhumb.Offset, err error) {
	state, err := b.State(t, partition)
	if err == nil {
		err = CheckEpoch(state, current)
	}
	if err != nil {
		return -1, rhumb.NoOffset, err
	}
	switch {
	case asked == state.LeaderEpoch:
		return asked, state.End, nil
	case asked < 0 || asked > state.LeaderEpoch:
		return -1, rhumb.NoOffset, nil
	}
	ref := t.Partitions[partition].Ref
	epoch, end = asked, state.End // if no batch is below, and none above
	low, high := state.LogStart, state.End
	for low < high {
		middle := low + (high-low)/2
		s, ok, err := b.batchAt(ref, middle)
		switch {
		case err != nil:
			return -1, rhumb.NoOffset, err
		case !ok:
			high = middle
		case s.epoch > asked:
			end = max(low, s.base)
			high = min(middle, end)
		default:
			low, epoch = s.last+1, s.epoch
		}
	}
	return epoch, end, nil
}

type placed struct {
	base, last rhumb.Offset
	epoch      int32
}

// batchAt finds the batch that holds an offset, or the next one after it.
func (b *Broker) batchAt(ref rhumb.PartitionRef, at rhumb.Offset) (placed, bool, error) {
	batches, err := b.region.Read(ref, Query{From: at, Limit: math.MaxInt64, MaxBytes: 1})
	if err != nil || len(batches) == 0 {
		return placed{}, false, err
	}
	h, err := codec.ParseBatch(batches[0].Batch)
	return placed{base: batches[0].Base, last: batches[0].Last(), epoch: h.LeaderEpoch}, true, err
}
