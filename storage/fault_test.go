package storage

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI1FailedOperations lets each changing operation of a history fail in turn,
// for good: the store ends or tries again, never hangs, and what it had promised
// is there when it is opened on a disk that works.
func TestI1FailedOperations(t *testing.T) {
	step := 61
	if testing.Short() {
		step = 173
	}
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC, &vfs.ShortWrite{N: 100, Err: syscall.ENOSPC}} {
		for n := 3; n < 700; n += step {
			how := way{DurabilityFsync, n%2 == 0}
			ok := t.Run(fmt.Sprintf("%v from operation %d", fault, n), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					var mu sync.Mutex // Pebble and the settler work side by side
					var after *vfs.Mem
					ops := 0
					h := play(t, 3, how, func(_ *history, fs *vfs.Mem, op vfs.Op) error {
						mu.Lock()
						defer mu.Unlock()
						after = fs
						if ops++; ops >= n {
							return fault
						}
						return nil
					})
					fs := after.CrashClone(vfs.CrashOptions{Seed: uint64(n)})
					if _, err := fs.Stat("data/FORMAT"); err != nil {
						return // nothing was promised yet
					}
					checkRecovery(t, h, h.made, fs, how, 0)
				})
			})
			if !ok {
				return
			}
		}
	}
}

func TestFailedFlushEndsTheStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		cfg := testConfig(fs)
		var told error
		cfg.Events.Failed = func(err error) { told = err }
		n := start(t, cfg)
		d := newDriver(t, n.store.Shard(1))
		d.produce(100, 1)
		fs.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpSync {
				return syscall.EIO
			}
			return nil
		})
		done := make(chan error, 1)
		d.sh.Save(nil, []*raftpb.Entry{{Index: new(uint64(2)), Term: new(uint64(1))}}, true, func(err error) { done <- err })
		if err := <-done; !errors.Is(err, syscall.EIO) {
			t.Errorf("save: %v", err)
		}
		if err := <-n.done; !errors.Is(err, syscall.EIO) {
			t.Errorf("run: %v", err)
		}
		h := n.store.Health()
		if h.State != StateFailed || !errors.Is(h.Err, syscall.EIO) || !errors.Is(told, syscall.EIO) {
			t.Errorf("health %+v, told %v", h, told)
		}
		if err := n.store.Writable(); rhumb.KindOf(err) != rhumb.KindUnavailable {
			t.Errorf("writable: %v", err)
		}
		if got, err := d.sh.Read(Query{Partition: 1, Limit: 9, MaxBytes: 1}); err != nil || len(got) != 1 {
			t.Errorf("reads do not go on: %v", err)
		}
		if err := n.store.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("close: %v", err)
		}
		n.stop()
	})
}

func TestLowSpaceRefusesWritersAndOpensAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		var free atomic.Uint64
		free.Store(10 << 20)
		fs.SetUsage(func() (vfs.Usage, error) { return vfs.Usage{Total: 100 << 20, Free: free.Load()}, nil })
		cfg := testConfig(fs)
		cfg.MinFree, cfg.Reserve = 8<<20, 1<<20
		var events []bool
		cfg.Events.LowSpace = func(low bool, _, _ uint64) { events = append(events, low) }
		n := start(t, cfg)
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		reserved := func() bool { _, err := fs.Stat("data/RESERVE"); return err == nil }
		for i, c := range []struct {
			free     uint64
			low      bool
			reserved bool
		}{
			{10 << 20, false, true},
			{8<<20 - 1, true, true},
			{1 << 18, true, false},    // nearly full: the reserve is given back
			{8<<20 + 10, true, false}, // above the limit, but not by an eighth
			{9<<20 + 10, false, true},
		} {
			free.Store(c.free)
			<-time.After(2 * time.Second)
			synctest.Wait()
			if low := n.store.Health().State == StateLowSpace; low != c.low || reserved() != c.reserved {
				t.Errorf("step %d: low %v, reserve %v, want %+v", i, low, reserved(), c)
			}
			if err := n.store.Writable(); c.low != (rhumb.KindOf(err) == rhumb.KindNoSpace && err != nil) {
				t.Errorf("step %d: writable: %v", i, err)
			}
			d.produce(100, 1) // what Raft needs, reads and deletion go on
			d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: d.next[1] - 1}}})
			readAll(t, d.sh, 1, d.next[1]-1, d.next[1], 100)
		}
		if len(events) != 2 || !events[0] || events[1] {
			t.Errorf("events %v", events)
		}
	})
}

func TestDefaultMinFree(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	for _, c := range []struct{ total, want uint64 }{{10 << 30, 1 << 30}, {100 << 30, 5 << 30}} {
		fs.SetUsage(func() (vfs.Usage, error) { return vfs.Usage{Total: c.total, Free: c.total}, nil })
		s := space{fs: fs, reserve: -1}
		if _, err := s.check(); err != nil || s.health().MinFree != c.want {
			t.Errorf("disk of %d: %d, %v, want %d", c.total, s.health().MinFree, err, c.want)
		}
	}
}
