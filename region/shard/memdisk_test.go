package shard

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/codec"
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
	fault   func() error // if set, asked at each operation; what it gives once stays

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
	raft        map[placeOf]uint64 // entry that brought a batch
}

func newMemState() memState {
	return memState{rows: map[string][]byte{}, logs: map[rhumb.PartitionID][]Stored{}, starts: map[rhumb.PartitionID]rhumb.Offset{}, raft: map[placeOf]uint64{}}
}

func (s *memState) clone() memState {
	c := *s
	c.rows, c.starts, c.logs, c.raft = maps.Clone(s.rows), maps.Clone(s.starts), maps.Clone(s.logs), maps.Clone(s.raft)
	for id, l := range c.logs {
		c.logs[id] = l[:len(l):len(l)]
	}
	return c
}

func newMemDisk(seed uint64) *memDisk {
	d := &memDisk{rng: rand.New(rand.NewPCG(seed, 7)), hs: &raftpb.HardState{}, conf: &raftpb.ConfState{}}
	d.state = newMemState()
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
func (d *memDisk) crash() disk {
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
	var ready []func(error)
	for _, r := range d.queue[:i+1] {
		if r.done != nil { // a lazy disk keeps writes in the queue after they are done
			ready = append(ready, r.done)
			r.done = nil
		}
	}
	err := d.operation()
	if d.lazy == 0 && err == nil {
		d.settle(i + 1)
	}
	d.mu.Unlock()
	for _, done := range ready {
		done(err)
	}
	if d.lazy > 0 && err == nil {
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

// operation gives why the next operation fails. The caller holds mu.
func (d *memDisk) operation() error {
	if d.fault == nil {
		return nil
	}
	err := d.fault()
	if err != nil {
		d.fault = func() error { return err }
	}
	return err
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

// memPiece is all that a snapshot of this twin is, in two pieces: rows, batches.
type memPiece struct {
	Rows    []KV
	Batches []memBatch
}

// memBatch is a [Stored] as a snapshot carries it.
type memBatch struct {
	Base     rhumb.Offset
	Envelope codec.Envelope
	Batch    []byte
}

type memSource struct {
	meta   *raftpb.SnapshotMetadata
	pieces []memPiece
}

func (s *memSource) Metadata() *raftpb.SnapshotMetadata { return s.meta }
func (s *memSource) Close() error                       { return nil }

func (s *memSource) Next() ([]byte, error) {
	if len(s.pieces) == 0 {
		return nil, io.EOF
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s.pieces[0]); err != nil {
		return nil, err
	}
	s.pieces = s.pieces[1:]
	return b.Bytes(), nil
}

func (d *memDisk) OpenSnapshot(after uint64) (SnapshotSource, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &memSource{meta: &raftpb.SnapshotMetadata{Index: new(d.state.index), Term: new(d.state.term), ConfState: d.state.conf}}
	var rows memPiece
	for _, k := range slices.Sorted(maps.Keys(d.state.rows)) {
		rows.Rows = append(rows.Rows, KV{Key: []byte(k), Value: d.state.rows[k]})
	}
	s.pieces = append(s.pieces, rows)
	for id, log := range d.state.logs {
		for _, b := range log {
			if d.state.raft[placeOf{id, b.Base}] > after && lastOf(b) >= d.state.starts[id] {
				s.pieces = append(s.pieces, memPiece{Batches: []memBatch{{b.Base, b.Envelope, b.Batch}}})
			}
		}
	}
	return s, nil
}

type placeOf struct {
	id   rhumb.PartitionID
	base rhumb.Offset
}

type memInstall struct {
	d    *memDisk
	meta *raftpb.SnapshotMetadata
	all  memPiece
	st   memState
}

func (d *memDisk) BeginInstall(meta *raftpb.SnapshotMetadata) (SnapshotInstall, error) {
	if meta.GetIndex() <= d.state.index {
		return nil, errors.New("old snapshot")
	}
	return &memInstall{d: d, meta: meta}, nil
}

func (in *memInstall) Add(piece []byte, done func(error)) error {
	var p memPiece
	if err := gob.NewDecoder(bytes.NewReader(piece)).Decode(&p); err != nil {
		return err
	}
	in.all.Rows, in.all.Batches = append(in.all.Rows, p.Rows...), append(in.all.Batches, p.Batches...)
	in.d.mu.Lock()
	defer in.d.mu.Unlock()
	in.d.queueWrite(&memWrite{done: done})
	return nil
}

func (in *memInstall) Abort() {}

func (in *memInstall) Commit(hs *raftpb.HardState, done func(error)) {
	d := in.d
	d.mu.Lock()
	defer d.mu.Unlock()
	in.st = newMemState()
	in.st.index, in.st.term, in.st.conf = in.meta.GetIndex(), in.meta.GetTerm(), in.meta.GetConfState()
	ends := map[rhumb.PartitionID]rhumb.Offset{}
	for _, kv := range in.all.Rows {
		in.st.rows[string(kv.Key)] = slices.Clone(kv.Value)
		if kv.Key[0] != tablePosition {
			continue
		}
		id, _, _ := keyID(kv.Key)
		p := &partition{id: id}
		if err := decodePosition(p, kv.Value); err != nil {
			panic(err)
		}
		in.st.starts[id], in.st.logs[id] = p.logStart, slices.Clone(d.state.logs[id])
		for _, b := range in.st.logs[id] {
			in.st.raft[placeOf{id, b.Base}] = d.state.raft[placeOf{id, b.Base}]
			ends[id] = lastOf(b) + 1
		}
	}
	for _, carried := range in.all.Batches {
		b := Stored{Base: carried.Base, Envelope: carried.Envelope, Batch: carried.Batch}
		if id := b.Envelope.Partition; b.Base >= ends[id] {
			in.st.logs[id] = append(in.st.logs[id], b)
			in.st.raft[placeOf{id, b.Base}] = in.st.index
			ends[id] = lastOf(b) + 1
		}
	}
	if hs == nil {
		hs = d.hs
	}
	d.hs = hs
	c := in.st.clone()
	d.queueWrite(&memWrite{done: done, snap: &memImage{hs, in.st.index, in.st.term, nil}, snapSt: &c})
}

func (in *memInstall) Finish() error {
	d := in.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state, d.conf = in.st.clone(), in.st.conf
	d.base, d.baseTerm, d.entries = in.st.index, in.st.term, nil
	d.flushed = in.st.index
	return nil
}

func (d *memDisk) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return d.hs, d.conf, nil
}

func (d *memDisk) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.operation(); err != nil {
		return nil, err
	}
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
	if err := d.operation(); err != nil {
		return err
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
		s.raft[placeOf{b.Partition, b.Base}] = b.Index
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

func (d *memDisk) SetCompaction(rhumb.PartitionID, *Compaction) {}

func (d *memDisk) Compacted(rhumb.PartitionID) rhumb.Offset { return 0 }

func (d *memDisk) Bytes(rhumb.PartitionID) int64 { return 0 }

func (d *memDisk) RetentionStart(id rhumb.PartitionID, _ Retention) rhumb.Offset {
	return d.state.starts[id]
}
