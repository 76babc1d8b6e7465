package region

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// leftOver counts the topics that a shard still has something of, or that shard 0 has
// still to drop.
func (r *Region) leftOver() int {
	_, doomed := r.shards[0].Unsettled()
	n := len(doomed)
	for _, s := range r.shards {
		n += len(s.TopicIDs())
	}
	return n
}

// deleteTogether deletes topics at the same time and says which were answered.
func deleteTogether(r *Region, topics int, answered []atomic.Bool) {
	var wg sync.WaitGroup
	for i := range topics {
		wg.Go(func() {
			if r.DeleteTopic(context.Background(), numbered(i), 1) == nil {
				answered[i].Store(true)
			}
		})
	}
	wg.Wait()
}

// Topics that are deleted at the same time cost a small part of a flush each, until
// nothing is left of them.
func TestManyTopicsAreDroppedTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		const topics = 600
		if err := createTogether(n.Region, topics, topics); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var flushes atomic.Int64
		n.fs.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpSync {
				flushes.Add(1)
			}
			return nil
		})
		deleteTogether(n.Region, topics, make([]atomic.Bool, topics))
		synctest.Wait()
		n.fs.SetHook(nil)
		if got := n.leftOver(); got != 0 || len(n.Topics()) != 0 {
			t.Errorf("%d topics there, %d left over", len(n.Topics()), got)
		}
		if got := flushes.Load(); got > topics/4 {
			t.Errorf("%d flushes for %d topics", got, topics)
		}
	})
}

// A loss of power at any moment of a large deletion leaves no topic that was answered,
// and nothing of one that is gone: what was begun is ended by the next start.
func TestI1CrashInTheMiddleOfManyDeletions(t *testing.T) {
	const topics = 100
	type moment struct {
		fs       *vfs.Mem
		answered []bool
	}
	for _, unsynced := range []vfs.Unsynced{vfs.UnsyncedKept, vfs.UnsyncedLost, vfs.UnsyncedMixed} {
		var moments []moment
		bubble.Test(t, func(t *testing.T) {
			n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
			if err := createTogether(n.Region, topics, topics); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var mu sync.Mutex
			answered := make([]atomic.Bool, topics)
			n.fs.SetHook(func(vfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				m := moment{answered: make([]bool, topics)}
				for i := range answered {
					m.answered[i] = answered[i].Load() // before the clone: each of these is stored
				}
				m.fs = n.fs.CrashClone(vfs.CrashOptions{Seed: uint64(len(moments)), Unsynced: unsynced})
				moments = append(moments, m)
				return nil
			})
			deleteTogether(n.Region, topics, answered)
			synctest.Wait()
			n.fs.SetHook(nil)
		})
		stored := 0
		for i, m := range moments {
			bubble.Test(t, func(t *testing.T) {
				n := startNode(t, m.fs, nil)
				synctest.Wait()
				there := n.Topics()
				for k, answered := range m.answered {
					if _, ok := n.Topic(numbered(k)); ok && answered {
						t.Errorf("operation %d: %s is back", i, numbered(k))
					}
				}
				held := 0
				for _, s := range n.shards {
					held += len(s.TopicIDs())
				}
				if _, doomed := n.shards[0].Unsettled(); len(doomed) > 0 || held != len(there) {
					t.Errorf("operation %d: %d topics, shards have something of %d, %d are still to go", i, len(there), held, len(doomed))
				}
				if len(there) == 0 {
					stored++
				}
				for _, info := range there {
					if res := n.append(info.Partitions[0].Ref, makeBatch(1, 10, nil)); res.Err != nil {
						t.Errorf("operation %d: %s: %v", i, info.Topic, res.Err)
					}
				}
			})
			if t.Failed() {
				return
			}
		}
		if len(moments) < 5 || stored == 0 {
			t.Errorf("%d operations, %d after the deletions were stored", len(moments), stored)
		}
	}
}
