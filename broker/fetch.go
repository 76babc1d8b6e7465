package broker

import (
	"context"
	"errors"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// ErrDeleted means that a topic was deleted under its reader.
var ErrDeleted = errors.New("broker: topic was deleted")

// FetchItem asks for records of one partition.
type FetchItem struct {
	Topic       *TopicInfo // nil: the answer is Err
	Partition   int32
	Offset      rhumb.Offset
	MaxBytes    int
	LeaderEpoch int32 // -1: unknown
	Err         error // what made the topic nil
}

// FetchAnswer is what a partition has for a FetchItem.
type FetchAnswer struct {
	State   PartitionState
	Batches []Stored
	Bytes   int // of Batches
	Err     error
}

// FetchLimits bound one fetch. Sizes are soft: the first partition that has
// something gives at least one whole batch.
type FetchLimits struct {
	MinBytes int
	MaxBytes int
	MaxWait  time.Duration
	Budget   Budget
	// Whole is all of Budget: a batch that is larger takes all of it. 0: as much as it needs.
	Whole int64
	// Reserve is for a fetch that finds nothing free in Budget: it takes up to
	// ReserveShare bytes of it and answers with that. nil: it waits for Budget.
	Reserve Budget
	// ByPlace asks for large batches that lie in files by their place: they hold no
	// bytes of the budget, but placeCost each.
	ByPlace bool
}

// placeCost is what a batch that is given by its place holds in memory, at most.
const placeCost = 512

// ReserveShare is what a fetch takes of the reserve at the most, unless its first
// batch is larger. Readers that do not take their answers in hold Budget; with the
// reserve the others go on, in smaller steps.
const ReserveShare = 256 << 10

// Budget bounds the bytes that fetches of a node hold.
type Budget interface {
	// Acquire waits for n bytes, at most until ctx is done.
	Acquire(ctx context.Context, n int64) error
	// TryAcquire takes n bytes if they are free.
	TryAcquire(n int64) bool
	// Release gives bytes back.
	Release(n int64)
}

// Fetch reads partitions and waits for records.
type Fetch struct {
	b      *Broker
	limits FetchLimits
	parts  []fetchPart
	bytes  int
	failed bool
	tight  bool  // the node's budget is used up: answer with what there is
	held   int64 // of the budget
	spare  int64 // of the reserve
}

type fetchPart struct {
	item    FetchItem
	ref     rhumb.PartitionRef
	next    rhumb.Offset
	full    bool // nothing more fits
	watched bool
	answer  FetchAnswer
}

// Fetch reads until there are MinBytes, an error, or MaxWait has passed, and
// gives one answer per item. What it already has it keeps between wake-ups, so
// a long wait reads no batch twice. Call release when the batches are not used
// any more.
func (b *Broker) Fetch(ctx context.Context, items []FetchItem, limits FetchLimits) (answers []FetchAnswer, release func()) {
	f := &Fetch{b: b, limits: limits, parts: make([]fetchPart, len(items))}
	for i := range items {
		f.open(&f.parts[i], items[i])
	}
	f.run(ctx)
	answers = make([]FetchAnswer, len(items))
	for i := range f.parts {
		answers[i] = f.parts[i].answer
	}
	return answers, f.release
}

func (f *Fetch) release() {
	for i := range f.parts {
		releasePlaces(f.parts[i].answer.Batches)
	}
	f.limits.Budget.Release(f.held)
	if f.spare > 0 {
		f.limits.Reserve.Release(f.spare)
	}
}

func releasePlaces(batches []Stored) {
	for i := range batches {
		if batches[i].Place != nil {
			batches[i].Place.Release()
		}
	}
}

func (f *Fetch) open(p *fetchPart, item FetchItem) {
	p.item, p.next = item, item.Offset
	p.answer.State = PartitionState{LogStart: rhumb.NoOffset, End: rhumb.NoOffset, LeaderEpoch: -1}
	if item.Topic == nil {
		f.fail(p, item.Err)
		return
	}
	info, err := partitionOf(item.Topic, item.Partition)
	if err != nil {
		f.fail(p, err)
		return
	}
	p.ref = info.Ref
}

func (f *Fetch) fail(p *fetchPart, err error) {
	if len(p.answer.Batches) == 0 {
		p.answer.Err = err
	}
	p.full, f.failed = true, true
}

// run reads once, and again each time one of the partitions moved.
func (f *Fetch) run(ctx context.Context) {
	deadline := time.Now().Add(f.limits.MaxWait)
	f.read(ctx)
	if f.enough() || f.limits.MaxWait <= 0 || len(f.parts) == 0 {
		return
	}
	waiter := region.NewWaiter()
	defer f.unwatch(waiter)
	for i := range f.parts {
		if p := &f.parts[i]; !p.full {
			p.watched = f.b.region.AddWaiter(p.ref, waiter)
		}
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		f.read(ctx) // first of all what came before the watch began
		if f.enough() {
			return
		}
		select {
		case <-waiter.C:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (f *Fetch) unwatch(w *Waiter) {
	for i := range f.parts {
		if p := &f.parts[i]; p.watched {
			f.b.region.RemoveWaiter(p.ref, w)
		}
	}
}

func (f *Fetch) enough() bool { return f.failed || f.tight || f.bytes >= f.limits.MinBytes }

// read takes what every partition has now.
func (f *Fetch) read(ctx context.Context) {
	for i := range f.parts {
		if p := &f.parts[i]; !p.full {
			f.readPart(ctx, p)
		}
	}
}

func (f *Fetch) readPart(ctx context.Context, p *fetchPart) {
	state, ok := f.b.region.State(p.ref)
	if !ok || !state.Leading {
		f.fail(p, f.gone(p))
		return
	}
	if err := checkPosition(state, p); err != nil {
		p.answer.State = state
		f.fail(p, err)
		return
	}
	p.answer.State = state
	room := min(p.item.MaxBytes-p.answer.Bytes, f.limits.MaxBytes-f.bytes)
	if room <= 0 && f.bytes > 0 {
		p.full = true
		return
	}
	if p.next >= state.End {
		return
	}
	room = max(room, 1)
	granted, from := f.reserve(ctx, int64(room))
	if granted == 0 {
		f.tight = true
		return
	}
	room = int(granted)
	q := Query{From: p.next, Limit: state.End, MaxBytes: room, ByPlace: f.limits.ByPlace, MostFirst: max(room, mostOverdraft)}
	batches, err := f.b.region.Read(p.ref, q)
	if large, is := errors.AsType[*LargeBatchError](err); is {
		from.Release(granted)
		if granted, from = f.reserveWhole(ctx, int64(large.Size)); granted == 0 {
			f.tight = true
			return
		}
		q.MaxBytes, q.MostFirst = 1, large.Size // that batch alone
		batches, err = f.b.region.Read(p.ref, q)
	}
	held := f.take(p, batches, room)
	f.settle(from, granted, int64(held))
	if err != nil {
		f.fail(p, err)
	}
}

// budgetWait bounds how long a fetch waits for the node's budget: after that it
// answers with nothing, and the client comes again.
const budgetWait = 10 * time.Second

// reserve takes up to n bytes before they are read, and tells whose they are. Only a
// fetch that has nothing yet waits for them, so two fetches never wait for each other.
func (f *Fetch) reserve(ctx context.Context, n int64) (granted int64, from Budget) {
	from = f.limits.Budget
	if f.spare == 0 && from.TryAcquire(n) {
		return n, from
	}
	if f.held+f.spare > 0 {
		return 0, nil
	}
	if f.limits.Reserve != nil {
		n, from = min(n, ReserveShare), f.limits.Reserve
	}
	ctx, cancel := context.WithTimeout(ctx, budgetWait)
	defer cancel()
	if from.Acquire(ctx, n) != nil {
		return 0, nil
	}
	return n, from
}

// reserveWhole takes what a batch of that size needs, for a fetch that has nothing yet and
// nothing reserved: so many readers that take a large batch in slowly, or never, hold it
// once, and the others wait.
func (f *Fetch) reserveWhole(ctx context.Context, size int64) (granted int64, from Budget) {
	if f.held+f.spare > 0 {
		return 0, nil
	}
	if f.limits.Whole > 0 {
		size = min(size, f.limits.Whole)
	}
	ctx, cancel := context.WithTimeout(ctx, budgetWait)
	defer cancel()
	if f.limits.Budget.Acquire(ctx, size) != nil {
		return 0, nil
	}
	return size, f.limits.Budget
}

// mostOverdraft is what a first batch may take without having been reserved: as much as
// topics by themselves allow for a batch, so that readers go on in the reserve.
const mostOverdraft = 1<<20 + 8<<10

// settle gives back what was reserved and not used. A single batch may be larger than
// what was reserved for it, by mostOverdraft, or since it is larger than all of Budget.
func (f *Fetch) settle(from Budget, reserved, used int64) {
	kept := min(reserved, used)
	from.Release(reserved - kept)
	if from == f.limits.Budget {
		f.held += kept
	} else {
		f.spare += kept
	}
}

// take appends the batches that fit and gives what they hold of the budget.
func (f *Fetch) take(p *fetchPart, batches []Stored, room int) (held int) {
	used := 0
	for i := range batches {
		s := &batches[i]
		size := s.Size()
		if used+size > room && f.bytes > 0 {
			p.full = true
			releasePlaces(batches[i:])
			break
		}
		used += size
		f.bytes += size
		p.answer.Bytes += size
		if held += size; s.Place != nil {
			held += placeCost - size
		}
		p.answer.Batches = append(p.answer.Batches, *s)
		p.next = s.Last() + 1
	}
	return held
}

// gone tells a deleted partition from one that this node does not lead.
func (f *Fetch) gone(p *fetchPart) error {
	t := p.item.Topic
	if now, ok := f.b.region.TopicByID(t.ID); ok && int(p.item.Partition) < len(now.Partitions) {
		return notLeader(t, p.item.Partition)
	}
	return rhumb.Errorf(rhumb.KindNotFound, "%w: %s", ErrDeleted, t.Topic.Short())
}

// checkPosition checks the reader's epoch and offset. Out of range comes first:
// it is the one that a reader can act on.
func checkPosition(state PartitionState, p *fetchPart) error {
	if p.next < state.LogStart && len(p.answer.Batches) == 0 || p.next > state.End {
		return rhumb.Errorf(rhumb.KindOutOfRange, "offset %d is outside of %d to %d", p.next, state.LogStart, state.End)
	}
	return CheckEpoch(state, p.item.LeaderEpoch)
}
