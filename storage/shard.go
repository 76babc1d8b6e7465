package storage

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// Shard is one shard's part of a store. It is Raft's storage, and that side, like
// Save, Apply and Compact, belongs to the shard's goroutine. Reads may be made by
// any goroutine.
type Shard struct {
	id    rhumb.ShardID
	store *Store

	// Owned by the shard's goroutine.
	hard  *raftpb.HardState // as last saved
	conf  *raftpb.ConfState // as last applied; replaced, never changed
	runs  []statedb.Run     // term runs of what is applied, by index
	term  uint64            // of the last entry applied
	first uint64            // index that Compact allows to forget

	// Used by Open only.
	staged  []commitlog.Location // pieces of a snapshot that may follow
	pending *pendingInstall

	// Set by the shard's goroutine, read by any.
	applied atomic.Uint64
	// Set by the settler, read by any: no entry up to settled needs its place, and
	// entries up to forget are kept for followers no longer.
	settled atomic.Uint64
	forget  atomic.Uint64
	holds   atomic.Int32 // open snapshot readers: entries stay
	// Set by OnFlush before Run.
	onFlush atomic.Pointer[func(index uint64)]

	// saving is held while a frame is put into the table and queued, so that the log
	// has frames in the table's order.
	saving  sync.Mutex
	entries entryTable

	// Under mu.
	mu      sync.RWMutex
	parts   map[rhumb.PartitionID]*index.Partition
	sources map[index.Source]*index.Source
	// compactions is how far partitions are compacted, as kept in the state database,
	// and policies how they are to be.
	compactions map[rhumb.PartitionID]*statedb.Compaction
	policies    map[rhumb.PartitionID]Compaction
}

var _ raft.Storage = (*Shard)(nil)

func newShard(s *Store, id rhumb.ShardID) *Shard {
	return &Shard{
		id: id, store: s, hard: &raftpb.HardState{}, conf: &raftpb.ConfState{},
		parts: map[rhumb.PartitionID]*index.Partition{}, sources: map[index.Source]*index.Source{},
		compactions: map[rhumb.PartitionID]*statedb.Compaction{}, policies: map[rhumb.PartitionID]Compaction{},
	}
}

// ID is the shard's number.
func (sh *Shard) ID() rhumb.ShardID { return sh.id }

// Applied is the last entry that was applied: after Open, what the state database
// kept. Entries after it are to be applied again.
func (sh *Shard) Applied() (index, term uint64) { return sh.applied.Load(), sh.term }

// ConfState is the configuration as of the applied index. Do not change it.
func (sh *Shard) ConfState() *raftpb.ConfState { return sh.conf }

// Tables calls fn with each pair of the shard's tables, in key order. The slices
// are valid during the call only.
func (sh *Shard) Tables(fn func(key, value []byte) error) error { return sh.store.db.Tables(sh.id, fn) }

// FlushedIndex is the highest index that is on disk here with all before it,
// whatever the durability. It falls when a new leader's entries cancel others.
func (sh *Shard) FlushedIndex() uint64 {
	sh.entries.mu.Lock()
	defer sh.entries.mu.Unlock()
	return sh.entries.flushed
}

// OnFlush sets what is called with the flushed index each time it grew. It is
// called from the log's goroutine and must not block. Set it before Run.
func (sh *Shard) OnFlush(fn func(index uint64)) { sh.onFlush.Store(&fn) }

// InitialState gives the hard state and configuration to start Raft from.
func (sh *Shard) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return sh.hard, sh.conf, nil
}

// FirstIndex is the first entry that Entries may give.
func (sh *Shard) FirstIndex() (uint64, error) {
	sh.entries.mu.Lock()
	defer sh.entries.mu.Unlock()
	return sh.entries.base + 1, nil
}

// LastIndex is the last entry that was saved.
func (sh *Shard) LastIndex() (uint64, error) {
	sh.entries.mu.Lock()
	defer sh.entries.mu.Unlock()
	return sh.entries.last(), nil
}

// Term gives the term of an entry from FirstIndex()-1 to LastIndex().
func (sh *Shard) Term(i uint64) (uint64, error) {
	t := &sh.entries
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s := t.at(i); {
	case s != nil:
		return s.term, nil
	case i == t.base:
		return t.baseTerm, nil
	case i < t.base:
		return 0, raft.ErrCompacted
	}
	return 0, raft.ErrUnavailable
}

// Entries gives the entries from lo to below hi, at least one, as many as fit
// maxSize bytes of data. Those that the tail cache dropped are read from the log.
func (sh *Shard) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	t := &sh.entries
	t.mu.Lock()
	if lo <= t.base {
		t.mu.Unlock()
		return nil, raft.ErrCompacted
	}
	if hi > t.last()+1 || lo >= hi {
		t.mu.Unlock()
		return nil, raft.ErrUnavailable
	}
	var size uint64
	out := make([]*raftpb.Entry, 0, min(hi-lo, 1024))
	var missing []slot // parallel to out, only where out has nil
	for i := lo; i < hi; i++ {
		s := t.slots[i-t.base-1]
		size += uint64(s.size) + 16 // a bound for Raft's own framing
		if size > maxSize && len(out) > 0 {
			break
		}
		out = append(out, s.entry)
		if s.entry == nil {
			missing = append(missing, s)
		}
	}
	t.mu.Unlock()
	for i := range out {
		if out[i] != nil {
			continue
		}
		e, err := sh.readEntry(lo+uint64(i), missing[0])
		if err != nil {
			return nil, err
		}
		out[i], missing = e, missing[1:]
	}
	return out, nil
}

// readEntry reads an entry from the log. Its file may be deleted meanwhile: then
// the entry was copied forward, or it is one that only a late follower wants.
func (sh *Shard) readEntry(index uint64, s slot) (*raftpb.Entry, error) {
	for range maxReadAttempts {
		data := make([]byte, s.size)
		err := sh.store.log.ReadAt(s.loc, data)
		switch {
		case err == nil:
			return &raftpb.Entry{Index: new(index), Term: new(s.term), Type: s.kind.Enum(), Data: data}, nil
		case !errors.Is(err, commitlog.ErrRemoved):
			return nil, fmt.Errorf("storage: shard %d entry %d: %w", sh.id, index, err)
		case index <= sh.settled.Load():
			sh.entries.trim(index)
			return nil, raft.ErrCompacted
		}
		sh.entries.mu.Lock()
		now := sh.entries.at(index)
		if now != nil {
			s = *now
		}
		sh.entries.mu.Unlock()
		if now == nil {
			return nil, raft.ErrCompacted
		}
	}
	return nil, raft.ErrUnavailable
}

// Snapshot gives the place of a snapshot of what is applied; its data are sent
// apart from it, see [Shard.OpenSnapshot].
func (sh *Shard) Snapshot() (*raftpb.Snapshot, error) {
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(sh.applied.Load()), Term: new(sh.term), ConfState: sh.conf,
	}}, nil
}

// Save stores a hard state (nil if it stays) and entries (which cancel those
// saved before from the first one's index on), in one frame. They are Raft's to
// read at once; done is called, from the log's goroutine and in order, when they
// are as safe as the durability says and mustSync asks. Their data belongs to the
// store from now on and must not be changed. The caller bounds what waits.
func (sh *Shard) Save(hs *raftpb.HardState, entries []*raftpb.Entry, mustSync bool, done func(error)) {
	sh.saving.Lock()
	defer sh.saving.Unlock()
	t := &sh.entries
	t.mu.Lock()
	fits, base, last := t.put(entries), t.base, t.last()
	t.mu.Unlock()
	if !fits {
		done(fmt.Errorf("storage: shard %d: entry %d does not fit entries %d to %d", sh.id, entries[0].GetIndex(), base+1, last))
		return
	}
	if hs != nil && !raft.IsEmptyHardState(hs) {
		sh.hard = hs
	}
	sh.append(hs, entries, mustSync, done)
}

// append queues a frame; the caller holds saving.
func (sh *Shard) append(hs *raftpb.HardState, entries []*raftpb.Entry, mustSync bool, done func(error)) {
	f := &commitlog.Frame{Kind: commitlog.KindEntries, Shard: sh.id, HardState: hs, Entries: entries}
	if n := len(entries); n > 0 {
		index, term := entries[n-1].GetIndex(), entries[n-1].GetTerm()
		f.Flushed = func(err error) {
			if err == nil && sh.entries.setFlushed(index, term) {
				if fn := sh.onFlush.Load(); fn != nil {
					(*fn)(index)
				}
			}
		}
	}
	sh.store.log.Append(f, mustSync, func(locs []commitlog.Location, err error) {
		if err == nil {
			sh.placed(entries, locs)
		}
		done(err)
	})
}

// placed notes where entries were written.
func (sh *Shard) placed(entries []*raftpb.Entry, locs []commitlog.Location) {
	var cached []cachedEntry
	sh.entries.setPlaces(entries, locs, func(index, term uint64, size int) {
		cached = append(cached, cachedEntry{&sh.entries, index, term, size})
	})
	sh.store.tail.add(cached)
	if len(locs) > 0 {
		sh.store.files.sawFile(locs[len(locs)-1].File, sh.store.wake)
	}
}

// Compact says that followers do not need the entries up to index any more. They
// are forgotten once they are applied and their files have settled.
func (sh *Shard) Compact(index uint64) {
	sh.first = max(sh.first, index)
	sh.trim()
}

// trim forgets the entries that nobody needs.
func (sh *Shard) trim() {
	if sh.holds.Load() > 0 {
		return
	}
	settled := min(sh.settled.Load(), sh.applied.Load())
	sh.entries.trim(min(settled, max(sh.first, sh.forget.Load())))
}

// source gives the shared copy of an origin; the caller holds mu.
func (sh *Shard) source(s index.Source) *index.Source {
	p := sh.sources[s]
	if p == nil {
		p = &s
		sh.sources[s] = p
	}
	return p
}
