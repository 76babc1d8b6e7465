package storage

import (
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/storage/commitlog"
)

// slot is what memory knows of one Raft entry.
type slot struct {
	term  uint64
	size  uint32
	kind  raftpb.EntryType
	entry *raftpb.Entry      // nil when only the file has it
	loc   commitlog.Location // File 0 until it is written
}

// entryTable holds a shard's Raft entries from base+1 on. Its owner, the shard's
// goroutine, changes the entries; the log's goroutine sets their places, the tail
// cache drops their data, and readers look both up.
//
// Invariants: slots[i] is entry base+1+i; a slot without entry has a place;
// base <= applied, and base <= the index up to which files have settled.
type entryTable struct {
	mu       sync.Mutex
	base     uint64
	baseTerm uint64
	slots    []slot
	flushed  uint64 // highest index known to be on disk, whatever the durability
}

func (t *entryTable) last() uint64 { return t.base + uint64(len(t.slots)) }

// at gives the slot of an entry, nil if the table does not have it.
func (t *entryTable) at(index uint64) *slot {
	if index <= t.base || index > t.last() {
		return nil
	}
	return &t.slots[index-t.base-1]
}

// put adds entries without holes, cancelling what is there from the first on.
// It gives false if they would leave a hole or cancel what is below the base.
func (t *entryTable) put(entries []*raftpb.Entry) bool {
	if len(entries) == 0 {
		return true
	}
	first := entries[0].GetIndex()
	if first <= t.base || first > t.last()+1 {
		return false
	}
	t.cut(first - 1)
	for _, e := range entries {
		t.slots = append(t.slots, slot{term: e.GetTerm(), size: uint32(len(e.GetData())), kind: e.GetType(), entry: e})
	}
	t.flushed = min(t.flushed, first-1)
	return true
}

// cut forgets the entries above index.
func (t *entryTable) cut(index uint64) {
	n := index - t.base
	clear(t.slots[n:]) // releases the data
	t.slots = t.slots[:n]
}

// setPlaces notes where entries were written, unless they were cancelled since.
// cached is called for those that are still held in memory.
func (t *entryTable) setPlaces(entries []*raftpb.Entry, locs []commitlog.Location, cached func(index, term uint64, size int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range entries {
		s := t.at(e.GetIndex())
		if s == nil || s.term != e.GetTerm() || i >= len(locs) {
			continue
		}
		first := s.loc.File == 0
		s.loc = locs[i]
		if first && s.entry != nil {
			cached(e.GetIndex(), s.term, len(e.GetData()))
		}
	}
}

// setFlushed notes that the entry and all before it are on disk; an entry that
// was cancelled since says nothing. It gives whether the flushed index grew.
func (t *entryTable) setFlushed(index, term uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.at(index); s == nil || s.term != term || index <= t.flushed {
		return false
	}
	t.flushed = index
	return true
}

// evict drops an entry's data from memory if the log has it.
func (t *entryTable) evict(index, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.at(index); s != nil && s.term == term && s.loc.File != 0 {
		s.entry = nil
	}
}

// lookup gives an entry's data, or its place if memory does not have it; ok is
// false if the table no longer knows the entry.
func (t *entryTable) lookup(index uint64) (data []byte, loc commitlog.Location, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.at(index)
	if s == nil {
		return nil, loc, false
	}
	if s.entry != nil {
		return s.entry.GetData(), s.loc, true
	}
	return nil, s.loc, true
}

// trim forgets the entries up to index.
func (t *entryTable) trim(index uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.at(index)
	if s == nil {
		return
	}
	t.baseTerm = s.term
	n := index - t.base
	clear(t.slots[:n])
	t.slots = t.slots[n:]
	t.base = index
}

// reset makes the table begin after a snapshot.
func (t *entryTable) reset(index, term uint64) {
	clear(t.slots)
	t.slots = nil
	t.base, t.baseTerm = index, term
	t.flushed = min(t.flushed, index)
}

// endOf gives the last entry whose newest copy lies in the given file or an older
// one, base if there is none.
func (t *entryTable) endOf(file uint64) (index, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lo, hi := 0, len(t.slots)
	for lo < hi { // places grow with the index; entries that are not written come last
		if mid := (lo + hi) / 2; t.slots[mid].loc.File != 0 && t.slots[mid].loc.File <= file {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return t.base, t.baseTerm
	}
	return t.base + uint64(lo), t.slots[lo-1].term
}
