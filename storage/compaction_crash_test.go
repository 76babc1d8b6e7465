package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// keyedHistory is a history of one shard with two compacted partitions.
type keyedHistory struct {
	mu      sync.Mutex // the hook runs on the store's goroutines
	entries []*raftpb.Entry
	saved   int // entries that done was called for
	passes  uint64
}

// compactBoth lets both partitions be compacted as far as they are written; of the
// second one an edge still has to carry some.
func compactBoth(sh *Shard, limits map[rhumb.PartitionID]rhumb.Offset) {
	sh.SetCompaction(1, eager(limits[1]))
	held := eager(limits[2])
	held.Held = []Held{{index.Source{Region: 1, Life: ownLife}, limits[2] / 2, limits[2] / 2}}
	sh.SetCompaction(2, held)
}

// playKeyed runs the history of a seed and calls at before each operation that changes
// something.
func playKeyed(t *testing.T, seed uint64, how way, at func(h *keyedHistory, fs *vfs.Mem, op vfs.Op)) *keyedHistory {
	h := &keyedHistory{}
	fs := vfs.NewMem(vfs.MemConfig{})
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind.Changes() {
			at(h, fs, op)
		}
		return nil
	})
	cfg := crashConfig(fs, how)
	cfg.CompactRate = -1
	n := start(t, cfg)
	d := newDriver(t, n.store.Shard(1))
	w := newKeyWriter(seed, 25)
	for step := range 360 {
		e := w.entry()
		if step%50 == 49 { // retention moves the log start of the first
			e = &raftpb.Entry{Index: e.Index, Term: e.Term,
				Data: binary.BigEndian.AppendUint64([]byte{opStart, 1}, uint64(w.next[1]/3))}
			w.next = nextAfter(h.entries)
			w.forget(h.entries)
		}
		h.mu.Lock()
		h.entries = append(h.entries, e)
		h.mu.Unlock()
		d.save(e)
		h.mu.Lock()
		h.saved++
		h.mu.Unlock()
		if err := d.sh.Apply(decodeEntry(e)); err != nil {
			t.Fatal(err)
		}
		if step%20 == 19 {
			compactBoth(d.sh, w.next)
			<-time.After(time.Second)
		}
		synctest.Wait()
	}
	h.passes = n.store.CompactionStats().Passes
	n.kill()
	return h
}

// nextAfter gives the ends of the partitions after some entries.
func nextAfter(entries []*raftpb.Entry) map[rhumb.PartitionID]rhumb.Offset {
	next := map[rhumb.PartitionID]rhumb.Offset{}
	for _, e := range entries {
		for _, b := range decodeEntry(e).Batches {
			next[b.Partition] = b.Base + b.Envelope.Last - b.Envelope.First + 1
		}
	}
	return next
}

// forget makes the writer go on after these entries: it made one that is not used.
func (w *keyWriter) forget(entries []*raftpb.Entry) {
	for _, e := range entries {
		for _, b := range decodeEntry(e).Batches {
			env := &b.Envelope
			w.ends[b.Partition][env.Life], w.prev[b.Partition][env.Life], w.chain[b.Partition][env.Life] = env.Last+1, env.Last, env.Chain
		}
	}
}

// recoverKeyed reopens what a crash left, applies again what Raft would, and checks
// every partition: before, while, and after it is compacted on. If second is not 0
// there is another crash before the second-th operation.
func recoverKeyed(t *testing.T, entries []*raftpb.Entry, saved int, fs *vfs.Mem, how way, second int) {
	t.Helper()
	var mu sync.Mutex
	var again *vfs.Mem
	fs.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.Changes() {
			if second--; second == 0 {
				again = fs.CrashClone(vfs.CrashOptions{Seed: uint64(op.N), Unsynced: vfs.Unsynced(op.N % 3)})
			}
		}
		return nil
	})
	cfg := crashConfig(fs, how)
	cfg.CompactRate = -1
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	n := run(t, s)
	kill := sync.OnceFunc(n.kill)
	defer kill()
	sh := s.Shard(1)
	last, _ := sh.LastIndex()
	applied, _ := sh.Applied()
	if how.durability == DurabilityFsync && last < uint64(saved) {
		t.Fatalf("I1: entry %d was promised, the log ends at %d", saved, last)
	}
	if applied > last {
		t.Fatalf("I12: applied is entry %d, the log ends at %d", applied, last)
	}
	for index := applied + 1; index <= last; index++ {
		list, err := sh.Entries(index, index+1, 1<<30)
		if err != nil || !bytes.Equal(list[0].GetData(), entries[index-1].GetData()) {
			t.Fatalf("I1, I2: entry %d is not the one that was saved: %v", index, err)
		}
		if err := sh.Apply(decodeEntry(list[0])); err != nil {
			t.Fatal(err)
		}
	}
	entries = entries[:last]
	written := writtenBy(t, entries)
	for p := range written {
		checkKeyed(t, sh, p, written[p])
	}
	compactBoth(sh, nextAfter(entries))
	<-time.After(time.Second)
	synctest.Wait() // files settle, are compacted and deleted again
	for p := range written {
		checkKeyed(t, sh, p, written[p])
	}
	kill()
	if again != nil {
		mu.Lock()
		defer mu.Unlock()
		recoverKeyed(t, entries, len(entries), again, how.other(), 0)
	}
}

// TestI1I2I12CrashAtEveryOperationOfACompaction cuts the power at each operation of a
// history in which partitions are compacted again and again: each key's newest value is
// there, and what a tombstone deleted never comes back.
func TestI1I2I12CrashAtEveryOperationOfACompaction(t *testing.T) {
	for _, seed := range crashSeeds(t, 1) {
		for _, how := range ways {
			t.Run(fmt.Sprintf("seed %d %v", seed, how), func(t *testing.T) { crashCompaction(t, seed, how) })
		}
	}
}

func crashCompaction(t *testing.T, seed uint64, how way) {
	type moment struct {
		fs    *vfs.Mem
		saved int
		op    vfs.Op
	}
	var moments []moment
	var h *keyedHistory
	segments := 0
	bubble.Test(t, func(t *testing.T) {
		h = playKeyed(t, seed, how, func(h *keyedHistory, fs *vfs.Mem, op vfs.Op) {
			h.mu.Lock()
			defer h.mu.Unlock()
			n := len(moments)
			if op.Kind == vfs.OpRename && strings.Contains(op.Name, segmentDir) {
				segments++
			}
			clone := fs.CrashClone(vfs.CrashOptions{Seed: seed<<32 | uint64(n), Unsynced: vfs.Unsynced(n % 3)})
			moments = append(moments, moment{clone, h.saved, op})
		})
	})
	t.Logf("%d operations, %d passes, %d segments", len(moments), h.passes, segments)
	if segments < 4 || h.passes < 6 {
		t.Errorf("the history does too little")
	}
	step := crashStep(how)
	if step > 1 || os.Getenv("RHUMB_SEEDS") == "" {
		step *= 2 // the log and its files have their own test with each operation
	}
	for i := 0; i < len(moments); i += step {
		m, second := moments[i], 0
		if i%4 == 0 {
			second = 1 + i*7%60
		}
		ok := t.Run(fmt.Sprintf("op %d %s %s", i, m.op.Kind, m.op.Name), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { recoverKeyed(t, h.entries, m.saved, m.fs, how, second) })
		})
		if !ok {
			return
		}
	}
}

// TestCompactionGivesWayToASnapshot: what a late follower holds of a compacted
// partition goes when a snapshot comes, or a tombstone that the sender has not any more
// would leave its values behind.
func TestCompactionGivesWayToASnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		from := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
		defer from.close()
		fs := vfs.NewMem(vfs.MemConfig{})
		to := start(t, testConfig(fs))
		a, b := newDriver(t, from.store.Shard(1)), newDriver(t, to.store.Shard(1))
		w := newKeyWriter(5, 25)
		var entries []*raftpb.Entry
		for i := range 400 {
			e := w.entry()
			entries = append(entries, e)
			for _, d := range []*driver{a, b}[:2-min(1, i/150)] {
				d.save(e)
				if err := d.sh.Apply(decodeEntry(e)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 3 { // so that tombstones go
			compactBoth(a.sh, w.next)
			<-time.After(time.Minute)
		}
		compactBoth(b.sh, nextAfter(entries[:150]))
		<-time.After(time.Minute)
		synctest.Wait()
		written := writtenBy(t, entries)
		install(t, a.sh, b.sh)
		for p := range written {
			checkKeyed(t, a.sh, p, written[p])
			checkKeyed(t, b.sh, p, written[p])
		}
		to.close()
		to = start(t, testConfig(fs))
		defer to.close()
		for p := range written {
			checkKeyed(t, to.store.Shard(1), p, written[p])
		}
		compactBoth(to.store.Shard(1), w.next)
		<-time.After(time.Minute)
		synctest.Wait()
		for p := range written {
			checkKeyed(t, to.store.Shard(1), p, written[p])
		}
	})
}

// install brings a late shard to where the other one is.
func install(t *testing.T, from, to *Shard) {
	t.Helper()
	after, _ := to.Applied()
	r, err := from.OpenSnapshot(after)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in, err := to.BeginInstall(r.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	for {
		piece, err := r.Next()
		if piece == nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Add(piece, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	in.Commit(nil, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := in.Finish(); err != nil {
		t.Fatal(err)
	}
}
