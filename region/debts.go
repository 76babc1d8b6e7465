package region

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
)

// debt is a partition of which retention would drop records that some other region
// lacks.
type debt struct {
	topic rhumb.Topic
	info  TopicInfo
	index int32
	ref   rhumb.PartitionRef
	shard *shard.Shard
	owed  Owed
	free  rhumb.Offset // the log start without what is owed
	due   rhumb.Offset // where retention would put it
	bytes int64        // between the two, about
	// first is the append time of the oldest owed record, and span how long one is
	// kept after its own: retention and hold together.
	first time.Time
	span  time.Duration
	holds bool // at the limit producers are refused
}

// borrow finds out whether a partition has to keep records for other regions.
func (r *Region) borrow(d *debt, keep shard.Retention, st *shard.PartitionState) (held bool, err error) {
	d.free = d.due
	hold, holds := r.holdOf(d.topic)
	if d.owed.First >= d.due || hold <= 0 {
		return false, nil
	}
	first, err := d.shard.Read(st, Query{Partition: d.ref.ID, From: max(d.owed.First, st.LogStart), Limit: d.due, MaxBytes: 1})
	if err != nil || len(first) == 0 {
		return false, err
	}
	b := first[0]
	d.free = st.LogStart
	if d.owed.First > st.LogStart {
		keep.Limit = d.owed.First
		d.free = d.shard.Storage().RetentionStart(d.ref.ID, keep)
	}
	d.first, d.holds = time.UnixMilli(b.Envelope.AppendTime), holds
	d.span = hold
	if keep.BeforeMs > 0 {
		d.span += time.Since(time.UnixMilli(keep.BeforeMs))
	}
	if kept := int64(st.End - st.LogStart); kept > 0 {
		d.bytes = int64(float64(st.Bytes) * float64(d.due-d.free) / float64(kept))
	}
	return true, nil
}

// holdOf gives how long a topic's records are kept for other regions, and whether
// producers wait at the limit.
func (r *Region) holdOf(t rhumb.Topic) (hold time.Duration, holds bool) {
	hold = r.cfg.HoldForLinks
	if r.cfg.NamespaceBacklog == nil {
		return hold, false
	}
	b := r.cfg.NamespaceBacklog(t)
	if b != nil && b.Hold != nil {
		hold = time.Duration(*b.Hold)
	}
	return hold, b.Holds()
}

// reachTime is how long after its start a process drops nothing that a destination may
// lack which it has not reached yet: what waited while the region was down has a chance.
const reachTime = 10 * time.Minute

// late reports whether a debt was kept for its whole time, which counts from when its
// records were appended, over restarts. Producers are not refused for what a
// destination that has told this process nothing may have: for them it counts from
// the start of the process, if that is later.
func (d *debt) late(began time.Time) bool {
	first := d.first
	if !d.owed.Sure && d.holds && began.After(first) {
		first = began
	}
	if !d.owed.Sure && time.Since(began) < reachTime {
		return false
	}
	return time.Since(first) >= d.span
}

// holdLimit is how many bytes may be kept for other regions.
func (r *Region) holdLimit() int64 {
	if disk, err := r.Disk(); err == nil && disk.Total > 0 {
		return int64(disk.Total / 100 * uint64(r.cfg.HoldShare))
	}
	return math.MaxInt64 // a disk that cannot be asked is no reason to drop anything
}

// collect deals with the debts that are over a limit: of time, each, and of the
// disk, all together. It gives those that stay.
func (r *Region) collect(ctx context.Context, debts []debt) ([]debt, error) {
	slices.SortStableFunc(debts, func(a, b debt) int { return a.first.Compare(b.first) })
	defer r.keepDrops(ctx)
	limit := r.holdLimit()
	over := -limit
	for i := range debts {
		over += debts[i].bytes
	}
	left := debts[:0]
	refused := map[rhumb.PartitionRef]error{}
	for _, d := range debts {
		late := d.late(r.backlog.began)
		if d.holds || !late && over <= 0 {
			left = append(left, d)
			continue
		}
		freed, err := r.drop(ctx, &d, late, over)
		if err != nil {
			return left, err
		}
		over -= freed
		if d.bytes -= freed; d.bytes > 0 {
			left = append(left, d)
		}
	}
	for i := range left {
		d := &left[i]
		late := d.late(r.backlog.began)
		if d.holds && (late || over > 0) {
			refused[d.ref] = d.refusal(late)
		}
	}
	r.backlog.note(left, limit, refused)
	return left, nil
}

// refusal is what producers are told.
func (d *debt) refusal(late bool) error {
	why := "what is kept for other regions takes too much of the disk"
	if late {
		why = "it has been behind for too long"
	}
	return rhumb.Errorf(rhumb.KindNoSpace, "partition %d of %s takes no records until %s has confirmed what it lacks: %s, and the namespace says backlog.at_limit: hold; see 'rhumb link list'",
		d.index, d.topic.Short(), names(d.owed.To), why)
}

// drop has the oldest owed records go: those that are late, and as many as free the
// bytes that are over. It gives how many bytes went.
func (r *Region) drop(ctx context.Context, d *debt, late bool, over int64) (freed int64, err error) {
	st, ok := d.shard.State(d.ref.ID)
	if !ok || st.LogStart >= d.due {
		return d.bytes, nil
	}
	to, reason := st.LogStart, "the disk's share for other regions is used up"
	if late {
		if to, err = r.younger(d, &st); err != nil {
			return 0, err
		}
		reason = "they were kept for as long as the namespace or the region allows"
	}
	if over > 0 {
		keep := shard.Retention{MaxBytes: max(1, st.Bytes-over), Limit: d.due}
		to = max(to, d.shard.Storage().RetentionStart(d.ref.ID, keep))
	}
	if to <= st.LogStart {
		return 0, nil
	}
	start, err := d.shard.MoveLogStart(ctx, d.ref.ID, to, rhumb.ReasonBacklog)
	if err != nil {
		return 0, err
	}
	from := max(st.LogStart, d.owed.First)
	r.log.Warn("records that other regions lack were dropped", "topic", d.topic.String(), "partition", d.index,
		"from", int64(from), "to", int64(start-1), "missing_in", names(d.owed.To), "reason", reason)
	if start > from {
		r.dropped(BacklogDrop{Topic: d.topic, Partition: d.index, From: from, To: start - 1, Missing: d.owed.To, Reason: reason, At: time.Now()})
	}
	return int64(float64(d.bytes) * float64(start-d.free) / float64(max(1, d.due-d.free))), nil
}

// youngerReads bounds what one look reads of a debt: the next one goes on there.
const (
	youngerReads = 64
	youngerBytes = 1 << 20
)

// younger finds the first batch of a debt that may still be kept.
func (r *Region) younger(d *debt, st *shard.PartitionState) (rhumb.Offset, error) {
	limit := time.Now().Add(-d.span).UnixMilli()
	at := max(d.owed.First, st.LogStart)
	for range youngerReads {
		found, err := d.shard.Read(st, Query{Partition: d.ref.ID, From: at, Limit: d.due, MaxBytes: youngerBytes})
		if err != nil {
			return 0, err
		}
		for _, b := range found {
			if b.Envelope.AppendTime > limit {
				return b.Base, nil
			}
			at = b.Base + (b.Envelope.Last - b.Envelope.First) + 1
		}
		if len(found) == 0 {
			return d.due, nil // compaction took the rest
		}
		if at >= d.due {
			break
		}
	}
	return min(at, d.due), nil
}

// debtors lists the topics of debts, once each.
func debtors(debts []debt) []TopicInfo {
	var out []TopicInfo
	for i := range debts {
		out = append(out, debts[i].info)
	}
	slices.SortFunc(out, func(a, b TopicInfo) int { return cmp.Compare(a.Topic.String(), b.Topic.String()) })
	return slices.CompactFunc(out, func(a, b TopicInfo) bool { return a.Topic == b.Topic })
}
