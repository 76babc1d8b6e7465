package shard

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// memDisk is the in-memory twin of a shard's storage: writes take a while, and
// crash gives what a power loss would leave.
type memDisk struct {
	mu      sync.Mutex
	rng     *rand.Rand
	latency time.Duration // of a write: up to this
	lazy    time.Duration // if set, flushes come this much after writes are done
	keepAll bool          // Compact does nothing
	dead    bool
	broken  error

	hs       *raftpb.HardState
	conf     *raftpb.ConfState
	base     uint64 // entry before the first
	baseTerm uint64
	entries  []*raftpb.Entry
	queue    []*memWrite
	flushed  uint64

	state   memState    // as applied
	durable memState    // as the state database has it for sure
	since   []*memState // states after durable, newest last
	image   memImage    // what is on disk for sure
	applies int
	onFlush func(uint64)
}

type memWrite struct {
	done   func(error)
	hs     *raftpb.HardState
	add    []*raftpb.Entry
	snap   *memImage
	snapSt *memState
}

type memImage struct {
	hs       *raftpb.HardState
	base     uint64
	baseTerm uint64
	entries  []*raftpb.Entry
}

type memState struct {
	index, term uint64
	conf        *raftpb.ConfState
	rows        map[string][]byte
	logs        map[rhumb.PartitionID][]Stored
	starts      map[rhumb.PartitionID]rhumb.Offset
}

func (s *memState) clone() memState {
	c := *s
	c.rows, c.starts, c.logs = maps.Clone(s.rows), maps.Clone(s.starts), maps.Clone(s.logs)
	for id, l := range c.logs {
		c.logs[id] = l[:len(l):len(l)]
	}
	return c
}

func newMemDisk(seed uint64) *memDisk {
	d := &memDisk{rng: rand.New(rand.NewPCG(seed, 7)), hs: &raftpb.HardState{}, conf: &raftpb.ConfState{}}
	d.state = memState{rows: map[string][]byte{}, logs: map[rhumb.PartitionID][]Stored{}, starts: map[rhumb.PartitionID]rhumb.Offset{}}
	d.durable = d.state.clone()
	return d
}

func (i *memImage) put(hs *raftpb.HardState, add []*raftpb.Entry) {
	if hs != nil {
		i.hs = hs
	}
	if len(add) > 0 {
		first := add[0].GetIndex()
		i.entries = append(i.entries[:first-i.base-1:first-i.base-1], add...)
	}
}

func (d *memDisk) view() *memImage { return &memImage{d.hs, d.base, d.baseTerm, d.entries} }

// crash ends the disk and gives one with what was surely written, some of what
// was not, and a state database that may lag.
func (d *memDisk) crash() *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	n := newMemDisk(d.rng.Uint64())
	n.latency, n.lazy, n.keepAll = d.latency, d.lazy, d.keepAll
	img := d.image
	img.entries = slices.Clone(img.entries)
	keep := 0
	if len(d.queue) > 0 {
		keep = d.rng.IntN(len(d.queue) + 1)
	}
	states := append([]*memState{&d.durable}, d.since...)
	for _, w := range d.queue[:keep] {
		if w.snap != nil {
			img, states = *w.snap, []*memState{w.snapSt}
			continue
		}
		img.put(w.hs, w.add)
	}
	n.image = img
	n.hs, n.base, n.baseTerm, n.entries = img.hs, img.base, img.baseTerm, slices.Clone(img.entries)
	if n.hs == nil {
		n.hs = &raftpb.HardState{}
	}
	last := n.base + uint64(len(n.entries))
	states = slices.DeleteFunc(states, func(s *memState) bool { return s.index > last || s.index < n.base })
	pick := states[d.rng.IntN(len(states))]
	n.state = pick.clone()
	n.durable = pick.clone()
	if n.state.conf != nil {
		n.conf = n.state.conf
	}
	n.flushed = last
	return n
}

func (d *memDisk) queueWrite(w *memWrite) {
	d.queue = append(d.queue, w)
	wait := time.Duration(0)
	if d.latency > 0 {
		wait = time.Duration(d.rng.Int64N(int64(d.latency)))
	}
	time.AfterFunc(wait, func() { d.finish(w) })
}

// finish completes all writes up to w, in order.
func (d *memDisk) finish(w *memWrite) {
	d.mu.Lock()
	i := slices.Index(d.queue, w)
	if d.dead || i < 0 {
		d.mu.Unlock()
		return
	}
	ready := slices.Clone(d.queue[:i+1])
	if d.lazy == 0 {
		d.settle(i + 1)
	}
	err := d.broken
	d.mu.Unlock()
	for _, r := range ready {
		if done := r.done; done != nil {
			r.done = nil
			done(err)
		}
	}
	if d.lazy > 0 {
		time.AfterFunc(d.lazy, func() {
			d.mu.Lock()
			if i := slices.Index(d.queue, w); i >= 0 && !d.dead {
				d.settle(i + 1)
			}
			flushed := d.flushed
			d.mu.Unlock()
			if d.onFlush != nil {
				d.onFlush(flushed)
			}
		})
	}
}

// settle makes the first n queued writes certain.
func (d *memDisk) settle(n int) {
	for _, w := range d.queue[:n] {
		if w.snap != nil {
			d.image, d.durable, d.since = *w.snap, w.snapSt.clone(), nil
		} else {
			d.image.put(w.hs, w.add)
		}
		if k := len(w.add); k > 0 {
			d.flushed = max(d.flushed, w.add[k-1].GetIndex())
		}
	}
	d.queue = d.queue[n:]
}

func (d *memDisk) Save(hs *raftpb.HardState, entries []*raftpb.Entry, _ bool, done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hs != nil {
		d.hs = hs
	}
	add := slices.Clone(entries)
	if len(add) > 0 {
		v := d.view()
		v.put(nil, add)
		d.entries = v.entries
		d.flushed = min(d.flushed, add[0].GetIndex()-1)
	}
	d.queueWrite(&memWrite{done: done, hs: hs, add: add})
}

func (d *memDisk) Install(s *Snapshot, done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := memState{index: s.Index, term: s.Term, conf: s.Conf, rows: map[string][]byte{}, logs: map[rhumb.PartitionID][]Stored{}, starts: map[rhumb.PartitionID]rhumb.Offset{}}
	for _, kv := range s.Rows {
		st.rows[string(kv.Key)] = slices.Clone(kv.Value)
		if kv.Key[0] == tablePosition {
			id, _, _ := keyID(kv.Key)
			p := &partition{id: id}
			if err := decodePosition(p, kv.Value); err != nil {
				panic(err)
			}
			st.starts[id] = p.logStart
			st.logs[id] = slices.Clone(d.state.logs[id])
		}
	}
	for _, b := range s.Batches {
		st.logs[b.Envelope.Partition] = append(st.logs[b.Envelope.Partition], b)
	}
	hs := s.HardState
	if hs == nil {
		hs = d.hs
	}
	d.state, d.conf, d.hs = st, s.Conf, hs
	d.base, d.baseTerm, d.entries = s.Index, s.Term, nil
	c := st.clone()
	d.queueWrite(&memWrite{done: done, snap: &memImage{hs, s.Index, s.Term, nil}, snapSt: &c})
	d.flushed = s.Index
}

func (d *memDisk) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return d.hs, d.conf, nil
}

func (d *memDisk) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case lo <= d.base:
		return nil, raft.ErrCompacted
	case hi > d.base+uint64(len(d.entries))+1:
		return nil, raft.ErrUnavailable
	}
	var out []*raftpb.Entry
	size := uint64(0)
	for _, e := range d.entries[lo-d.base-1 : hi-d.base-1] {
		if size += uint64(len(e.GetData())) + 16; size > maxSize && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

func (d *memDisk) Term(i uint64) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case i == d.base:
		return d.baseTerm, nil
	case i < d.base:
		return 0, raft.ErrCompacted
	case i > d.base+uint64(len(d.entries)):
		return 0, raft.ErrUnavailable
	}
	return d.entries[i-d.base-1].GetTerm(), nil
}

func (d *memDisk) LastIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.base + uint64(len(d.entries)), nil
}

func (d *memDisk) FirstIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.base + 1, nil
}

func (d *memDisk) Snapshot() (*raftpb.Snapshot, error) {
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

func (d *memDisk) Applied() (uint64, uint64) { return d.state.index, d.state.term }

func (d *memDisk) Tables(fn func(k, v []byte) error) error {
	for _, k := range slices.Sorted(maps.Keys(d.state.rows)) {
		if err := fn([]byte(k), d.state.rows[k]); err != nil {
			return err
		}
	}
	return nil
}

func (d *memDisk) Apply(u *Update) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u.Index <= d.state.index {
		return errors.New("applied already")
	}
	s := &d.state
	s.index, s.term = u.Index, u.Term
	if u.Conf != nil {
		s.conf = u.Conf
	}
	for _, kv := range u.Sets {
		s.rows[string(kv.Key)] = slices.Clone(kv.Value)
	}
	for _, k := range u.Deletes {
		delete(s.rows, string(k))
	}
	for _, b := range u.Batches {
		s.logs[b.Partition] = append(s.logs[b.Partition], Stored{Base: b.Base, Envelope: b.Envelope, Batch: b.Bytes[88:]})
	}
	for _, l := range u.LogStarts {
		s.starts[l.Partition] = max(s.starts[l.Partition], l.Start)
	}
	for _, id := range u.Drops {
		delete(s.logs, id)
		delete(s.starts, id)
	}
	if d.applies++; d.applies%8 == 0 {
		c := s.clone()
		d.since = append(d.since, &c)
		if len(d.since) > 3 {
			d.since = d.since[1:]
		}
	}
	return nil
}

func (d *memDisk) Compact(index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keepAll || index <= d.base || index > d.state.index {
		return
	}
	// What the state database does not have for sure must be replayed.
	index = min(index, d.durable.index)
	if len(d.since) > 0 && d.since[0].index <= d.image.base+uint64(len(d.image.entries)) && d.rng.IntN(2) == 0 {
		d.durable, d.since = *d.since[0], d.since[1:]
	}
	if index <= d.base || index-d.image.base > uint64(len(d.image.entries)) {
		return
	}
	d.baseTerm = d.entries[index-d.base-1].GetTerm()
	d.entries, d.base = d.entries[index-d.base:], index
	d.image.baseTerm = d.baseTerm
	d.image.entries, d.image.base = d.image.entries[index-d.image.base:], index
}

func (d *memDisk) OnFlush(fn func(uint64)) { d.onFlush = fn }

func (d *memDisk) FlushedIndex() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flushed
}

func (d *memDisk) find(id rhumb.PartitionID, max int, want func(Stored) bool) (out []Stored) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := 0
	for _, b := range d.state.logs[id] {
		if b.Base+b.Envelope.Last-b.Envelope.First < d.state.starts[id] || !want(b) {
			continue
		}
		if size += len(b.Batch); size > max && len(out) > 0 {
			break
		}
		out = append(out, b)
	}
	return out
}

func lastOf(b Stored) rhumb.Offset { return b.Base + b.Envelope.Last - b.Envelope.First }

func (d *memDisk) Read(q Query) ([]Stored, error) {
	return d.find(q.Partition, q.MaxBytes, func(b Stored) bool { return lastOf(b) >= q.From && b.Base < q.Limit }), nil
}

func (d *memDisk) ReadOrigin(q OriginQuery) ([]Stored, error) {
	return d.find(q.Partition, q.MaxBytes, func(b Stored) bool {
		return b.Envelope.Region == q.Region && bytes.Equal(b.Envelope.Life[:], q.Life[:]) && b.Envelope.Last >= q.From && b.Base < q.Limit
	}), nil
}

func (d *memDisk) ByTime(rhumb.PartitionID, int64, rhumb.Offset) (Stored, bool, error) {
	return Stored{}, false, nil
}

func (d *memDisk) Latest(rhumb.PartitionID, rhumb.Offset) (Stored, bool, error) {
	return Stored{}, false, nil
}

func (d *memDisk) Bytes(rhumb.PartitionID) int64 { return 0 }

func (d *memDisk) RetentionStart(id rhumb.PartitionID, _ Retention) rhumb.Offset {
	return d.state.starts[id]
}
