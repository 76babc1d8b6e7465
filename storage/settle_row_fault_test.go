package storage

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI1I11RowThatSettlesInPart has the disk refuse one index of several that settle
// together: those before it have settled, or the store ends where nobody can know. Then
// a snapshot of a compacted partition is installed, and the power is cut while the rest
// settles. What opens after it has what the snapshot has, and opens.
func TestI1I11RowThatSettlesInPart(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpRename, vfs.OpSyncDir} {
		for _, nth := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s %d", kind, nth), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { settleInPart(t, kind, nth) })
			})
		}
	}
}

// rowFault refuses the nth operation of a kind on an index, once, and copies the disk at
// the first rename of an index after watch.
type rowFault struct {
	mu    sync.Mutex
	seen  int
	watch bool
	disk  *vfs.Mem
}

func (f *rowFault) hook(fs *vfs.Mem, kind vfs.OpKind, nth int) func(vfs.Op) error {
	return func(op vfs.Op) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		ofIndex := strings.Contains(op.Name, indexSuffix) || op.Kind == vfs.OpSyncDir && strings.HasSuffix(op.Name, indexDir)
		switch {
		case !ofIndex:
		case f.watch && op.Kind == vfs.OpRename && f.disk == nil:
			f.disk = fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
		case !f.watch && op.Kind == kind:
			if f.seen++; f.seen == nth {
				return syscall.EIO
			}
		}
		return nil
	}
}

func settleInPart(t *testing.T, kind vfs.OpKind, nth int) {
	from := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
	defer from.close()
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := testConfig(fs)
	cfg.CopyForwardFiles = 100
	to := start(t, cfg)
	a, b := newDriver(t, from.store.Shard(1)), newDriver(t, to.store.Shard(1))
	to.store.installs.Add(1) // nothing settles
	entries := keyedInFiles(t, a, b, newDriver(t, to.store.Shard(2)))
	var fault rowFault
	fs.SetHook(fault.hook(fs, kind, nth))
	to.store.installs.Add(-1)
	to.store.wake()
	synctest.Wait()
	if fault.seen < nth {
		t.Fatalf("%d operations, the fault was to be at the %dth", fault.seen, nth)
	}
	fault.mu.Lock()
	fault.watch = true
	fault.mu.Unlock()
	written := writtenBy(t, entries)
	if kind == vfs.OpSyncDir {
		if to.store.Health().State != StateFailed {
			t.Error("the store goes on with an index of which nobody knows whether it is there")
		}
		to.kill()
		fault.disk = fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
	} else {
		install(t, a.sh, b.sh)
		<-time.After(2 * settleRetry)
		synctest.Wait()
		to.close()
	}
	if fault.disk == nil {
		t.Fatal("the rest never settled")
	}
	cfg.FS = fault.disk
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	n := run(t, s)
	defer n.close()
	if kind == vfs.OpSyncDir {
		return // it has what it had before, which other tests look at
	}
	for p := range written {
		checkKeyed(t, n.store.Shard(1), p, written[p])
	}
}

// keyedInFiles saves keyed records in two stores, compacted in the first, over several log
// files of the second, which has an older part of them.
func keyedInFiles(t *testing.T, a, b, roll *driver) (entries []*raftpb.Entry) {
	w := newKeyWriter(5, 25)
	for i := range 400 {
		if i < 150 && i%25 == 24 {
			for range 11 {
				roll.produce(6000, 9)
			}
		}
		e := w.entry()
		entries = append(entries, e)
		for _, d := range []*driver{a, b}[:2-min(1, i/150)] {
			d.save(e)
			if err := d.sh.Apply(decodeEntry(e)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		compactBoth(a.sh, w.next)
		<-time.After(time.Minute)
	}
	return entries
}
