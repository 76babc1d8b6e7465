package broker

import (
	"math"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Found is a position that was looked up. Nothing found has Offset NoOffset,
// Timestamp and LeaderEpoch -1.
type Found struct {
	Offset      rhumb.Offset
	Timestamp   int64 // ms since 1970, -1 where the question was not about time
	LeaderEpoch int32
}

var notFound = Found{Offset: rhumb.NoOffset, Timestamp: -1, LeaderEpoch: -1}

// Earliest gives the log start, with the epoch of the record there, -1 if that is damaged:
// who reads on from there is told so by the read.
func (b *Broker) Earliest(t *TopicInfo, partition, epoch int32) (Found, error) {
	state, err := b.lookupState(t, partition, epoch)
	if err != nil {
		return notFound, err
	}
	f := Found{Offset: state.LogStart, Timestamp: -1, LeaderEpoch: state.LeaderEpoch}
	if state.LogStart < state.End {
		at, ok, err := b.batchAt(t.Partitions[partition].Ref, state.LogStart)
		switch {
		case rhumb.KindOf(err) == rhumb.KindCorrupt:
			f.LeaderEpoch = -1
		case err != nil:
			return notFound, err
		case ok:
			f.LeaderEpoch = at.epoch
		}
	}
	return f, nil
}

// End gives one past the last committed record.
func (b *Broker) End(t *TopicInfo, partition, epoch int32) (Found, error) {
	state, err := b.lookupState(t, partition, epoch)
	if err != nil {
		return notFound, err
	}
	return Found{Offset: state.End, Timestamp: -1, LeaderEpoch: state.LeaderEpoch}, nil
}

func (b *Broker) lookupState(t *TopicInfo, partition, epoch int32) (PartitionState, error) {
	state, err := b.State(t, partition)
	if err == nil {
		err = CheckEpoch(state, epoch)
	}
	return state, err
}

// maxScanned bounds the batches after the index's answer that a look-up by time
// reads: more than one only where clients stated wrong max timestamps.
const maxScanned = 256

// ByTime gives the first record, in the order of offsets, whose timestamp is
// not below ts: the record, not its batch.
func (b *Broker) ByTime(t *TopicInfo, partition, epoch int32, ts int64) (Found, error) {
	state, err := b.lookupState(t, partition, epoch)
	if err != nil {
		return notFound, err
	}
	ref := t.Partitions[partition].Ref
	s, ok, err := b.region.ByTime(ref, ts)
	for range maxScanned {
		if err != nil || !ok {
			return notFound, err
		}
		f, err := b.scan(s, func(r, best stamped) bool {
			return best.offset < 0 && r.timestamp >= ts && r.offset >= state.LogStart
		})
		if err != nil || f.Offset >= 0 {
			return f, err
		}
		if s, ok, err = b.after(ref, s); err != nil {
			return notFound, err
		}
	}
	return notFound, rhumb.Errorf(rhumb.KindUnavailable, "timestamps of topic %s partition %d are not as its batches say",
		t.Topic.Short(), partition)
}

// Latest gives the record with the largest timestamp, the first of several.
func (b *Broker) Latest(t *TopicInfo, partition, epoch int32) (Found, error) {
	state, err := b.lookupState(t, partition, epoch)
	if err != nil {
		return notFound, err
	}
	s, ok, err := b.region.Latest(t.Partitions[partition].Ref)
	if err != nil || !ok {
		return notFound, err
	}
	return b.scan(s, func(r, best stamped) bool {
		return r.offset >= state.LogStart && (best.offset < 0 || r.timestamp > best.timestamp)
	})
}

func (b *Broker) after(ref rhumb.PartitionRef, s Stored) (Stored, bool, error) {
	next, err := b.region.Read(ref, Query{From: s.Last() + 1, Limit: math.MaxInt64, MaxBytes: 1})
	if err != nil || len(next) == 0 {
		return Stored{}, false, err
	}
	return next[0], true, nil
}

// stamped is a record that a look-up sees.
type stamped struct {
	offset    rhumb.Offset
	timestamp int64 // ms since 1970
}

// scan looks at the records of one batch and gives the last one that was better
// than the best so far, which has offset NoOffset at first.
func (b *Broker) scan(s Stored, better func(r, best stamped) bool) (Found, error) {
	h, err := codec.ParseBatch(s.Batch)
	if err != nil {
		return notFound, err
	}
	best := stamped{offset: rhumb.NoOffset}
	err = b.eachStamp(s.Batch, func(r codec.Stamp) error {
		if at := (stamped{h.BaseOffset + rhumb.Offset(r.Delta), r.Timestamp}); better(at, best) {
			best = at
		}
		return nil
	})
	if err != nil || best.offset < 0 {
		return notFound, err
	}
	return Found{Offset: best.offset, Timestamp: best.timestamp, LeaderEpoch: h.LeaderEpoch}, nil
}
