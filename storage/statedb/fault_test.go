package statedb

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestFailedManifestEndsTheDatabase lets the n-th change of the manifest or its marker,
// and all after it, fail while tables are flushed and compacted. Pebble would end
// the process; here the database ends, all calls return, and what was flushed before is
// there when it is opened again.
func TestFailedManifestEndsTheDatabase(t *testing.T) {
	failed, step := int64(0), int64(1)
	if testing.Short() {
		step = 9
	}
	for n := int64(1); n < 120; n += step {
		bubble.Test(t, func(t *testing.T) {
			if failManifest(t, n) {
				failed++
			}
		})
	}
	if failed < 50/step {
		t.Errorf("only %d changes of the manifest", failed)
	}
}

func failManifest(t *testing.T, n int64) (failed bool) {
	fs := vfs.NewMem(vfs.MemConfig{})
	var changes atomic.Int64
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind.Changes() && untold(op.Name) && op.Kind != vfs.OpRemove && changes.Add(1) >= n {
			return syscall.EIO
		}
		return nil
	})
	if err := fs.MkdirAll("state"); err != nil {
		t.Fatal(err)
	}
	db, err := Open(Config{FS: fs, Dir: "state", MemTableSize: 64 << 10, FlushLog: noLog})
	flushed := uint64(0)
	for i := uint64(1); i < 2000 && err == nil; i++ {
		b := db.NewBatch()
		b.SetApplied(1, Applied{Index: i, Term: 1})
		b.SetTable(1, []byte{byte(i * 37)}, make([]byte, 500))
		if err = b.Commit(); err == nil && i%50 == 0 {
			if err = db.Flush(context.Background()); err == nil {
				flushed = i
			}
		}
	}
	if failed = err != nil; failed && !errors.Is(err, syscall.EIO) {
		t.Fatalf("change %d: %v", n, err)
	}
	if db != nil {
		err := db.Close()
		if failed && !errors.Is(err, syscall.EIO) {
			t.Fatalf("change %d: close: %v", n, err)
		}
		failed = err != nil // maybe in a compaction that nobody waited for
	}
	if db, err = Open(Config{FS: fs.CrashClone(vfs.CrashOptions{Seed: uint64(n)}), Dir: "state", FlushLog: noLog}); err != nil {
		t.Fatalf("change %d: reopen: %v", n, err)
	}
	defer db.Close()
	if a, err := db.Applied(1); err != nil || a.Index < flushed {
		t.Fatalf("change %d: the database is at %d, %d was flushed; %v", n, a.Index, flushed, err)
	}
	return failed
}

// TestI1CrashLeavesAMarker cuts the power at each operation while tables are flushed, and the
// database is opened and closed again and again, with a folder that keeps no order between
// names: what was flushed is there.
func TestI1CrashLeavesAMarker(t *testing.T) {
	type moment struct {
		disk    *vfs.Mem
		flushed uint64
	}
	var moments []moment
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		flushed := uint64(0)
		fs := vfs.NewMem(vfs.MemConfig{})
		if err := fs.MkdirAll("state"); err != nil {
			t.Fatal(err)
		}
		fs.SetHook(func(op vfs.Op) error {
			if op.Kind.Changes() && strings.Contains(op.Name, "state") {
				mu.Lock()
				defer mu.Unlock()
				for range 4 {
					moments = append(moments, moment{fs.CrashClone(vfs.CrashOptions{Seed: uint64(len(moments))}), flushed})
				}
			}
			return nil
		})
		for i := uint64(1); i <= 8; i++ {
			db, err := Open(Config{FS: fs, Dir: "state", FlushLog: noLog})
			if err != nil {
				t.Fatal(err)
			}
			b := db.NewBatch()
			b.SetApplied(1, Applied{Index: i, Term: 1})
			if err := errors.Join(b.Commit(), db.Flush(context.Background())); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			flushed = i
			mu.Unlock()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
	for i, m := range moments {
		bubble.Test(t, func(t *testing.T) {
			db, err := Open(Config{FS: m.disk, Dir: "state", FlushLog: noLog})
			if err != nil {
				t.Fatalf("moment %d: %v", i, err)
			}
			defer db.Close()
			if a, err := db.Applied(1); err != nil || a.Index < m.flushed {
				t.Fatalf("moment %d: the database is at %d, %d was flushed; %v", i, a.Index, m.flushed, err)
			}
		})
	}
}
