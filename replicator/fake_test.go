package replicator

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// fakeRegion is a region in memory: topics, logs with the real accept rule, and
// switches for what can go wrong. It outlives managers, as a disk does.
type fakeRegion struct {
	number rhumb.RegionNumber
	asked  atomic.Uint64 // for the state of a partition

	mu         sync.Mutex
	topics     map[rhumb.Topic]*topicInfo
	logs       map[rhumb.PartitionRef]*fakeLog
	deleted    map[rhumb.Topic]uint64
	here       map[rhumb.Topic]uint64 // deleted in this region alone
	nextID     rhumb.PartitionID
	subs       map[int]func()
	nextSub    int
	waiters    map[rhumb.PartitionRef]map[*waiter]bool
	appends    int           // link batches that were appended
	repeats    int           // link batches that were duplicates
	delay      time.Duration // of each append
	failAppend func(ref rhumb.PartitionRef, e *codec.Envelope) error
	failOpen   func(ref rhumb.PartitionRef) error
	failCreate func(t rhumb.Topic) error
	mute       bool                        // appends are never answered
	mutes      map[rhumb.PartitionRef]bool // the same, of some partitions
	hang       bool                        // OpenOrigin does not answer
	hangs      map[rhumb.PartitionRef]bool // the same, of some partitions
	late       bool                        // StartEdge answers when the test calls started
	starts     []func()
	forget     bool // what links append is not kept
	queue      []func()
	order      sync.Mutex
	settings   map[string]map[string]string
	noted      map[rhumb.UUID]topicInfo // at the last change
	changes    []rhumb.UUID
}

// fakeLog is one partition.
type fakeLog struct {
	info      region.PartitionInfo
	topic     rhumb.Topic
	deletions uint64
	batches   []stored
	end       rhumb.Offset
	held      bool // nothing new is flushed
	flushed   rhumb.Offset
	logStart  rhumb.Offset
	ownLast   rhumb.Offset
	ownChain  uint64
	ownFloor  rhumb.Offset
	marks     map[rhumb.Life]dedup.Watermark
	starts    map[rhumb.RegionNumber]rhumb.Offset
	gaps      []linkSkip
	bad       map[rhumb.Offset]bool // batches that the disk does not give back
}

func newFakeRegion(number rhumb.RegionNumber) *fakeRegion {
	return &fakeRegion{number: number, topics: map[rhumb.Topic]*topicInfo{}, logs: map[rhumb.PartitionRef]*fakeLog{},
		deleted: map[rhumb.Topic]uint64{}, subs: map[int]func(){}, waiters: map[rhumb.PartitionRef]map[*waiter]bool{}}
}

// Topics, Topic, Subscribe and the three below implement Topics.
func (r *fakeRegion) Topics() []topicInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []topicInfo
	for _, t := range r.topics {
		all = append(all, *t)
	}
	return all
}

func (r *fakeRegion) Topic(t rhumb.Topic) (topicInfo, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if info := r.topics[t]; info != nil {
		return *info, true
	}
	return topicInfo{}, false
}

func (r *fakeRegion) Subscribe(fn func()) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.nextSub
	r.nextSub++
	r.subs[id] = fn
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subs, id)
	}
}

func (r *fakeRegion) Deletions(t rhumb.Topic) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deleted[t]
}

// DeletedHere implements Topics.
func (r *fakeRegion) DeletedHere(t rhumb.Topic, deletions uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.here[t]
	return ok && deletions <= n && r.topics[t] == nil
}

// deleteHere deletes a topic in this region alone.
func (r *fakeRegion) deleteHere(t rhumb.Topic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info := r.topics[t]
	r.here = map[rhumb.Topic]uint64{t: info.Deletions}
	delete(r.topics, t)
	for _, p := range info.Partitions {
		delete(r.logs, p.Ref)
		r.signal(p.Ref)
	}
	r.tell()
}

// TopicsSince implements Topics. A change that tell finds in no topic has everything
// looked at.
func (r *fakeRegion) TopicsSince(m region.TopicsMark) region.TopicChanges {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := region.TopicChanges{Mark: region.TopicsMark{Topics: uint64(len(r.changes)) + 1}, Whole: m.Topics == 0}
	if c.Whole {
		return c
	}
	changed := map[rhumb.UUID]bool{}
	for _, id := range r.changes[m.Topics-1:] {
		c.Whole = c.Whole || id.IsZero()
		changed[id] = true
	}
	for _, t := range r.topics {
		if changed[t.ID] && !c.Whole {
			c.Changed = append(c.Changed, *t)
			delete(changed, t.ID)
		}
	}
	c.Gone = len(changed)
	return c
}

// note compares the topics with what they were. The caller holds mu.
func (r *fakeRegion) note() {
	now, n := map[rhumb.UUID]topicInfo{}, len(r.changes)
	for _, t := range r.topics {
		now[t.ID] = *t
		if old, ok := r.noted[t.ID]; !ok || !reflect.DeepEqual(old, *t) {
			r.changes = append(r.changes, t.ID)
		}
	}
	for id := range r.noted {
		if _, ok := now[id]; !ok {
			r.changes = append(r.changes, id)
		}
	}
	if len(r.changes) == n {
		r.changes = append(r.changes, rhumb.UUID{})
	}
	r.noted = now
}

func (r *fakeRegion) tell() {
	r.note()
	for _, fn := range r.subs {
		fn()
	}
}

func (r *fakeRegion) CreateTopic(_ context.Context, s topicSpec) (topicInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failCreate != nil {
		if err := r.failCreate(s.Topic); err != nil {
			return topicInfo{}, err
		}
	}
	if r.topics[s.Topic] != nil {
		return topicInfo{}, rhumb.Errorf(rhumb.KindExists, "topic exists")
	}
	t := &topicInfo{Topic: s.Topic, ID: rhumb.NewUUID(), Deletions: s.Deletions, Configs: s.Configs}
	r.topics[s.Topic] = t
	r.grow(t, s.Partitions)
	r.tell()
	return *t, nil
}

func (r *fakeRegion) grow(t *topicInfo, n int32) {
	t.Partitions = slices.Clone(t.Partitions)
	for i := int32(len(t.Partitions)); i < n; i++ {
		r.nextID++
		p := region.PartitionInfo{Index: i, Ref: rhumb.PartitionRef{Shard: 1, ID: r.nextID}, Life: rhumb.NewLife(), Ready: true}
		t.Partitions = append(t.Partitions, p)
		r.logs[p.Ref] = &fakeLog{info: p, topic: t.Topic, deletions: t.Deletions, ownLast: rhumb.NoOffset,
			ownFloor: rhumb.NoOffset, marks: map[rhumb.Life]dedup.Watermark{}, starts: map[rhumb.RegionNumber]rhumb.Offset{}}
	}
}

func (r *fakeRegion) GrowTopic(_ context.Context, t rhumb.Topic, n int32) (topicInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info := *r.topics[t]
	r.grow(&info, n)
	r.topics[t] = &info
	r.tell()
	return info, nil
}

func (r *fakeRegion) DeleteTopic(_ context.Context, t rhumb.Topic, deletions uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	info := r.topics[t]
	r.deleted[t] = max(r.deleted[t], deletions)
	if info == nil || info.Deletions >= deletions {
		return nil
	}
	delete(r.topics, t)
	for _, p := range info.Partitions {
		delete(r.logs, p.Ref)
		r.signal(p.Ref)
	}
	r.tell()
	return nil
}

// Settings and AlterSettings implement Settings.
func (r *fakeRegion) Settings(scope string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings[scope]
}

func (r *fakeRegion) AlterSettings(_ context.Context, scope string, change func(map[string]string) (map[string]string, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := change(r.settings[scope])
	if err != nil {
		return err
	}
	if r.settings == nil {
		r.settings = map[string]map[string]string{}
	}
	r.settings[scope] = now
	return nil
}

func (r *fakeRegion) AddWaiter(ref rhumb.PartitionRef, w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logs[ref] == nil {
		return false
	}
	if r.waiters[ref] == nil {
		r.waiters[ref] = map[*waiter]bool{}
	}
	r.waiters[ref][w] = true
	return true
}

func (r *fakeRegion) RemoveWaiter(ref rhumb.PartitionRef, w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiters[ref], w)
}

func (r *fakeRegion) signal(ref rhumb.PartitionRef) {
	for w := range r.waiters[ref] {
		w.Signal(ref)
	}
}

func (r *fakeRegion) Ends(ref rhumb.PartitionRef) (region.Ends, bool) {
	st, ok := r.State(ref)
	return region.Ends{LogStart: st.LogStart, OwnFloor: st.OwnFloor, OwnLast: st.OwnLast, Flushed: st.Flushed}, ok
}

func (r *fakeRegion) Glance(ref rhumb.PartitionRef) (partitionState, bool) {
	st, ok := r.State(ref)
	st.Bytes, st.Compacted = 0, 0
	return st, ok
}

func (r *fakeRegion) State(ref rhumb.PartitionRef) (partitionState, bool) {
	r.asked.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logs[ref]
	if l == nil {
		return partitionState{}, false
	}
	s := partitionState{Topic: l.topic, Index: l.info.Index, Deletions: l.deletions, Life: l.info.Life, Past: l.info.Past, LogStart: l.logStart,
		End: l.end, Flushed: l.flushed, Leading: true, OwnLast: l.ownLast, OwnChain: l.ownChain, OwnFloor: l.ownFloor, Gaps: uint64(len(l.gaps))}
	for _, w := range l.marks {
		s.Watermarks = append(s.Watermarks, w)
	}
	for _, b := range l.batches {
		s.Bytes += int64(codec.EnvelopeSize + len(b.Batch))
	}
	return s, true
}

func (r *fakeRegion) Gaps(ref rhumb.PartitionRef) (gaps []region.Gap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.logs[ref]; l != nil {
		for _, g := range l.gaps {
			gaps = append(gaps, region.Gap{Region: g.Region, Life: g.Life, From: g.From + 1, To: g.To, Reason: g.Reason, By: g.By})
		}
	}
	return gaps
}

func (r *fakeRegion) ReadOrigin(ref rhumb.PartitionRef, q originQuery) ([]stored, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logs[ref]
	if l == nil {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	var got []stored
	size := 0
	for _, b := range l.batches {
		own := q.Life.IsZero() && l.owns(b.Envelope.Life)
		if b.Envelope.Life != q.Life && !own || b.Envelope.Last < q.From || b.Base >= min(q.Limit, l.flushed) {
			continue
		}
		if size += len(b.Batch); size > q.MaxBytes && len(got) > 0 {
			break
		}
		if l.bad[b.Base] { // as storage does
			if len(got) > 0 {
				break
			}
			return nil, rhumb.Errorf(rhumb.KindCorrupt, "batch at offset %d: CRC does not match", b.Base)
		}
		b.Batch = slices.Clone(b.Batch)
		got = append(got, b)
	}
	return got, nil
}

// owns reports whether a life is the log's own, now or earlier: what its region wrote in a
// log that it lost is not.
func (l *fakeLog) owns(life rhumb.Life) bool {
	return life == l.info.Life || slices.ContainsFunc(l.info.Past, func(p region.PastLife) bool { return p.Life == life })
}

func (r *fakeRegion) SetEdgeStart(_ context.Context, ref rhumb.PartitionRef, to rhumb.RegionNumber, latest bool) (rhumb.Offset, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logs[ref]
	if l == nil {
		return 0, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	if _, ok := l.starts[to]; !ok {
		l.starts[to] = l.logStart
		if latest {
			l.starts[to] = l.end
		}
	}
	return l.starts[to], nil
}

func (r *fakeRegion) StartEdge(ref rhumb.PartitionRef, to rhumb.RegionNumber, done func(rhumb.Offset, error)) {
	start := func() { done(r.SetEdgeStart(context.Background(), ref, to, false)) }
	r.mu.Lock()
	late := r.late
	if late {
		r.starts = append(r.starts, start)
	}
	r.mu.Unlock()
	if !late {
		start()
	}
}

// started answers for the starts of edges that wait.
func (r *fakeRegion) started() {
	r.mu.Lock()
	starts := r.starts
	r.starts = nil
	r.mu.Unlock()
	for _, start := range starts {
		start()
	}
}

// NewLife relabels the batches, where a region keeps them and a list of lives.
func (r *fakeRegion) NewLife(_ context.Context, ref rhumb.PartitionRef, c region.LifeChange) (region.PastLife, rhumb.Life, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logs[ref]
	if l == nil || l.info.Life != c.Old {
		return region.PastLife{}, rhumb.Life{}, rhumb.Errorf(rhumb.KindFenced, "another life")
	}
	from := rhumb.Offset(0)
	past := make([]region.PastLife, 0, len(l.info.Past)+1)
	for _, p := range l.info.Past {
		from = p.Last + 1
		p.Last = min(p.Last, c.Last)
		past = append(past, p)
	}
	closed := region.PastLife{Life: c.Old, From: from, Last: c.Last, Chain: c.Chain, End: l.end}
	l.info.Past, l.info.Life = append(past, closed), rhumb.NewLife()
	for i := range l.batches {
		if e := &l.batches[i].Envelope; e.Region == r.number && e.First > c.Last {
			e.Life = l.info.Life
		}
	}
	for name, t := range r.topics {
		info := *t
		info.Partitions = slices.Clone(t.Partitions)
		for i := range info.Partitions {
			if info.Partitions[i].Ref == ref {
				info.Partitions[i] = l.info
			}
		}
		r.topics[name] = &info
	}
	r.tell()
	return closed, l.info.Life, nil
}

func (r *fakeRegion) OpenOrigin(ctx context.Context, ref rhumb.PartitionRef, region rhumb.RegionNumber, life rhumb.Life) (dedup.Watermark, error) {
	r.mu.Lock()
	hang := r.hang || r.hangs[ref]
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		return dedup.Watermark{}, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logs[ref]
	if l == nil {
		return dedup.Watermark{}, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	if r.failOpen != nil {
		if err := r.failOpen(ref); err != nil {
			return dedup.Watermark{}, err
		}
	}
	return l.mark(region, life), nil
}

func (l *fakeLog) mark(region rhumb.RegionNumber, life rhumb.Life) dedup.Watermark {
	if w, ok := l.marks[life]; ok {
		return w
	}
	return dedup.NewWatermark(region, life)
}

// answer calls done, at once or later, in the order of the calls, as a shard does.
func (r *fakeRegion) answer(do func() linkResult, done func(linkResult)) {
	r.mu.Lock()
	if r.mute {
		r.mu.Unlock()
		return
	}
	if r.delay == 0 {
		r.mu.Unlock()
		done(do())
		return
	}
	defer r.mu.Unlock()
	r.queue = append(r.queue, func() { done(do()) })
	time.AfterFunc(r.delay, func() {
		r.order.Lock()
		defer r.order.Unlock()
		r.mu.Lock()
		next := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		next()
	})
}

func (r *fakeRegion) AppendLink(ref rhumb.PartitionRef, b linkBatch, done func(linkResult)) {
	r.mu.Lock()
	mute := r.mutes[ref]
	r.mu.Unlock()
	if !mute {
		r.answer(func() linkResult { return r.append(ref, b) }, done)
	}
}

func (r *fakeRegion) append(ref rhumb.PartitionRef, b linkBatch) linkResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logs[ref]
	if l == nil {
		return linkResult{Err: rhumb.Errorf(rhumb.KindNotFound, "no such partition")}
	}
	if r.failAppend != nil {
		if err := r.failAppend(ref, &b.Envelope); err != nil {
			return linkResult{Err: err}
		}
	}
	h, err := codec.CheckBatch(b.Batch)
	if err != nil {
		return linkResult{Err: err}
	}
	e := b.Envelope
	w := l.mark(e.Region, e.Life)
	v := w.Judge(dedup.OriginBatchOf(&e, h))
	switch v {
	case dedup.Duplicate:
		r.repeats++
	case dedup.Accept:
		w = w.Accept(dedup.OriginBatchOf(&e, h))
		l.marks[e.Life] = w
		r.appends++
		l.store(e, b.Batch)
		if r.forget {
			l.batches = l.batches[:0]
		}
		r.signal(ref)
	}
	return linkResult{Verdict: v, Watermark: w}
}

func (l *fakeLog) store(e codec.Envelope, batch []byte) {
	e.Partition = l.info.Ref.ID
	codec.PatchBatch(batch, l.end, 1)
	l.batches = append(l.batches, stored{Base: l.end, Envelope: e, Batch: batch})
	l.end += rhumb.Offset(e.Count)
	if !l.held {
		l.flushed = l.end
	}
}

func (r *fakeRegion) SkipLink(ref rhumb.PartitionRef, s linkSkip, done func(linkResult)) {
	r.answer(func() linkResult { return r.skip(ref, s) }, done)
}

func (r *fakeRegion) skip(ref rhumb.PartitionRef, s linkSkip) linkResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.logs[ref]
	if l == nil {
		return linkResult{Err: rhumb.Errorf(rhumb.KindNotFound, "no such partition")}
	}
	w := l.mark(s.Region, s.Life)
	v := w.JudgeSkip(s.Skip)
	if v == dedup.Accept {
		if s.Reason.IsGap() {
			l.gaps = append(l.gaps, s)
		}
		w = w.Skip(s.Skip)
		l.marks[s.Life] = w
		r.signal(ref)
	}
	return linkResult{Verdict: v, Watermark: w}
}

// fakePolicy is the view of the configuration store that all regions of a test share.
type fakePolicy struct {
	mu      sync.Mutex
	regions []configstore.Region
	edges   []configstore.Edge
	docs    map[rhumb.Topic]configstore.Topic
	gone    map[rhumb.RegionNumber]configstore.Owner
	subs    map[int]func()
	next    int
}

func (p *fakePolicy) Regions() []configstore.Region {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.regions)
}

// Owner implements Policy: regions that are not registered were never there.
func (p *fakePolicy) Owner(n rhumb.RegionNumber) (configstore.Owner, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, gone := p.gone[n]; gone {
		return o, true
	}
	for _, r := range p.regions {
		if r.Number == n {
			return configstore.Owner{Name: r.Name, Number: n}, true
		}
	}
	return configstore.Owner{}, false
}

func (p *fakePolicy) Owners() (all []configstore.Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.gone {
		all = append(all, o)
	}
	for _, r := range p.regions {
		all = append(all, configstore.Owner{Name: r.Name, Number: r.Number})
	}
	return all
}

func (p *fakePolicy) Edges() []configstore.Edge {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.edges)
}

func (p *fakePolicy) TopicDoc(t rhumb.Topic) (configstore.Topic, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.docs[t]
	return d, ok
}

func (p *fakePolicy) Subscribe(fn func()) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.next
	p.next++
	p.subs[id] = fn
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.subs, id)
	}
}

// change edits the policy and tells every region.
func (p *fakePolicy) change(edit func()) {
	p.mu.Lock()
	edit()
	subs := make([]func(), 0, len(p.subs))
	for _, fn := range p.subs {
		subs = append(subs, fn)
	}
	p.mu.Unlock()
	for _, fn := range subs {
		fn()
	}
}
