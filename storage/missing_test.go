package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// settledDisk is a data directory with twelve log files, of which all but the newest
// have settled, closed cleanly.
func settledDisk(t *testing.T) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem(vfs.MemConfig{})
	n := start(t, testConfig(fs))
	d := newDriver(t, n.store.Shard(1))
	for range 600 {
		d.produce(400, 1, 2)
	}
	synctest.Wait()
	n.close()
	return fs
}

// TestI1MissingFilesAreRefused takes files away by hand: the store does not open, and
// says which are missing.
func TestI1MissingFilesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		remove []string
		say    []string
	}{
		{"settled log file", []string{"log/0000000000000003.log"}, []string{"log/0000000000000003.log"}},
		{"settled log file and its index", []string{"log/0000000000000003.log", "index/0000000000000003.idx"}, []string{"log/0000000000000003.log"}},
		{"index", []string{"index/0000000000000003.idx"}, []string{"index/0000000000000003.idx"}},
		{"newest index", []string{"index/000000000000000b.idx"}, []string{"index/000000000000000b.idx"}},
		{"two newest", []string{"log/000000000000000b.log", "log/000000000000000c.log"}, []string{"000000000000000b.log", "000000000000000c.log"}},
		{"newest", []string{"log/000000000000000c.log"}, []string{"log/000000000000000c.log"}},
		{"two newest and index", []string{"log/000000000000000b.log", "log/000000000000000c.log", "index/000000000000000b.idx"},
			[]string{"000000000000000b.log", "000000000000000c.log"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				fs := settledDisk(t)
				for _, name := range c.remove {
					if err := fs.Remove(filepath.Join("data", name)); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 { // and it does not change that
					s, err := Open(testConfig(fs))
					if err == nil {
						s.Kill()
					}
					if rhumb.KindOf(err) != rhumb.KindCorrupt {
						t.Fatalf("I1: open: %v", err)
					}
					for _, say := range c.say {
						if !strings.Contains(err.Error(), say) {
							t.Errorf("%q is not in: %v", say, err)
						}
					}
				}
			})
		})
	}
}

// TestI1FilesThatEndTooEarlyAreRefused cuts settled log files short by hand: what they
// lack is lost as with a file that is not there. A cut of padding alone is none.
func TestI1FilesThatEndTooEarlyAreRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		whole := settledDisk(t)
		const name = "data/log/0000000000000003.log"
		info, err := whole.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		l, _, err := commitlog.Open(commitlog.Config{FS: whole.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept}), Dir: "data/log"})
		if err != nil {
			t.Fatal(err)
		}
		end := l.Files()[2].Bytes // where the frames end, their padding counted
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for size, refused := range map[int64]bool{0: true, 10: true, end / 2: true, end - 8: true, end - 7: false, end: false, info.Size: false} {
			fs := whole.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept})
			f, err := fs.OpenReadWrite(name)
			if err == nil {
				err = errors.Join(f.Truncate(size), f.Sync(), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // and it does not change that
				s, err := Open(testConfig(fs))
				if err == nil {
					s.Kill()
				}
				want := fmt.Sprintf("missing the last %d bytes of %s", end-size, name)
				if !refused && err != nil || refused && (rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), want)) {
					t.Errorf("I1: %d bytes of %d: open: %v", size, end, err)
				}
			}
		}
	})
}

// TestI1NewestFileIsMissedAfterAKill takes away the file that was written to when the
// process died, of which the state database knows nothing.
func TestI1NewestFileIsMissedAfterAKill(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		n := start(t, testConfig(fs))
		d := newDriver(t, n.store.Shard(1))
		for range 7 {
			d.produce(100, 1) // in the first file of all
		}
		clone := fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept})
		n.kill()
		if err := clone.Remove("data/log/0000000000000001.log"); err != nil {
			t.Fatal(err)
		}
		s, err := Open(testConfig(clone))
		if err == nil {
			s.Kill()
		}
		if rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), "0000000000000001.log") {
			t.Errorf("I1: open: %v", err)
		}
	})
}

// TestI1ReadOfAHoleIsAnError takes batches out of a partition's index: a read there is
// an error, not an empty result.
func TestI1ReadOfAHoleIsAnError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, testConfig(settledDisk(t)))
		defer n.close()
		sh := n.store.Shard(1)
		full, _ := sh.view(1)
		parts := sh.parts[1].Parts()
		start, end := parts[0].Last+1, parts[1].Last+1
		holed := index.NewPartition(index.Key{Shard: 1, Partition: 1}, 0)
		for i, p := range parts {
			if i != 1 {
				holed.AddPart(p)
			}
		}
		sh.mu.Lock()
		sh.parts[1] = holed
		sh.mu.Unlock()
		if got, err := sh.Read(Query{Partition: 1, From: start - 1, Limit: full.End, MaxBytes: 1 << 20}); err != nil || got[len(got)-1].Last() != start-1 {
			t.Errorf("before the hole: %d batches, %v", len(got), err)
		}
		if got, err := sh.Read(Query{Partition: 1, From: start, Limit: full.End, MaxBytes: 1 << 20}); rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Errorf("I1: in the hole: %d batches, %v", len(got), err)
		}
		if _, err := sh.Read(Query{Partition: 1, From: end, Limit: full.End, MaxBytes: 100}); err != nil {
			t.Errorf("behind the hole: %v", err)
		}
	})
}

// TestI1RowsNeedTheirFile opens databases with rows of unsettled batches whose file or
// entry is not there, and one that is ahead of the log.
func TestI1RowsNeedTheirFile(t *testing.T) {
	ref := index.Ref{Span: 1, Size: 100, Source: &index.Source{Region: 1}, File: 99, Raft: 1}
	entry := ref
	entry.File, entry.Raft = 0, 700
	for _, c := range []struct {
		say  string
		fill func(b *statedb.Batch)
	}{
		{"log file 0000000000000063", func(b *statedb.Batch) { b.AddRef(1, 3, &ref) }},
		{"entry 700", func(b *statedb.Batch) { b.AddRef(1, 3, &entry) }},
		{"shard 1: the log ends at entry 600, the state database is at 700", func(b *statedb.Batch) {
			b.SetApplied(1, statedb.Applied{Index: 700, Term: 1, Conf: &raftpb.ConfState{}})
		}},
	} {
		bubble.Test(t, func(t *testing.T) {
			fs := settledDisk(t)
			n := start(t, testConfig(fs))
			b := n.store.db.NewBatch()
			b.SetPartition(1, 3, 0)
			c.fill(b)
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			n.close()
			_, err := Open(testConfig(fs))
			if rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), c.say) {
				t.Errorf("I1: open: %v, want %q", err, c.say)
			}
		})
	}
}

// TestStateDatabaseIsMadeAnewUntilAFileSettles: a state database that was lost is made anew
// in the first run's directory only. With a second start another log file begins, so that
// the first one settles, however small it is.
func TestStateDatabaseIsMadeAnewUntilAFileSettles(t *testing.T) {
	for starts := 1; starts <= 2; starts++ {
		bubble.Test(t, func(t *testing.T) {
			fs := vfs.NewMem(vfs.MemConfig{})
			for i := range starts {
				n := start(t, testConfig(fs))
				d := newDriver(t, n.store.Shard(1))
				d.produce(100, rhumb.PartitionID(i+1)) // Raft writes at each start
				synctest.Wait()
				n.close()
			}
			names, err := fs.List("data/state")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if err := fs.Remove(filepath.Join("data/state", name)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(testConfig(fs))
			if err == nil {
				s.Kill()
			}
			if starts == 1 && err != nil || starts == 2 && (err == nil || !strings.Contains(err.Error(), "files have settled up to entry")) {
				t.Errorf("after %d starts: %v", starts, err)
			}
		})
	}
}
