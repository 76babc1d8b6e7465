package storage

import (
	"bytes"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestNextReadIsPrepared: what follows on what a reader got by its place is read and
// checked before it is asked for, and nothing is held; at the end nothing is prepared.
func TestNextReadIsPrepared(t *testing.T) {
	for _, direct := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			fs := vfs.NewMem(vfs.MemConfig{})
			cfg := bigConfig(fs)
			cfg.Direct = direct
			n := start(t, cfg)
			defer n.close()
			d := newDriver(t, n.store.Shard(1))
			for range 40 {
				d.produce(100<<10, 1)
			}
			synctest.Wait()
			want := readAll(t, d.sh, 1, 0, d.next[1], 1<<20)
			var read atomic.Int64
			fs.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpRead {
					read.Add(op.Len)
				}
				return nil
			})
			q := Query{Partition: 1, Limit: d.next[1], MaxBytes: 250 << 10, ByPlace: true}
			for i := 0; i < len(want); {
				before := read.Load()
				w := &n.store.preparer
				w.running = maxPreparing // none that works while the reader does
				got, err := d.sh.Read(q)
				if err != nil || len(got) == 0 {
					t.Fatalf("%d batches, %v", len(got), err)
				}
				took := read.Load() - before
				w.running = 1
				go w.work()
				if !direct && i > 0 && took > 4<<10 {
					t.Errorf("at batch %d the reader itself had %d bytes read", i, took)
				}
				for k := range got {
					if !bytes.Equal(placedBytes(t, &got[k]), want[i+k].Batch) {
						t.Fatalf("batch %d differs", i+k)
					}
				}
				i, q.From = i+len(got), got[len(got)-1].Last()+1
				ReleasePlaces(got)
				synctest.Wait()
				if w.running != 0 || len(w.waiting) != 0 {
					t.Errorf("%d still prepare, %d wait", w.running, len(w.waiting))
				}
			}
		})
	}
}

// TestPreparingBesideABusyOne: one that takes long does not keep the next partition waiting.
func TestPreparingBesideABusyOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, bigConfig(vfs.NewMem(vfs.MemConfig{})))
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		for range 20 {
			d.produce(100<<10, 1)
		}
		synctest.Wait()
		w := &n.store.preparer
		w.running = 1 // one that is busy
		got, err := d.sh.Read(Query{Partition: 1, Limit: d.next[1], MaxBytes: 1, ByPlace: true})
		if err != nil || len(got) == 0 {
			t.Fatalf("%d batches, %v", len(got), err)
		}
		ReleasePlaces(got)
		synctest.Wait()
		if w.running != 1 || len(w.waiting) != 0 {
			t.Errorf("%d partitions wait while one of %d is prepared", len(w.waiting), maxPreparing)
		}
		w.running = 0
	})
}

// TestPreparingFails: what cannot be read beforehand, the reader is told of when it comes
// there, and not before; later it may be there again. A store ends in the middle of it.
func TestPreparingFails(t *testing.T) {
	for _, end := range []func(*node){(*node).close, (*node).kill} {
		bubble.Test(t, func(t *testing.T) {
			fs := vfs.NewMem(vfs.MemConfig{})
			n := start(t, bigConfig(fs))
			d := newDriver(t, n.store.Shard(1))
			for range 20 {
				d.produce(100<<10, 1)
			}
			synctest.Wait()
			var reads atomic.Int64
			fs.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpRead && op.Len > 1000 && reads.Add(1) > 1 {
					return syscall.EIO
				}
				return nil
			})
			q := Query{Partition: 1, Limit: d.next[1], MaxBytes: 1, ByPlace: true}
			next := func() error {
				got, err := d.sh.Read(q)
				if len(got) > 0 {
					q.From = got[len(got)-1].Last() + 1
				}
				ReleasePlaces(got)
				return err
			}
			if err := next(); err != nil || q.From == 0 {
				t.Fatalf("what can be read is not given: %v", err)
			}
			synctest.Wait()
			if tried := reads.Load(); tried < 2 {
				t.Errorf("nothing was prepared: %d reads", tried)
			}
			if err := next(); !errors.Is(err, syscall.EIO) {
				t.Errorf("what cannot be read: %v", err)
			}
			fs.SetHook(nil)
			if err := next(); err != nil {
				t.Errorf("what can be read again: %v", err)
			}
			end(n)
		})
	}
}
