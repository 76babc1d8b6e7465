package statedb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func open(t *testing.T, fs vfs.FS, flushLog func() error) *DB {
	t.Helper()
	if err := fs.MkdirAll("state"); err != nil {
		t.Fatal(err)
	}
	db, err := Open(Config{FS: fs, Dir: "state", MemTableSize: 256 << 10, FlushLog: flushLog})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func noLog() error { return nil }

func commit(t *testing.T, db *DB, fill func(b *Batch)) {
	t.Helper()
	b := db.NewBatch()
	fill(b)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

func apply(t *testing.T, db *DB, shard rhumb.ShardID, i uint64) {
	t.Helper()
	commit(t, db, func(b *Batch) {
		b.SetApplied(shard, Applied{Index: i, Term: 2, Conf: &raftpb.ConfState{Voters: []uint64{1, 3}}})
		b.SetTable(shard, fmt.Appendf(nil, "k%d", i), make([]byte, 500))
	})
}

func TestRowsSurviveFlushAndOthersAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		db := open(t, fs, noLog)
		src := &index.Source{Region: 4, Life: rhumb.Life{7}}
		ref := index.Ref{Base: 10, Span: 2, Size: 99, First: 5, Source: src, MaxTime: -1, AppendTime: 6, Raft: 3, Pos: 8}
		commit(t, db, func(b *Batch) {
			b.SetPartition(1, 6, 4)
			b.AddRef(1, 6, &ref)
			old := ref
			old.Base = 3
			b.AddRef(1, 6, &old)
			b.DropRefs(1, 6, 10)
			b.SetPartition(1, 7, 0)
			b.AddRef(1, 7, &ref)
			b.DropPartition(1, 7)
			b.SetPartition(2, 1, 1) // another shard's
			b.AddRun(1, 1, 1)
			b.AddRun(1, 5, 2)
			b.DropRuns(1, 5)
			b.SetTable(1, []byte("gone"), nil)
			b.DeleteTable(1, []byte("gone"))
		})
		apply(t, db, 1, 9)
		if err := db.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		apply(t, db, 1, 10) // not flushed
		clone := fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
		db.Kill()
		db = open(t, clone, noLog)
		defer db.Close()
		a, err := db.Applied(1)
		if err != nil || a.Index != 9 || a.Term != 2 || len(a.Conf.GetVoters()) != 2 {
			t.Errorf("applied %+v, %v", a, err)
		}
		var parts []rhumb.PartitionID
		_ = db.Partitions(1, func(p rhumb.PartitionID, start rhumb.Offset) error {
			parts = append(parts, p)
			if start != 4 {
				t.Errorf("start %d", start)
			}
			return nil
		})
		refs := 0
		_ = db.Refs(1, func(p rhumb.PartitionID, r index.Ref) error {
			refs++
			if p != 6 || *r.Source != *src {
				t.Errorf("row of %d: %+v", p, r)
			}
			r.Source = src
			if r != ref {
				t.Errorf("row %+v, want %+v", r, ref)
			}
			return nil
		})
		runs, err := db.Runs(1)
		if len(parts) != 1 || refs != 1 || len(runs) != 1 || runs[0] != (Run{5, 2}) || err != nil {
			t.Errorf("parts %v, %d refs, runs %v, %v", parts, refs, runs, err)
		}
		if keys := pairs(db, 1); keys != 1 {
			t.Errorf("%d pairs", keys)
		}
		commit(t, db, func(b *Batch) { b.DropShard(1) })
		if a, _ := db.Applied(1); a.Index != 0 {
			t.Errorf("dropped shard is at %d", a.Index)
		}
	})
}

func pairs(db *DB, shard rhumb.ShardID) (n int) {
	_ = db.Tables(shard, func(_, _ []byte) error { n++; return nil })
	return n
}

// TestI12NeverAheadOfTheLog crashes at every operation: what the database holds
// was flushed to the log before.
func TestI12NeverAheadOfTheLog(t *testing.T) {
	type moment struct {
		fs     *vfs.Mem
		logged uint64
	}
	var moments []moment
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		var mu sync.Mutex // Pebble flushes, compacts and deletes side by side
		var applied, logged uint64
		db := open(t, fs, func() error {
			mu.Lock()
			defer mu.Unlock()
			logged = applied
			return nil
		})
		fs.SetHook(func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.Changes() {
				n := len(moments)
				moments = append(moments, moment{fs.CrashClone(vfs.CrashOptions{Seed: uint64(n), Unsynced: vfs.Unsynced(n % 3)}), logged})
			}
			return nil
		})
		for i := uint64(1); i < 1500; i++ {
			mu.Lock()
			applied = i
			mu.Unlock()
			apply(t, db, 1, i)
			if i%400 == 0 {
				if err := db.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		db.Kill()
	})
	if len(moments) < 50 {
		t.Fatalf("only %d operations", len(moments))
	}
	for i, m := range moments {
		bubble.Test(t, func(t *testing.T) {
			db := open(t, m.fs, noLog)
			defer db.Close()
			if a, err := db.Applied(1); err != nil || a.Index > m.logged {
				t.Errorf("operation %d: the database is at %d, the log at %d, %v", i, a.Index, m.logged, err)
			}
		})
	}
}

func TestFailureEndsTheDatabase(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		var logErr error
		db := open(t, fs, func() error { return logErr })
		apply(t, db, 1, 1)
		logErr = syscall.EIO
		if err := db.Flush(context.Background()); !errors.Is(err, syscall.EIO) {
			t.Errorf("flush: %v", err)
		}
		<-db.Failed()
		if err := db.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("close: %v", err)
		}
		if err := db.NewBatch().Commit(); !errors.Is(err, syscall.EIO) {
			t.Errorf("commit: %v", err)
		}
		if _, err := db.Applied(1); !errors.Is(err, syscall.EIO) {
			t.Errorf("read: %v", err)
		}
	})
}

func FuzzRows(f *testing.F) {
	a, err := appendApplied(nil, Applied{Index: 1, Term: 2, Conf: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a)
	f.Add(appendRef(nil, &index.Ref{Span: 1, Source: &index.Source{}}))
	f.Add(appendPartitionRow(nil, 7))
	f.Add(appendRunRow(nil, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = parseApplied(b)
		_, _ = parsePartitionRow(b)
		_, _ = parseRunRow(b)
		if r, err := parseRef(b, 1); err == nil && r.Span == 0 {
			t.Fatal("a ref without offsets")
		}
	})
}
