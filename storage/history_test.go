package storage

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// promise is what the history has been told so far. The hook reads it.
type promise struct {
	saved   [2]uint64 // last entry that done was called for (durability fsync)
	flushed [2]uint64 // as FlushedIndex said
	frames  [2]int    // how many frames done was called for (durability fsync)
	commit  [2]uint64 // last entry whose Apply was called, so that Raft had committed it
	starts  map[rhumb.PartitionRef]rhumb.Offset
}

// history is what one seed does. Entries are kept, to compare and to apply again.
type history struct {
	mu      sync.Mutex                  // the hook runs on the store's goroutines
	entries [2]map[uint64]*raftpb.Entry // by index, the last one saved
	frames  [2][]saved                  // all that was saved, in order
	made    promise

	settled, removed, copied int
}

// saved is a frame of entries of one term.
type saved struct{ first, last, term uint64 }

// terms gives the terms of the entries from 1 on after so many frames.
func (h *history) terms(i, frames int) (terms []uint64) {
	for _, f := range h.frames[i][:frames] {
		terms = terms[:f.first-1]
		for range f.last - f.first + 1 {
			terms = append(terms, f.term)
		}
	}
	return terms
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
	t    *testing.T
	h    *history
	n    int // number of the shard in the history: shard n+1 of the store
	sh   *Shard
	rng  *rand.Rand
	term uint64
	place
	stuck  int             // steps for which nothing is applied
	queue  []*raftpb.Entry // saved, not applied
	places []place         // before each of queue
}

// place is where a leader is in the log.
type place struct {
	index uint64
	next  map[rhumb.PartitionID]rhumb.Offset
	first rhumb.PartitionID
}

func (p *place) copy() place { return place{p.index, maps.Clone(p.next), p.first} }

// goBack makes the player the leader of a new term, which does not know of the
// entries behind a place.
func (p *player) goBack(to place) {
	p.place = to.copy()
	p.h.mu.Lock()
	p.h.made.saved[p.n], p.h.made.flushed[p.n] = min(p.h.made.saved[p.n], to.index), min(p.h.made.flushed[p.n], to.index)
	p.h.mu.Unlock()
	p.term++
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
			_, b := makeBatch(part, p.next[part], count, 500+p.rng.IntN(6000), p.index<<16|p.term)
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
		before := p.copy()
		if err := p.save([]*raftpb.Entry{p.entry(), p.entry()}); err != nil {
			return err
		}
		p.goBack(before)
	}
	if n := len(p.queue); n > 0 && p.rng.IntN(5) == 0 { // many, in files that are closed
		n = p.rng.IntN(n)
		p.goBack(p.places[n])
		p.queue, p.places = p.queue[:n], p.places[:n]
	}
	var list []*raftpb.Entry
	for range 1 + p.rng.IntN(4) {
		p.places = append(p.places, p.copy())
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
	p.queue, p.places = nil, nil
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
	p.h.frames[p.n] = append(p.h.frames[p.n], saved{list[0].GetIndex(), list[len(list)-1].GetIndex(), p.term})
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
	if p.sh.store.cfg.Durability == DurabilityFsync {
		p.h.made.frames[p.n] = len(p.h.frames[p.n])
	}
	p.h.made.flushed[p.n] = p.sh.FlushedIndex()
	return nil
}

// play runs the history of a seed and calls at before each operation of the file
// system that changes something. It ends when at returns an error, or by itself.
func play(t *testing.T, seed uint64, how way, at func(h *history, fs *vfs.Mem, op vfs.Op) error) *history {
	h := &history{entries: [2]map[uint64]*raftpb.Entry{{}, {}}, made: promise{starts: map[rhumb.PartitionRef]rhumb.Offset{}}}
	fs := vfs.NewMem(vfs.MemConfig{})
	fs.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		return at(h, fs, op)
	})
	cfg := crashConfig(fs, how)
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
			term: 1, place: place{next: map[rhumb.PartitionID]rhumb.Offset{}, first: 1}}
	}
	for step := 0; step < 40 && err == nil; step++ {
		err = players[step%2].step()
		synctest.Wait() // files settle in between
	}
	n.kill()
	return h
}

// way is how a log is written.
type way struct {
	durability Durability
	direct     bool
}

// ways are those that are crashed; the first one at each operation.
var ways = []way{{DurabilityFsync, true}, {DurabilityFsync, false}, {DurabilityNone, false}}

func (w way) String() string {
	if w.direct {
		return w.durability.String() + " direct"
	}
	return w.durability.String() + " cached"
}

// other is past the page cache where w is through it, and the other way round.
func (w way) other() way { return way{w.durability, !w.direct} }

func crashConfig(fs vfs.FS, how way) Config {
	cfg := testConfig(fs)
	cfg.Durability, cfg.Direct = how.durability, how.direct
	cfg.StateMemTable = 64 << 10
	cfg.CopyForwardFiles = 2
	return cfg
}

// copy gives the history as it is now; entries are shared.
func (h *history) copy() *history {
	c := &history{made: copyPromise(h.made)}
	for i := range h.entries {
		c.entries[i] = make(map[uint64]*raftpb.Entry, len(h.entries[i]))
		maps.Copy(c.entries[i], h.entries[i])
		c.frames[i] = slices.Clone(h.frames[i])
	}
	return c
}

func copyPromise(p promise) promise {
	p.starts = maps.Clone(p.starts)
	return p
}
