package commitlog

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ShardState is what the log knows of a shard at some point: what a checkpoint
// carries.
type ShardState struct {
	Shard rhumb.ShardID
	// Term, Vote and Commit are the last hard state, zeros if there was none.
	Term, Vote, Commit uint64
	// Compacted is the index of the last entry that is no longer needed (see
	// [Log.CompactTo]) and CompactedTerm its term: the first entry is Compacted + 1.
	Compacted, CompactedTerm uint64
	// Last is the index of the last entry, LastTerm its term. Last >= Compacted.
	Last, LastTerm uint64
	// Conf is the marshalled conf state given last; never changed in place.
	Conf []byte
}

// HardState gives the hard state as Raft takes it.
func (s *ShardState) HardState() *raftpb.HardState {
	return &raftpb.HardState{Term: new(s.Term), Vote: new(s.Vote), Commit: new(s.Commit)}
}

// change is what a frame does to its shard's state.
type change struct {
	kind        Kind
	shard       rhumb.ShardID
	hardState   bool
	term        uint64
	vote        uint64
	commit      uint64
	first, last uint64 // entries; first 0 if none
	lastTerm    uint64
	conf        []byte
}

func changeOf(f *Frame) change {
	c := change{kind: f.Kind, shard: f.Shard, conf: f.Conf}
	if hs := f.HardState; hs != nil {
		c.hardState, c.term, c.vote, c.commit = true, hs.GetTerm(), hs.GetVote(), hs.GetCommit()
	}
	if n := len(f.Entries); n > 0 {
		c.first, c.last = f.Entries[0].GetIndex(), f.Entries[n-1].GetIndex()
		c.lastTerm = f.Entries[n-1].GetTerm()
	}
	return c
}

// shardStates is the state of all shards after the last frame written.
type shardStates struct {
	mu sync.Mutex
	m  map[rhumb.ShardID]*ShardState
}

func (s *shardStates) get(id rhumb.ShardID) *ShardState {
	st := s.m[id]
	if st == nil {
		st = &ShardState{Shard: id}
		s.m[id] = st
	}
	return st
}

func (s *shardStates) apply(c *change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.get(c.shard)
	if c.hardState {
		st.Term, st.Vote, st.Commit = c.term, c.vote, c.commit
	}
	switch {
	case c.first == 0:
	case c.kind == KindEntries:
		st.Last, st.LastTerm = c.last, c.lastTerm
	case c.kind == KindSnapshot:
		st.Compacted, st.CompactedTerm = c.last, c.lastTerm
		st.Last, st.LastTerm = c.last, c.lastTerm
		st.Conf = c.conf
	}
}

// list gives a copy, sorted by shard.
func (s *shardStates) list() []ShardState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]ShardState, 0, len(s.m))
	for _, id := range slices.Sorted(maps.Keys(s.m)) {
		out = append(out, *s.m[id])
	}
	return out
}

func (s *shardStates) reset(list []ShardState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m = make(map[rhumb.ShardID]*ShardState, len(list))
	for _, st := range list {
		s.m[st.Shard] = &st
	}
}

const shardStateSize = 64 // fields of a shard behind its two leading words, with the length of conf but without conf

var errCheckpoint = errors.New("checkpoint does not parse")

func appendCheckpoint(b []byte, list []ShardState) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(list)))
	b = le.AppendUint32(b, 0)
	for i := range list {
		s := &list[i]
		b = le.AppendUint32(b, uint32(shardStateSize+len(s.Conf)))
		b = le.AppendUint32(b, uint32(s.Shard))
		for _, v := range [...]uint64{s.Term, s.Vote, s.Commit, s.Compacted, s.CompactedTerm, s.Last, s.LastTerm} {
			b = le.AppendUint64(b, v)
		}
		b = le.AppendUint32(b, uint32(len(s.Conf)))
		b = append(b, s.Conf...)
	}
	return b
}

// decodeCheckpoint reads what appendCheckpoint wrote; fields that a later version
// appends to a shard are skipped. Conf refers to b.
func decodeCheckpoint(b []byte) ([]ShardState, error) {
	if len(b) < 8 {
		return nil, errCheckpoint
	}
	le := binary.LittleEndian
	count := int64(le.Uint32(b))
	b = b[8:]
	if count*(4+shardStateSize) > int64(len(b)) {
		return nil, errCheckpoint
	}
	list := make([]ShardState, 0, count)
	for range count {
		if len(b) < 4+shardStateSize {
			return nil, errCheckpoint
		}
		size := int64(le.Uint32(b))
		conf := int64(le.Uint32(b[64:]))
		if size > int64(len(b))-4 || size < shardStateSize+conf {
			return nil, errCheckpoint
		}
		s := ShardState{Shard: rhumb.ShardID(le.Uint32(b[4:]))}
		for i, p := range [...]*uint64{&s.Term, &s.Vote, &s.Commit, &s.Compacted, &s.CompactedTerm, &s.Last, &s.LastTerm} {
			*p = le.Uint64(b[8+8*i:])
		}
		if conf > 0 {
			s.Conf = b[68 : 68+conf : 68+conf]
		}
		list = append(list, s)
		b = b[4+size:]
	}
	return list, nil
}
