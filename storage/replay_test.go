package storage

import (
	"bytes"
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

// saveEntries saves entries from first on, of 25 KB each, so that a log file has
// two, in one frame.
func saveEntries(t *testing.T, sh *Shard, term, first uint64, count int) {
	t.Helper()
	var list []*raftpb.Entry
	for i := range count {
		list = append(list, plainEntry(first+uint64(i), term))
	}
	done := make(chan error, 1)
	sh.Save(&raftpb.HardState{Term: new(term), Vote: new(uint64(1)), Commit: new(uint64(2))}, list, true, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func plainEntry(index, term uint64) *raftpb.Entry {
	return &raftpb.Entry{Index: new(index), Term: new(term), Data: bytes.Repeat([]byte{byte(index), byte(term)}, 12500)}
}

// checkEntries compares the shard's entries from first on with the terms that
// they must have, up to the last.
func checkEntries(t *testing.T, sh *Shard, first uint64, terms ...uint64) {
	t.Helper()
	if last, _ := sh.LastIndex(); last != first+uint64(len(terms))-1 {
		t.Fatalf("I2: the log ends at entry %d, want %d", last, first+uint64(len(terms))-1)
	}
	list, err := sh.Entries(first, first+uint64(len(terms)), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		want := plainEntry(first+uint64(i), terms[i])
		if e.GetTerm() != terms[i] || !bytes.Equal(e.GetData(), want.GetData()) {
			t.Fatalf("I2: entry %d has term %d, want %d", e.GetIndex(), e.GetTerm(), terms[i])
		}
	}
}

// TestI2CancelReachesBelowTheFirstFile opens a log whose first unsettled file has
// only entries that a later one cancels, and with them entries of a file that has
// settled since: nothing cancelled may come back, and nothing is wrong with the log.
func TestI2CancelReachesBelowTheFirstFile(t *testing.T) {
	for cancels := 1; cancels <= 4; cancels++ {
		t.Run(fmt.Sprintf("%d entries at once", cancels), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { cancelBelow(t, cancels) })
		})
	}
}

func cancelBelow(t *testing.T, cancels int) {
	fs := vfs.NewMem(vfs.MemConfig{})
	var mu sync.Mutex
	var clone *vfs.Mem
	fs.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == vfs.OpRename && strings.HasPrefix(op.Name, "data/index/0000000000000003.idx") {
			clone = fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
		}
		return nil
	})
	n := start(t, testConfig(fs))
	sh := n.store.Shard(1)
	for index := uint64(1); index <= 6; index++ {
		saveEntries(t, sh, 1, index, 1) // two in each of the files 1, 2 and 3
		if index <= 2 {
			if err := sh.Apply(&Update{Index: index, Term: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A new leader: file 2 holds nothing that lives, and settles; file 3 just does not.
	saveEntries(t, sh, 2, 3, cancels)
	synctest.Wait()
	n.kill()
	if clone == nil {
		t.Fatal("file 3 did not settle")
	}
	s, err := Open(testConfig(clone))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.files.settledThrough(); got != 2 {
		t.Errorf("files to %d have settled, want 2", got)
	}
	n = run(t, s)
	defer n.close()
	checkEntries(t, n.store.Shard(1), 3, []uint64{2, 2, 2, 2}[:cancels]...)
}

// TestI1LostLogIsNoticed takes the log away from below the state database: votes and
// entries are gone, which must not look like a fresh start.
func TestI1LostLogIsNoticed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		n := start(t, testConfig(fs))
		newDriver(t, n.store.Shard(1)).produce(100, 1)
		n.close()
		if err := fs.Remove("data/log/0000000000000001.log"); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(testConfig(fs)); rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Fatalf("open: %v", err)
		}
	})
}

// TestI12SettlingFlushesWhatCancels lets a file settle that holds nothing but
// entries which were cancelled by others that are not flushed. A crash must not
// take back those alone: the cancelled ones would be gone and their place empty.
func TestI12SettlingFlushesWhatCancels(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		cfg := testConfig(fs)
		cfg.Durability = DurabilityNone
		cfg.FlushInterval = time.Hour
		n := start(t, cfg)
		sh := n.store.Shard(1)
		saveEntries(t, sh, 1, 1, 2)
		for index := uint64(1); index <= 2; index++ {
			if err := sh.Apply(&Update{Index: index, Term: 1}); err != nil {
				t.Fatal(err)
			}
		}
		saveEntries(t, sh, 1, 3, 2)
		saveEntries(t, sh, 1, 5, 2)
		saveEntries(t, sh, 1, 7, 1) // so the files before are closed, and flushed
		synctest.Wait()
		if err := n.store.db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		saveEntries(t, sh, 2, 3, 1)
		n.store.wake() // or it waits for the next file
		synctest.Wait()
		if got := n.store.files.settledThrough(); got != 3 {
			t.Fatalf("files to %d have settled, want 3", got)
		}
		fs = fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
		n.kill()
		n = start(t, testConfig(fs))
		defer n.close()
		checkEntries(t, n.store.Shard(1), 3, 2)
	})
}
