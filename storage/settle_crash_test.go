package storage

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI11SettlingLeavesOutOnlyWhatTheDatabaseKnows moves a log start, or drops a
// partition, while an index is written, and cuts the power when the index is in
// place. A database that forgot the change would have neither row nor index of the
// batches that the change took away.
func TestI11SettlingLeavesOutOnlyWhatTheDatabaseKnows(t *testing.T) {
	changes := map[string]*Update{
		"log start": {LogStarts: []LogStart{{Partition: 1, Start: 40}}},
		"drop":      {Drops: []rhumb.PartitionID{1}},
	}
	for what, change := range changes {
		for _, unsynced := range []vfs.Unsynced{vfs.UnsyncedLost, vfs.UnsyncedKept} {
			t.Run(fmt.Sprintf("%s, unsynced %d", what, unsynced), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { changeWhileSettling(t, change, unsynced) })
			})
		}
	}
}

func changeWhileSettling(t *testing.T, change *Update, unsynced vfs.Unsynced) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := testConfig(fs)
	var left *vfs.Mem // by the crash, after the first file has settled
	cfg.Events.Settled = func(uint64, uint64) {
		if left == nil {
			left = fs.CrashClone(vfs.CrashOptions{Unsynced: unsynced})
		}
	}
	n := start(t, cfg)
	writing, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, indexSuffix+tmpSuffix) {
			once.Do(func() { close(writing); <-goOn })
		}
		return nil
	})
	d := newDriver(t, n.store.Shard(1))
	d.produce(1000, 1, 2)
	for first := n.store.files.newest.Load(); n.store.files.newest.Load() == first; {
		d.produce(1000, 1, 2)
	}
	<-writing
	end := d.next[1]
	d.update(change)
	close(goOn)
	synctest.Wait()
	n.kill()
	if left == nil {
		t.Fatal("no file has settled")
	}

	n = start(t, testConfig(left))
	defer n.close()
	sh := n.store.Shard(1)
	for _, p := range []rhumb.PartitionID{1, 2} {
		v, ok := sh.view(p)
		if p == 2 || ok {
			readAll(t, sh, p, v.Start, v.End, 1<<20)
		}
		if ok && p == 1 && v.End != end {
			t.Errorf("partition %d ends at %d, want %d", p, v.End, end)
		}
	}
}
