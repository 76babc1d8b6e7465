package commitlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// model is a history of frames and what must be true of any log that lived through
// a part of it. The id of a frame is its place in the order of Append calls, and
// its payloads are made from it, so a replayed frame tells which one it is.
type model struct {
	mu      sync.Mutex
	rng     *rand.Rand
	frames  []*modelFrame
	shards  map[rhumb.ShardID]ShardState // as the writer of frames sees them
	promise int                          // frames below were reported to be on disk
	removed map[uint64]bool              // files whose removal began
	maxData int
	direct  bool // the log is written past the page cache: each second seed
}

type modelFrame struct {
	*Frame
	file  uint64 // where it is, once known
	after map[rhumb.ShardID]ShardState
}

func newModel(seed uint64, maxData int) *model {
	return &model{
		rng:    rand.New(rand.NewPCG(seed, 1)),
		shards: map[rhumb.ShardID]ShardState{}, removed: map[uint64]bool{}, maxData: maxData, direct: seed%2 == 0,
	}
}

// data makes the payload of entry i of frame id: it says which one it is, and the
// rest follows from that.
func (m *model) data(id, i, size int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(id))
	b = binary.LittleEndian.AppendUint32(b, uint32(i))
	return append(b, bytes.Repeat([]byte{byte(id*7 + i)}, size)...)
}

// next makes a random frame that continues, or overwrites a part of, its shard's log.
func (m *model) next() *Frame {
	id := len(m.frames)
	shard := rhumb.ShardID(m.rng.IntN(3))
	st := m.shards[shard]
	st.Shard = shard
	f := &Frame{Kind: KindEntries, Shard: shard}
	switch m.rng.IntN(12) {
	case 0: // only a hard state: it says who it is by its commit
		st.Term, st.Vote, st.Commit = st.Term+uint64(m.rng.IntN(2)), uint64(m.rng.IntN(4)), uint64(id)
		f.HardState = hardState(st.Term, st.Vote, st.Commit)
	case 1:
		index := st.Last + uint64(m.rng.IntN(5)) + 1
		f.Kind, f.Conf = KindSnapshot, []byte{byte(id)}
		f.Entries = entries(index, st.Term, string(m.data(id, 0, m.rng.IntN(10))))
		st.Compacted, st.CompactedTerm, st.Last, st.LastTerm, st.Conf = index, st.Term, index, st.Term, f.Conf
	default:
		first := st.Last + 1
		if m.rng.IntN(8) == 0 && st.Last > st.Compacted { // a new leader overwrites
			first = st.Last - uint64(m.rng.IntN(int(min(st.Last-st.Compacted, 3))))
			st.Term++
			f.HardState = hardState(st.Term, 0, st.Commit)
			st.Vote = 0
		}
		var data []string
		for i := range 1 + m.rng.IntN(3) {
			data = append(data, string(m.data(id, i, m.rng.IntN(m.maxData))))
		}
		f.Entries = entries(first, st.Term, data...)
		st.Last, st.LastTerm = first+uint64(len(data))-1, st.Term
	}
	m.shards[shard] = st
	m.frames = append(m.frames, &modelFrame{Frame: f, after: maps.Clone(m.shards)})
	return f
}

// append gives the log one more frame of the history, now and then without
// demanding a flush, and keeps the promises that its callbacks make.
func (m *model) append(l *Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.next()
	id := len(m.frames) - 1
	mustSync := len(f.Entries) > 0 || m.rng.IntN(2) == 0
	f.Flushed = func(err error) { m.promised(id, err) }
	if m.rng.IntN(3) == 0 {
		f.Flushed = nil
	}
	fsync := l.cfg.Durability == Fsync
	l.Append(f, mustSync, func(locs []Location, err error) {
		if err != nil {
			return
		}
		m.mu.Lock()
		if len(locs) > 0 {
			m.frames[id].file = locs[0].File
		}
		m.mu.Unlock()
		if mustSync && fsync {
			m.promised(id, nil)
		}
	})
}

func (m *model) promised(id int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.promise = max(m.promise, id+1)
	}
}

// moment is what may be asked of a log that crashed at some time.
type moment struct {
	promise, appended int
	removed           map[uint64]bool
}

func (m *model) moment() moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return moment{promise: m.promise, appended: len(m.frames), removed: maps.Clone(m.removed)}
}

// check compares a reopened log with the history, and gives how many frames of it
// the log holds.
func (m *model) check(l *Log, at moment) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []int
	err := l.Replay(0, func(f *Frame, locs []Location) error {
		if f.Kind == KindCheckpoint {
			return nil
		}
		id := m.identify(f)
		if id < 0 || id >= at.appended {
			return fmt.Errorf("I2: a frame that nobody wrote: %v", f)
		}
		if err := m.same(m.frames[id].Frame, f); err != nil {
			return fmt.Errorf("I2: frame %d: %w", id, err)
		}
		for i, loc := range locs {
			buf := make([]byte, loc.Len)
			if err := l.ReadAt(loc, buf); err != nil || !bytes.Equal(buf, f.Entries[i].GetData()) {
				return fmt.Errorf("frame %d, entry %d: location %v does not lead to it: %v", id, i, loc, err)
			}
		}
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return m.order(l, at, ids)
}

// order checks that the log holds a beginning of the history, without the removed
// files, and that its state is what that beginning leads to.
func (m *model) order(l *Log, at moment, ids []int) (int, error) {
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		return 0, fmt.Errorf("frames out of order: %v", ids)
	}
	has := map[int]bool{}
	last := -1
	for _, id := range ids {
		has[id], last = true, id
	}
	for id, f := range m.frames[:max(at.promise, last)] {
		if !has[id] && f.file != 0 && !at.removed[f.file] {
			return 0, fmt.Errorf("I1: frame %d of file %d is lost; %d were promised, the last is %d", id, f.file, at.promise, last)
		}
	}
	got := l.Shards()
	for n := max(at.promise, last+1); n <= at.appended; n++ {
		if m.stateIs(n, got) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("I1: shard states %+v belong to no end from %d to %d", got, max(at.promise, last+1), at.appended)
}

// stateIs tells if the first n frames lead to these states.
func (m *model) stateIs(n int, got []ShardState) bool {
	if n == 0 {
		return len(got) == 0
	}
	want := m.frames[n-1].after
	return len(got) == len(want) && !slices.ContainsFunc(got, func(s ShardState) bool {
		w := want[s.Shard]
		return fmt.Sprintf("%v", s) != fmt.Sprintf("%v", w)
	})
}

// identify tells which frame of the history f is, -1 if none.
func (m *model) identify(f *Frame) int {
	if len(f.Entries) == 0 {
		return int(f.HardState.GetCommit())
	}
	if data := f.Entries[0].GetData(); len(data) >= 8 {
		return int(binary.LittleEndian.Uint32(data))
	}
	return -1
}

func (m *model) same(want, got *Frame) error {
	hs := func(f *Frame) string {
		return fmt.Sprint(f.Kind, f.Shard, f.HardState != nil, f.HardState.GetTerm(), f.HardState.GetVote(), f.HardState.GetCommit(), string(f.Conf), len(f.Entries))
	}
	if hs(want) != hs(got) {
		return fmt.Errorf("read %s, wrote %s", hs(got), hs(want))
	}
	for i, w := range want.Entries {
		g := got.Entries[i]
		if w.GetIndex() != g.GetIndex() || w.GetTerm() != g.GetTerm() || w.GetType() != g.GetType() || !bytes.Equal(w.GetData(), g.GetData()) {
			return fmt.Errorf("entry %d: read %d.%d with %d bytes, wrote %d.%d with %d", i,
				g.GetIndex(), g.GetTerm(), len(g.GetData()), w.GetIndex(), w.GetTerm(), len(w.GetData()))
		}
	}
	return nil
}

// forget cuts the history to the n frames that a reopened log holds: it goes on from
// there.
func (m *model) forget(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames = m.frames[:n:n]
	m.promise = min(m.promise, n)
	m.shards = map[rhumb.ShardID]ShardState{}
	if n > 0 {
		m.shards = maps.Clone(m.frames[n-1].after)
	}
}

// fork gives a copy that goes on alone.
func (m *model) fork(seed uint64) *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newModel(seed, m.maxData)
	c.frames, c.shards, c.promise = slices.Clone(m.frames), maps.Clone(m.shards), m.promise
	c.removed = maps.Clone(m.removed)
	return c
}
