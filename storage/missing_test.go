package storage

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
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
			synctest.Test(t, func(t *testing.T) {
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

// TestI1ReadOfAHoleIsAnError takes batches out of a partition's index: a read there is
// an error, not an empty result.
func TestI1ReadOfAHoleIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
