package storage

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// sharedHistory is a history of one shard in which one partition is written fast and
// kept for a short time, and others share its log files, a batch each now and then, that
// are kept for long.
type sharedHistory struct {
	mu      sync.Mutex // the hook runs on the store's goroutines
	entries map[uint64]*raftpb.Entry
	saved   uint64 // entries that done was called for
	next    map[rhumb.PartitionID]rhumb.Offset
}

func newSharedHistory() *sharedHistory {
	return &sharedHistory{entries: map[uint64]*raftpb.Entry{}, next: map[rhumb.PartitionID]rhumb.Offset{}}
}

// step saves and applies the next entry: every 60th moves a log start, mostly of the
// fast partition.
func (h *sharedHistory) step(d *driver) {
	d.index++
	n := d.index
	data := []byte{opBatches, 0}
	add := func(p rhumb.PartitionID, size int) {
		_, b := makeBatch(p, h.next[p], 1+int(n)%3, size, n)
		data = append(data, b...)
		h.next[p] += 1 + rhumb.Offset(n)%3
	}
	slow := rhumb.PartitionID(2 + n/10%9)
	switch {
	case n%60 != 0:
		add(1, 700)
		if n%10 == 0 {
			add(slow, 150)
		}
	case n%240 == 0:
		data = binary.BigEndian.AppendUint64([]byte{opStart, byte(slow)}, uint64(h.next[slow]/2))
	default:
		data = binary.BigEndian.AppendUint64([]byte{opStart, 1}, uint64(h.next[1]-3))
	}
	e := &raftpb.Entry{Index: new(n), Term: new(d.term), Data: data}
	h.mu.Lock()
	h.entries[n] = e
	h.mu.Unlock()
	d.save(e)
	h.mu.Lock()
	h.saved = n
	h.mu.Unlock()
	if err := d.sh.Apply(decodeEntry(e)); err != nil {
		d.t.Fatal(err)
	}
}

func sharedConfig(fs vfs.FS, how way) Config {
	cfg := crashConfig(fs, how)
	cfg.CompactRate = -1
	return cfg
}

// TestRewriteReclaimsSharedFiles: a few batches that are kept for long do not keep the
// log files that they share with others; they are copied once, as they are, and are
// where they were for every reader, before and after a restart.
func TestRewriteReclaimsSharedFiles(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, cfg := newSharedHistory(), sharedConfig(vfs.NewMem(vfs.MemConfig{}), ways[0])
		n := start(t, cfg)
		d := newDriver(t, n.store.Shard(1))
		for range 3 {
			for range 597 {
				h.step(d)
			}
			synctest.Wait()
			compareModel(t, d.sh, modelOf(h.entries, d.index))
			<-time.After(rewriteAfter / 2)
		}
		before := logBytes(n.store)
		<-time.After(2 * rewriteAfter)
		synctest.Wait()
		compareModel(t, d.sh, modelOf(h.entries, d.index))
		st, after := n.store.ReclaimStats(), logBytes(n.store)
		t.Logf("%d files with %d bytes of batches were rewritten; the log had %d bytes and has %d", st.Files, st.Written, before, after)
		if st.Files < 8 || after > before/3 {
			t.Errorf("too much is left")
		}
		if uint64(before-after) < (rewriteShare-1)*st.Written {
			t.Errorf("%d bytes were written to free %d", st.Written, before-after)
		}
		if st.Log < uint64(before) || st.Written > st.Log/3 {
			t.Errorf("%d bytes were written again of %d", st.Written, st.Log)
		}
		for p := range h.next {
			if c := d.sh.Compacted(p); c != 0 {
				t.Errorf("partition %d is said to have holes below %d", p, c)
			}
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if again := n.store.ReclaimStats(); again.Files != st.Files || again.Written != st.Written {
			t.Errorf("it goes on without a reason: %+v, then %+v", st, again)
		}
		n.close()
		n = start(t, cfg)
		d.sh = n.store.Shard(1)
		compareModel(t, d.sh, modelOf(h.entries, d.index))
		for p := range h.next {
			if c := d.sh.Compacted(p); c != 0 {
				t.Errorf("after a restart partition %d is said to have holes below %d", p, c)
			}
		}
		n.close()
	})
}

// logBytes is what all log files hold.
func logBytes(s *Store) (n int64) {
	for _, f := range s.log.Files() {
		n += f.Bytes
	}
	return n
}

// TestRewriteLeavesWhatGoesByItself: where everything goes within a moment, nothing is
// copied.
func TestRewriteLeavesWhatGoesByItself(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, sharedConfig(vfs.NewMem(vfs.MemConfig{}), ways[0]))
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		for range 400 {
			d.produce(700, 1, 2)
		}
		synctest.Wait()
		for p := range rhumb.PartitionID(2) {
			d.update(&Update{LogStarts: []LogStart{{Partition: p + 1, Start: d.next[p+1]}}})
			<-time.After(rewriteAfter / 2)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if st := n.store.ReclaimStats(); st.Files != 0 || st.Written != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestI1I2I12CrashAtEveryOperationOfARewrite cuts the power at each operation of a
// history in which what is left of shared files is rewritten again and again: every
// batch above its log start is there, once, as it was.
func TestI1I2I12CrashAtEveryOperationOfARewrite(t *testing.T) {
	for _, seed := range crashSeeds(t, 1) {
		for _, how := range ways {
			t.Run(fmt.Sprintf("seed %d %v", seed, how), func(t *testing.T) { crashRewrite(t, seed, how) })
		}
	}
}

func crashRewrite(t *testing.T, seed uint64, how way) {
	type moment struct {
		fs    *vfs.Mem
		saved uint64
		op    vfs.Op
	}
	var moments []moment
	h, segments, files := newSharedHistory(), 0, uint64(0)
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		fs.SetHook(func(op vfs.Op) error {
			if !op.Kind.Changes() {
				return nil
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if op.Kind == vfs.OpRename && strings.Contains(op.Name, segmentDir) {
				segments++
			}
			n := len(moments)
			clone := fs.CrashClone(vfs.CrashOptions{Seed: seed<<32 | uint64(n), Unsynced: vfs.Unsynced(n % 3)})
			moments = append(moments, moment{clone, h.saved, op})
			return nil
		})
		n := start(t, sharedConfig(fs, how))
		d := newDriver(t, n.store.Shard(1))
		for i := range 720 {
			h.step(d)
			if i%20 == 19 {
				<-time.After(rewriteAfter / 2)
			}
			synctest.Wait()
		}
		<-time.After(2 * rewriteAfter)
		synctest.Wait()
		files = n.store.ReclaimStats().Files
		n.kill()
	})
	t.Logf("%d operations, %d files rewritten into %d segments", len(moments), files, segments)
	if segments < 3 || files < 5 {
		t.Errorf("the history does too little")
	}
	step := 2 * crashStep(how) // the log has its own test with each operation
	for i := int(seed) % step; i < len(moments); i += step {
		m, second := moments[i], 0
		if i%3 == 0 {
			second = 1 + i*7%60
		}
		ok := t.Run(fmt.Sprintf("op %d %s %s", i, m.op.Kind, m.op.Name), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { recoverShared(t, h.entries, m.saved, m.fs, how, second) })
		})
		if !ok {
			return
		}
	}
}

// recoverShared reopens what a crash left, applies again what Raft would, and compares
// every partition with the model: before files are rewritten again, and after. If second
// is not 0 there is another crash before the second-th operation.
func recoverShared(t *testing.T, entries map[uint64]*raftpb.Entry, saved uint64, fs *vfs.Mem, how way, second int) {
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
	s, err := Open(sharedConfig(fs, how))
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	n := run(t, s)
	kill := sync.OnceFunc(n.kill)
	defer kill()
	sh := s.Shard(1)
	last, _ := sh.LastIndex()
	applied, _ := sh.Applied()
	if how.durability == DurabilityFsync && last < saved {
		t.Fatalf("I1: entry %d was promised, the log ends at %d", saved, last)
	}
	if applied > last {
		t.Fatalf("I12: applied is entry %d, the log ends at %d", applied, last)
	}
	for index := applied + 1; index <= last; index++ {
		if err := sh.Apply(decodeEntry(entries[index])); err != nil {
			t.Fatal(err)
		}
	}
	m := modelOf(entries, last)
	compareModel(t, sh, m)
	<-time.After(2 * rewriteAfter)
	synctest.Wait() // files settle, are rewritten and deleted again
	compareModel(t, sh, m)
	kill()
	if again != nil {
		mu.Lock()
		defer mu.Unlock()
		recoverShared(t, entries, 0, again, how.other(), 0)
	}
}
