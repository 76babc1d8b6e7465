package region

import (
	"context"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func noPartition(ref rhumb.PartitionRef) error {
	return rhumb.Errorf(rhumb.KindNotFound, "no partition %d in shard %d", ref.ID, ref.Shard)
}

// Append stores a batch of a producer; see [shard.Shard.Append] for when done is
// called, and with which errors.
func (r *Region) Append(ref rhumb.PartitionRef, req AppendRequest, done func(AppendResult)) {
	s := r.shard(ref.Shard)
	if s == nil {
		done(AppendResult{Base: rhumb.NoOffset, Err: noPartition(ref)})
		return
	}
	if err := r.backlog.refusal(ref); err != nil {
		done(AppendResult{Base: rhumb.NoOffset, Err: err})
		return
	}
	s.Append(ref.ID, req, done)
}

// AppendLink stores a batch of another region if it continues its origin.
func (r *Region) AppendLink(ref rhumb.PartitionRef, b LinkBatch, done func(LinkResult)) {
	s := r.shard(ref.Shard)
	if s == nil {
		done(LinkResult{Verdict: dedup.Missing, Err: noPartition(ref)})
		return
	}
	s.AppendLink(ref.ID, b, done)
}

// SkipLink moves an origin's watermark where no data does.
func (r *Region) SkipLink(ref rhumb.PartitionRef, k LinkSkip, done func(LinkResult)) {
	s := r.shard(ref.Shard)
	if s == nil {
		done(LinkResult{Verdict: dedup.Missing, Err: noPartition(ref)})
		return
	}
	s.SkipLink(ref.ID, k, done)
}

// OpenOrigin gives the watermark of an origin life, applied and flushed.
func (r *Region) OpenOrigin(ctx context.Context, ref rhumb.PartitionRef, region rhumb.RegionNumber, life rhumb.Life) (dedup.Watermark, error) {
	s := r.shard(ref.Shard)
	if s == nil {
		return dedup.Watermark{}, noPartition(ref)
	}
	return s.OpenOrigin(ctx, ref.ID, region, life)
}

// SetEdgeStart fixes, once, the first own offset that the edge to a region
// carries, and gives it: the log start, or the end if latest.
func (r *Region) SetEdgeStart(ctx context.Context, ref rhumb.PartitionRef, dest rhumb.RegionNumber, latest bool) (rhumb.Offset, error) {
	s := r.shard(ref.Shard)
	if s == nil {
		return rhumb.NoOffset, noPartition(ref)
	}
	return s.SetEdgeStart(ctx, ref.ID, dest, latest)
}

// StartEdge is SetEdgeStart for an edge that begins at the log start, for who does not
// wait: done is called as for [shard.Shard.Append].
func (r *Region) StartEdge(ref rhumb.PartitionRef, dest rhumb.RegionNumber, done func(rhumb.Offset, error)) {
	s := r.shard(ref.Shard)
	if s == nil {
		done(rhumb.NoOffset, noPartition(ref))
		return
	}
	s.StartEdge(ref.ID, dest, done)
}

// NewLife closes the life of a partition's log at an offset and gives what lies
// behind it a new one; see [shard.Shard.NewLife]. It gives what was closed, and
// the life that the log has now.
func (r *Region) NewLife(ctx context.Context, ref rhumb.PartitionRef, c LifeChange) (PastLife, rhumb.Life, error) {
	s := r.shard(ref.Shard)
	if s == nil {
		return PastLife{}, rhumb.Life{}, noPartition(ref)
	}
	return s.NewLife(ctx, ref.ID, c)
}

// DeleteRecords drops the records before an offset, -1 for all that there are,
// and gives the log start after it.
func (r *Region) DeleteRecords(ctx context.Context, ref rhumb.PartitionRef, before rhumb.Offset) (rhumb.Offset, error) {
	st, ok := r.State(ref)
	switch {
	case !ok:
		return rhumb.NoOffset, noPartition(ref)
	case before == -1:
		before = st.End
	case before < 0 || before > st.End:
		return st.LogStart, rhumb.Errorf(rhumb.KindOutOfRange, "offset %d is not within 0 to %d", before, st.End)
	}
	return r.shard(ref.Shard).MoveLogStart(ctx, ref.ID, before, rhumb.ReasonDeleted)
}

// State gives what this node knows of a partition, false if it is not there.
func (r *Region) State(ref rhumb.PartitionRef) (PartitionState, bool) {
	s := r.shard(ref.Shard)
	if s == nil {
		return PartitionState{}, false
	}
	return s.State(ref.ID)
}

// Glance is State without what the storage is asked for: Bytes and Compacted are 0. It
// is for those who look at a partition several times for each batch.
func (r *Region) Glance(ref rhumb.PartitionRef) (PartitionState, bool) {
	s := r.shard(ref.Shard)
	if s == nil {
		return PartitionState{}, false
	}
	return s.Glance(ref.ID)
}

// Gaps gives a partition's gap records, oldest first.
func (r *Region) Gaps(ref rhumb.PartitionRef) []Gap {
	if s := r.shard(ref.Shard); s != nil {
		return s.Gaps(ref.ID)
	}
	return nil
}

// AddWaiter has w signalled when the partition changes. It reports whether the
// partition is there.
func (r *Region) AddWaiter(ref rhumb.PartitionRef, w *Waiter) bool {
	s := r.shard(ref.Shard)
	return s != nil && s.AddWaiter(ref.ID, w)
}

// RemoveWaiter takes back what AddWaiter did.
func (r *Region) RemoveWaiter(ref rhumb.PartitionRef, w *Waiter) {
	if s := r.shard(ref.Shard); s != nil {
		s.RemoveWaiter(ref.ID, w)
	}
}

// ChainAt gives the chain of an origin life at an offset that ends one of its
// batches here, false if none does.
func (r *Region) ChainAt(ref rhumb.PartitionRef, region rhumb.RegionNumber, life rhumb.Life, offset rhumb.Offset) (uint64, bool) {
	if s := r.shard(ref.Shard); s != nil {
		return s.ChainAt(ref.ID, region, life, offset)
	}
	return 0, false
}

// Read gives whole batches whose last offset is q.From or more and whose base is
// below q.Limit, which is lowered to the partition's end: at least one, as many
// as fit q.MaxBytes. q.Partition is taken from ref. Errors are of kind out of
// range below the log start and past the end.
func (r *Region) Read(ref rhumb.PartitionRef, q Query) ([]Stored, error) {
	st, ok := r.State(ref)
	switch {
	case !ok:
		return nil, noPartition(ref)
	case q.From < st.LogStart || q.From > st.End:
		return nil, rhumb.Errorf(rhumb.KindOutOfRange, "offset %d is not within %d to %d", q.From, st.LogStart, st.End)
	}
	q.Partition, q.Limit = ref.ID, min(q.Limit, st.End)
	if q.From >= q.Limit {
		return nil, nil
	}
	return r.shard(ref.Shard).Read(&st, q)
}

// ReadOrigin gives whole batches of one origin life from an origin offset on. Only
// what is flushed on a majority is given: it may leave the region.
func (r *Region) ReadOrigin(ref rhumb.PartitionRef, q OriginQuery) ([]Stored, error) {
	st, ok := r.State(ref)
	if !ok {
		return nil, noPartition(ref)
	}
	q.Partition, q.Limit = ref.ID, min(q.Limit, st.Flushed)
	return r.shard(ref.Shard).ReadOrigin(&st, q)
}

// ByTime gives the first batch below the partition's end whose largest timestamp
// is ts or later, false if there is none.
func (r *Region) ByTime(ref rhumb.PartitionRef, ts int64) (Stored, bool, error) {
	st, ok := r.State(ref)
	if !ok {
		return Stored{}, false, noPartition(ref)
	}
	return r.shard(ref.Shard).Storage().ByTime(ref.ID, ts, st.End)
}

// Latest gives the batch with the largest timestamp, false if there is none.
func (r *Region) Latest(ref rhumb.PartitionRef) (Stored, bool, error) {
	st, ok := r.State(ref)
	if !ok {
		return Stored{}, false, noPartition(ref)
	}
	return r.shard(ref.Shard).Storage().Latest(ref.ID, st.End)
}
