package storage

import (
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func TestRestartReadsOnlyTheTail(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		n := start(t, testConfig(fs))
		d := newDriver(t, n.store.Shard(1))
		for range 1000 {
			d.produce(300, 7, 9)
		}
		synctest.Wait()
		if len(n.store.files.settled) < 3 {
			t.Fatalf("%d files settled, want more", len(n.store.files.settled))
		}
		check := func(s *Store) {
			t.Helper()
			for _, p := range []rhumb.PartitionID{7, 9} {
				for _, step := range []int{1, 5000, 1 << 20} {
					readAll(t, s.Shard(1), p, 0, d.next[p], step)
				}
			}
		}
		check(n.store)
		n.close()

		n = start(t, testConfig(fs))
		sh := n.store.Shard(1)
		if applied, _ := sh.Applied(); applied != d.index {
			t.Errorf("applied %d after a clean stop, want %d", applied, d.index)
		}
		if first, _ := sh.FirstIndex(); first < 700 {
			t.Errorf("first index %d: files that have settled were replayed", first)
		}
		check(n.store)
		n.close()
	})
}
