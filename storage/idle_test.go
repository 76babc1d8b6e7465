package storage

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI10IdleStoreOnlyLooksAtItsDisk counts what a store with nothing to do asks of
// the file system in a minute, after some work: the free space, once a second.
func TestI10IdleStoreOnlyLooksAtItsDisk(t *testing.T) {
	for _, durability := range []Durability{DurabilityFsync, DurabilityInterval, DurabilityNone} {
		bubble.Test(t, func(t *testing.T) {
			fs := vfs.NewMem(vfs.MemConfig{})
			cfg := testConfig(fs)
			cfg.Durability = durability
			n := start(t, cfg)
			defer n.close()
			d := newDriver(t, n.store.Shard(1))
			for range 300 {
				d.produce(400, 1)
			}
			<-time.After(time.Minute) // what is left to do is done
			var mu sync.Mutex
			ops := map[vfs.OpKind]int{}
			fs.SetHook(func(op vfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				ops[op.Kind]++
				return nil
			})
			<-time.After(time.Minute)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(ops) != 1 || ops[vfs.OpUsage] < 59 || ops[vfs.OpUsage] > 61 {
				t.Errorf("%v: operations in an idle minute: %v", durability, ops)
			}
		})
	}
}

// TestI10IdleStoreMakesNoGarbage measures the one thing that an idle store does. The
// system call's copy of the path is all that it allocates.
func TestI10IdleStoreMakesNoGarbage(t *testing.T) {
	dir := t.TempDir()
	s := &Store{cfg: Config{FS: vfs.OS(), Dir: dir}}
	s.space.fs, s.space.dir, s.space.min, s.space.reserve = s.cfg.FS, dir, -1, -1
	var n float64
	for range 10 { // what an earlier test has left running may allocate, but not for long
		if n = testing.AllocsPerRun(100, s.checkSpace); n <= 1 {
			return
		}
	}
	t.Errorf("%v allocations", n)
}
