package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// The crash test plays a random history on one store: two shards with one voter
// each, which save, apply, move log starts and drop partitions, while files roll,
// settle and are deleted. At an operation of the file system it takes what a power
// loss would leave there, reopens that, applies again what a restart applies, and
// compares with what was promised before the operation.

// promise is what the history has been told so far. The hook reads it.
type promise struct {
	saved   [2]uint64 // last entry that done was called for (durability fsync)
	flushed [2]uint64 // as FlushedIndex said
	commit  [2]uint64 // last entry whose Apply was called, so that Raft had committed it
	starts  map[rhumb.PartitionRef]rhumb.Offset
}

// history is what one seed does. Entries are kept, to compare and to apply again.
type history struct {
	mu      sync.Mutex                  // the hook runs on the store's goroutines
	entries [2]map[uint64]*raftpb.Entry // by index, the last one saved
	made    promise

	settled, removed, copied int
}

const (
	opBatches = 'B' // partitions and bases, then the batches
	opStart   = 'S' // partition, offset
	opDrop    = 'D' // partition
)

// decodeEntry is the state machine's half: what an entry of the history changes.
func decodeEntry(e *raftpb.Entry) *Update {
	u := &Update{Index: e.GetIndex(), Term: e.GetTerm()}
	u.Sets = []KV{{Key: []byte("applied"), Value: binary.BigEndian.AppendUint64(nil, e.GetIndex())}}
	data := e.GetData()
	if len(data) == 0 {
		return u
	}
	switch p := rhumb.PartitionID(data[1]); data[0] {
	case opBatches:
		for at := 2; at < len(data); {
			env, batch, n, err := codec.ParseEnvelope(data[at:])
			if err != nil {
				panic(err)
			}
			base := rhumb.Offset(binary.BigEndian.Uint64(batch))
			u.Batches = append(u.Batches, BatchRef{Partition: env.Partition, Index: u.Index, At: at, Envelope: env,
				Base: base, MaxTimestamp: env.AppendTime, Bytes: data[at : at+n]})
			at += n
		}
	case opStart:
		u.LogStarts = []LogStart{{Partition: p, Start: rhumb.Offset(binary.BigEndian.Uint64(data[2:]))}}
	case opDrop:
		u.Drops = []rhumb.PartitionID{p}
	}
	return u
}

// model is what a shard must hold after applying entries 1 to index.
type model struct {
	batches map[rhumb.PartitionID][]BatchRef
	starts  map[rhumb.PartitionID]rhumb.Offset
}

func modelOf(entries map[uint64]*raftpb.Entry, index uint64) model {
	m := model{map[rhumb.PartitionID][]BatchRef{}, map[rhumb.PartitionID]rhumb.Offset{}}
	for i := uint64(1); i <= index; i++ {
		u := decodeEntry(entries[i])
		for _, b := range u.Batches {
			m.batches[b.Partition] = append(m.batches[b.Partition], b)
		}
		for _, ls := range u.LogStarts {
			m.starts[ls.Partition] = max(m.starts[ls.Partition], ls.Start)
		}
		for _, p := range u.Drops {
			delete(m.batches, p)
			delete(m.starts, p)
		}
	}
	return m
}

// player drives one shard of the history.
type player struct {
	t     *testing.T
	h     *history
	n     int // number of the shard in the history: shard n+1 of the store
	sh    *Shard
	rng   *rand.Rand
	index uint64
	term  uint64
	next  map[rhumb.PartitionID]rhumb.Offset
	first rhumb.PartitionID
	stuck int             // steps for which nothing is applied
	queue []*raftpb.Entry // saved, not applied
}

func (p *player) entry() *raftpb.Entry {
	p.index++
	part := p.first + rhumb.PartitionID(p.rng.IntN(3))
	var data []byte
	switch k := p.rng.IntN(20); {
	case k < 3 && p.next[part] > 0:
		data = binary.BigEndian.AppendUint64([]byte{opStart, byte(part)}, uint64(p.rng.Int64N(int64(p.next[part])+1)))
	case k == 3:
		data = []byte{opDrop, byte(p.first)}
		p.next[p.first] = 0
		p.first++
	default:
		data = []byte{opBatches, 0}
		for range 1 + p.rng.IntN(3) {
			count := 1 + p.rng.IntN(4)
			_, b := makeBatch(part, p.next[part], count, 500+p.rng.IntN(6000), p.index)
			p.next[part] += rhumb.Offset(count)
			data = append(data, b...)
			part = p.first + rhumb.PartitionID(p.rng.IntN(3))
		}
	}
	return &raftpb.Entry{Index: new(p.index), Term: new(p.term), Data: data}
}

// step saves a few entries at once, or not yet applied ones that a new term
// cancels, and applies what is saved.
func (p *player) step() error {
	if p.rng.IntN(12) == 0 { // a leader's entries that will be cancelled by the next term's
		next := map[rhumb.PartitionID]rhumb.Offset{}
		for k, v := range p.next {
			next[k] = v
		}
		index, first := p.index, p.first
		if err := p.save([]*raftpb.Entry{p.entry(), p.entry()}); err != nil {
			return err
		}
		p.index, p.first, p.next = index, first, next
		p.h.mu.Lock()
		p.h.made.saved[p.n], p.h.made.flushed[p.n] = min(p.h.made.saved[p.n], index), min(p.h.made.flushed[p.n], index)
		p.h.mu.Unlock()
		p.term++
	}
	var list []*raftpb.Entry
	for range 1 + p.rng.IntN(4) {
		list = append(list, p.entry())
	}
	if err := p.save(list); err != nil {
		return err
	}
	p.queue = append(p.queue, list...)
	if p.stuck--; p.stuck > 0 {
		return nil
	}
	if p.rng.IntN(15) == 0 {
		p.stuck = 12
	}
	for _, e := range p.queue {
		if err := p.apply(e); err != nil {
			return err
		}
	}
	p.queue = nil
	return nil
}

func (p *player) apply(e *raftpb.Entry) error {
	u := decodeEntry(e)
	p.h.mu.Lock()
	p.h.made.commit[p.n] = e.GetIndex()
	for _, d := range u.Drops {
		delete(p.h.made.starts, rhumb.PartitionRef{Shard: p.sh.id, ID: d})
	}
	p.h.mu.Unlock()
	if err := p.sh.Apply(u); err != nil {
		return err
	}
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	for _, ls := range u.LogStarts {
		ref := rhumb.PartitionRef{Shard: p.sh.id, ID: ls.Partition}
		p.h.made.starts[ref] = max(p.h.made.starts[ref], ls.Start)
	}
	return nil
}

func (p *player) save(list []*raftpb.Entry) error {
	p.h.mu.Lock()
	for _, e := range list {
		p.h.entries[p.n][e.GetIndex()] = e
	}
	commit := p.h.made.commit[p.n]
	p.h.mu.Unlock()
	done := make(chan error, 1)
	hs := &raftpb.HardState{Term: new(p.term), Vote: new(uint64(1)), Commit: new(commit)}
	p.sh.Save(hs, list, true, func(err error) { done <- err })
	if err := <-done; err != nil {
		return err
	}
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	p.h.made.saved[p.n] = list[len(list)-1].GetIndex()
	p.h.made.flushed[p.n] = p.sh.FlushedIndex()
	return nil
}

// play runs the history of a seed and calls at before each operation of the file
// system that changes something. It ends when at returns an error, or by itself.
func play(t *testing.T, seed uint64, durability Durability, at func(h *history, fs *vfs.Mem, op vfs.Op) error) *history {
	h := &history{entries: [2]map[uint64]*raftpb.Entry{{}, {}}, made: promise{starts: map[rhumb.PartitionRef]rhumb.Offset{}}}
	fs := vfs.NewMem(vfs.MemConfig{})
	fs.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		return at(h, fs, op)
	})
	cfg := crashConfig(fs, durability)
	cfg.Events = Events{
		Settled:     func(uint64, uint64) { h.settled++ },
		Removed:     func(uint64) { h.removed++ },
		CopyForward: func(rhumb.ShardID, int) { h.copied++ },
	}
	s, err := Open(cfg)
	if err != nil {
		return h // the fault came that early
	}
	n := run(t, s)
	var players [2]*player
	for i := range players {
		players[i] = &player{t: t, h: h, n: i, sh: s.Shard(rhumb.ShardID(i + 1)), rng: rand.New(rand.NewPCG(seed, uint64(i))),
			term: 1, next: map[rhumb.PartitionID]rhumb.Offset{}, first: 1}
	}
	for step := 0; step < 40 && err == nil; step++ {
		err = players[step%2].step()
		synctest.Wait() // files settle in between
	}
	n.kill()
	return h
}

func crashConfig(fs vfs.FS, durability Durability) Config {
	cfg := testConfig(fs)
	cfg.Durability = durability
	cfg.StateMemTable = 64 << 10
	cfg.CopyForwardFiles = 2
	return cfg
}

// checkRecovery reopens what a crash left and compares it with the promises.
func checkRecovery(t *testing.T, h *history, made promise, fs *vfs.Mem, durability Durability) {
	t.Helper()
	s, err := Open(crashConfig(fs, durability))
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	n := run(t, s)
	defer n.kill()
	for i := range h.entries {
		checkShard(t, h.entries[i], s.Shard(rhumb.ShardID(i+1)), made, i)
	}
	synctest.Wait() // files settle and are deleted again
	for i := range h.entries {
		sh := s.Shard(rhumb.ShardID(i + 1))
		last, _ := sh.Applied()
		compareModel(t, sh, modelOf(h.entries[i], last))
	}
}

func checkShard(t *testing.T, entries map[uint64]*raftpb.Entry, sh *Shard, made promise, i int) {
	t.Helper()
	first, _ := sh.FirstIndex()
	last, _ := sh.LastIndex()
	applied, _ := sh.Applied()
	hs, _, _ := sh.InitialState()
	promised := made.flushed[i]
	if sh.store.cfg.Durability == DurabilityFsync {
		promised = max(promised, made.saved[i])
	}
	if last < promised {
		t.Fatalf("I1: shard %d: entry %d was promised, the log ends at %d", sh.id, promised, last)
	}
	if applied > made.commit[i] || applied > last {
		t.Fatalf("I12: shard %d: state database at %d, the log ends at %d, committed was %d", sh.id, applied, last, made.commit[i])
	}
	if hs.GetCommit() < applied || hs.GetCommit() > last {
		t.Fatalf("shard %d: commit %d, applied %d, last %d", sh.id, hs.GetCommit(), applied, last)
	}
	// Applying again, as Raft would: what is above the applied index, nothing below.
	// With less than fsync what was committed may be gone; Raft commits what is left.
	for index := max(first, applied+1); index <= min(last, made.commit[i]); index++ {
		list, err := sh.Entries(index, index+1, 1<<30)
		if err != nil {
			t.Fatalf("I1: shard %d: entry %d: %v", sh.id, index, err)
		}
		want := entries[index]
		if index > promised && list[0].GetTerm() < want.GetTerm() {
			break // what cancelled it was not flushed, and is gone
		}
		if list[0].GetTerm() != want.GetTerm() || !bytes.Equal(list[0].GetData(), want.GetData()) {
			t.Fatalf("I2: shard %d: entry %d of term %d is not the one that was saved in term %d", sh.id, index, list[0].GetTerm(), want.GetTerm())
		}
		if err := sh.Apply(decodeEntry(list[0])); err != nil {
			t.Fatalf("shard %d: apply again %d: %v", sh.id, index, err)
		}
	}
	applied, _ = sh.Applied()
	var table uint64
	_ = sh.Tables(func(_, v []byte) error { table = binary.BigEndian.Uint64(v); return nil })
	if table != applied {
		t.Fatalf("I11: shard %d: tables are of entry %d, applied is %d", sh.id, table, applied)
	}
	if sh.store.cfg.Durability == DurabilityFsync {
		for ref, start := range made.starts {
			if ref.Shard == sh.id && sh.LogStart(ref.ID) < start {
				t.Fatalf("I2: partition %v: log start went back from %d to %d", ref, start, sh.LogStart(ref.ID))
			}
		}
	}
	compareModel(t, sh, modelOf(entries, applied))
}

// compareModel reads every partition and compares batch by batch.
func compareModel(t *testing.T, sh *Shard, m model) {
	t.Helper()
	for p, batches := range m.batches {
		start := m.starts[p]
		if got := sh.LogStart(p); got != start {
			t.Fatalf("I2: shard %d partition %d: log start %d, want %d", sh.id, p, got, start)
		}
		end := batches[len(batches)-1].Base + rhumb.Offset(batches[len(batches)-1].Envelope.Count)
		for len(batches) > 0 && batches[0].Base+rhumb.Offset(batches[0].Envelope.Count) <= start {
			batches = batches[1:]
		}
		var size int64
		for i := range batches {
			size += int64(len(batches[i].Bytes))
		}
		if got := sh.Bytes(p); got != size {
			t.Fatalf("I11: shard %d partition %d: %d bytes, want %d", sh.id, p, got, size)
		}
		if start >= end {
			continue
		}
		got := readAll(t, sh, p, start, end, 20000)
		if len(got) != len(batches) {
			t.Fatalf("I1: shard %d partition %d: %d batches, want %d", sh.id, p, len(got), len(batches))
		}
		for i := range got {
			if got[i].Base != batches[i].Base || !bytes.Equal(got[i].Batch, batches[i].Bytes[codec.EnvelopeSize:]) {
				t.Fatalf("I2: shard %d partition %d: batch %d at %d is not the one at %d", sh.id, p, i, got[i].Base, batches[i].Base)
			}
		}
	}
}

// crashSeeds is how many histories a test plays; RHUMB_SEEDS plays more.
func crashSeeds(t *testing.T, n uint64) uint64 {
	if s, err := strconv.ParseUint(os.Getenv("RHUMB_SEEDS"), 10, 64); err == nil {
		return s
	}
	if testing.Short() {
		return 1
	}
	return n
}

func copyPromise(p promise) promise {
	starts := make(map[rhumb.PartitionRef]rhumb.Offset, len(p.starts))
	for k, v := range p.starts {
		starts[k] = v
	}
	p.starts = starts
	return p
}

func TestI1I2I12CrashAtEveryOperation(t *testing.T) {
	for seed := range crashSeeds(t, 1) {
		for _, durability := range []Durability{DurabilityFsync, DurabilityNone} {
			t.Run(fmt.Sprintf("seed %d %v", seed, durability), func(t *testing.T) {
				crashEverywhere(t, seed, durability)
			})
		}
	}
}

// crashEverywhere plays one history and recovers from a crash at each operation.
// The clones are taken while it runs and checked afterwards, each with the promises
// of its moment: entries that were cancelled later are compared with their own.
func crashEverywhere(t *testing.T, seed uint64, durability Durability) {
	type moment struct {
		fs   *vfs.Mem
		made promise
		h    *history
		op   vfs.Op
	}
	var moments []moment
	synctest.Test(t, func(t *testing.T) {
		h := play(t, seed, durability, func(h *history, fs *vfs.Mem, op vfs.Op) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			before := h.copy() // what was promised, before the crash
			ops := len(moments)
			clone := fs.CrashClone(vfs.CrashOptions{Seed: seed<<32 | uint64(ops), Unsynced: vfs.Unsynced(ops % 3)})
			moments = append(moments, moment{clone, before.made, before, op})
			return nil
		})
		t.Logf("%d operations, %d files settled, %d removed, %d copies", len(moments), h.settled, h.removed, h.copied)
		if len(moments) < 100 || h.settled == 0 {
			t.Errorf("the history does too little")
		}
	})
	step := 1
	if durability != DurabilityFsync && os.Getenv("RHUMB_SEEDS") == "" {
		step = 4 // the default has to be exact, the others cost the same time
	}
	for i := 0; i < len(moments); i += step {
		m := moments[i]
		ok := t.Run(fmt.Sprintf("op %d %s %s", i, m.op.Kind, m.op.Name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkRecovery(t, m.h, m.made, m.fs, durability) })
		})
		if !ok {
			return
		}
	}
}

// copy gives the history as it is now; entries are shared.
func (h *history) copy() *history {
	c := &history{made: copyPromise(h.made)}
	for i := range h.entries {
		c.entries[i] = make(map[uint64]*raftpb.Entry, len(h.entries[i]))
		for k, v := range h.entries[i] {
			c.entries[i][k] = v
		}
	}
	return c
}
