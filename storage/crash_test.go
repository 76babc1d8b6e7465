package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// The crash test plays a random history on one store: two shards with one voter
// each, which save, apply, move log starts and drop partitions, while files roll,
// settle and are deleted. At an operation of the file system it takes what a power
// loss would leave there, reopens that, applies again what a restart applies, and
// compares with what was promised before the operation.

// checkRecovery reopens what a crash left and compares it with the promises. If
// second is not 0 there is another crash before the second-th operation after the
// first, if recovery and what follows it have so many.
func checkRecovery(t *testing.T, h *history, made promise, fs *vfs.Mem, how way, second int) {
	t.Helper()
	var mu sync.Mutex
	var again *vfs.Mem
	promised := copyPromise(made)
	fs.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if second--; second == 0 && op.Kind.Changes() {
			again = fs.CrashClone(vfs.CrashOptions{Seed: uint64(op.N), Unsynced: vfs.Unsynced(op.N % 3)})
			promised = copyPromise(made)
		} else if second == 0 {
			second = 1
		}
		return nil
	})
	s, err := Open(crashConfig(fs, how))
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	n := run(t, s)
	kill := sync.OnceFunc(n.kill)
	defer kill()
	for i := range h.entries {
		sh := s.Shard(rhumb.ShardID(i + 1))
		frames := checkLog(t, h, sh, made, i)
		checkShard(t, h.entries[i], sh, made, i)
		// What was found is safe from now on.
		mu.Lock()
		made.frames[i] = frames
		made.flushed[i], _ = sh.LastIndex()
		mu.Unlock()
	}
	synctest.Wait() // files settle and are deleted again
	for i := range h.entries {
		sh := s.Shard(rhumb.ShardID(i + 1))
		last, _ := sh.Applied()
		compareModel(t, sh, modelOf(h.entries[i], last))
	}
	kill()
	if again != nil {
		checkRecovery(t, h, promised, again, how.other(), 0)
	}
}

// checkLog compares the entries that Raft would find with those that there were
// after some frame, one that was promised or a later one, and gives how many frames
// those are.
func checkLog(t *testing.T, h *history, sh *Shard, made promise, i int) int {
	t.Helper()
	first, _ := sh.FirstIndex()
	last, _ := sh.LastIndex()
	var got []uint64
	for index := first; index <= last; index++ {
		term, err := sh.Term(index)
		if err != nil {
			t.Fatalf("shard %d: term of entry %d: %v", sh.id, index, err)
		}
		got = append(got, term)
	}
	base, err := sh.Term(first - 1)
	if err != nil {
		t.Fatal(err)
	}
	for k := len(h.frames[i]); k >= made.frames[i]; k-- {
		want := h.terms(i, k)
		if uint64(len(want)) == last && slices.Equal(got, want[first-1:]) && (first == 1 || want[first-2] == base) {
			return k
		}
	}
	t.Fatalf("I2: shard %d: entries from %d on (before it term %d) have terms %v, which was never so\nnow they have %v", sh.id, first, base, got,
		h.terms(i, len(h.frames[i])))
	return 0
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

// crashSeeds gives the histories that a test plays: n of them, one in short mode,
// or those from first on that RHUMB_SEEDS=count or RHUMB_SEEDS=count,first asks for.
func crashSeeds(t *testing.T, n uint64) (seeds []uint64) {
	t.Helper()
	first := uint64(0)
	if s := os.Getenv("RHUMB_SEEDS"); s != "" {
		count, from, _ := strings.Cut(s, ",")
		var err1, err2 error
		n, err1 = strconv.ParseUint(count, 10, 64)
		if from != "" {
			first, err2 = strconv.ParseUint(from, 10, 64)
		}
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() {
		n = 1
	}
	for i := range n {
		seeds = append(seeds, first+i)
	}
	return seeds
}

func TestI1I2I12CrashAtEveryOperation(t *testing.T) {
	for _, seed := range crashSeeds(t, 1) {
		for _, how := range ways {
			t.Run(fmt.Sprintf("seed %d %v", seed, how), func(t *testing.T) {
				crashEverywhere(t, seed, how)
			})
		}
	}
}

// crashStep is every how many operations there is a crash.
func crashStep(how way) int {
	switch {
	case os.Getenv("RHUMB_SEEDS") != "":
		return 1
	case testing.Short():
		return 10
	case how != ways[0]:
		return 4 // the default has to be exact, the others cost the same time
	}
	return 1
}

// crashEverywhere plays one history and recovers from a crash at each operation.
// The clones are taken while it runs and checked afterwards, each with the promises
// of its moment: entries that were cancelled later are compared with their own.
func crashEverywhere(t *testing.T, seed uint64, how way) {
	type moment struct {
		fs   *vfs.Mem
		made promise
		h    *history
		op   vfs.Op
	}
	var moments []moment
	bubble.Test(t, func(t *testing.T) {
		h := play(t, seed, how, func(h *history, fs *vfs.Mem, op vfs.Op) error {
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
	step := crashStep(how)
	for i := 0; i < len(moments); i += step {
		m, second := moments[i], 0
		if i%4 == 0 {
			second = 1 + i*7%60
		}
		ok := t.Run(fmt.Sprintf("op %d %s %s", i, m.op.Kind, m.op.Name), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { checkRecovery(t, m.h, m.made, m.fs, how, second) })
		})
		if !ok {
			return
		}
	}
}
