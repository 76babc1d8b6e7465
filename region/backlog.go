package region

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Owed is what of a partition's records, own ones and those that it forwards, some
// other region has not confirmed.
type Owed struct {
	// First is the offset, in this log, of the first batch that some destination lacks.
	First rhumb.Offset
	// Sure is false while a destination has not told this process what it has: it
	// may have more.
	Sure bool
	// To names the destinations that lack something, or may.
	To []rhumb.RegionName
}

// SetOwed sets what tells which partitions owe records to other regions. Those that
// fn does not name owe nothing. Until it is set, or while it gives nil, it is not
// known yet, and every partition may owe everything.
func (r *Region) SetOwed(fn func() map[rhumb.PartitionRef]Owed) { r.backlog.fn.Store(&fn) }

// BacklogStatus tells what retention keeps for other regions, and what it could not.
type BacklogStatus struct {
	// Bytes and Partitions are kept beyond their retention, for other regions; Limit
	// is how many bytes may be.
	Bytes      int64
	Partitions int
	Limit      int64
	// Refusing is the number of partitions whose producers are refused, and Why what
	// one of them is told.
	Refusing int
	Why      string
	// Dropped counts offsets that were dropped although a destination had not
	// confirmed them, since the process started; Last is the last time, also before that.
	Dropped uint64
	Last    *BacklogDrop
}

// BacklogDrop says that records went which a destination had not confirmed.
type BacklogDrop struct {
	Topic     rhumb.Topic
	Partition int32
	From, To  rhumb.Offset // of this log, both inclusive
	Missing   []rhumb.RegionName
	Reason    string
	At        time.Time
	// Since is when the row of drops began that this one is the last of, and Records
	// how many offsets went in it; see [DropRow].
	Since   time.Time
	Records uint64
}

// Backlog tells what retention keeps for other regions.
func (r *Region) Backlog() BacklogStatus {
	r.backlog.mu.Lock()
	s := r.backlog.status
	r.backlog.mu.Unlock()
	if s.Limit == 0 { // nobody has looked yet
		s.Limit = r.holdLimit()
	}
	s.Last = r.row()
	return s
}

// backlog is what the retention loop knows of records that it may not drop.
type backlog struct {
	fn      atomic.Pointer[func() map[rhumb.PartitionRef]Owed] // see SetOwed
	began   time.Time                                          // when the process did: what it cannot know is not older
	refused atomic.Pointer[map[rhumb.PartitionRef]error]       // nil: none

	mu     sync.Mutex
	status BacklogStatus
}

// refusal says why a partition takes no records of producers now, nil if it does.
func (b *backlog) refusal(ref rhumb.PartitionRef) error {
	if all := b.refused.Load(); all != nil {
		return (*all)[ref]
	}
	return nil
}

// owed asks what partitions owe.
func (b *backlog) owed() func(rhumb.PartitionRef) (Owed, bool) {
	if fn := b.fn.Load(); fn != nil {
		if all := (*fn)(); all != nil {
			return func(ref rhumb.PartitionRef) (Owed, bool) {
				o, ok := all[ref]
				return o, ok
			}
		}
	}
	return func(rhumb.PartitionRef) (Owed, bool) { return Owed{}, true }
}

// note publishes what one look at all partitions found.
func (b *backlog) note(debts []debt, limit int64, refused map[rhumb.PartitionRef]error) {
	if len(refused) == 0 {
		b.refused.Store(nil)
	} else {
		b.refused.Store(&refused)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.status
	s.Bytes, s.Partitions, s.Limit, s.Refusing, s.Why = 0, len(debts), limit, len(refused), ""
	for i := range debts {
		s.Bytes += debts[i].bytes
		if err := refused[debts[i].ref]; err != nil && s.Why == "" {
			s.Why = err.Error()
		}
	}
}

// Lacking names the regions to which edges lead and that have not confirmed all that a
// topic of this region has for them, or may not have.
func (r *Region) Lacking(t TopicInfo) (all []rhumb.RegionName, err error) {
	owed := map[rhumb.PartitionRef]Owed{}
	if fn := r.backlog.fn.Load(); fn != nil {
		if owed = (*fn)(); owed == nil {
			return nil, rhumb.Errorf(rhumb.KindUnavailable, "the links have not told yet which regions lack something: try again in a moment")
		}
	}
	for _, p := range t.Partitions {
		for _, name := range owed[p.Ref].To {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// names lists regions for people.
func names(regions []rhumb.RegionName) string {
	if len(regions) == 0 {
		return "a destination of its edges"
	}
	all := make([]string, len(regions))
	for i, r := range regions {
		all[i] = string(r)
	}
	return strings.Join(all, ", ")
}
