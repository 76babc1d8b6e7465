package storage

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI11DeadFilesGoWhileSettlingIsBehind has a new file to settle whenever one has
// settled, as on a disk that is slower than its writers: what log starts have passed
// goes all the same, or the disk fills up.
func TestI11DeadFilesGoWhileSettlingIsBehind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const most = 100
		settled, removed := 0, 0
		var writing sync.Mutex // whose goroutine uses d
		var d *driver
		cfg := testConfig(vfs.NewMem(vfs.MemConfig{}))
		cfg.Events.Removed = func(uint64) { removed++ }
		cfg.Events.Settled = func(uint64, uint64) {
			writing.Lock()
			defer writing.Unlock()
			settled++
			if removed > 0 || settled > most {
				return
			}
			for newest := d.sh.store.files.newest.Load(); d.sh.store.files.newest.Load() < newest+1; {
				d.produce(4000, 1)
			}
			d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: d.next[1] - 1}}})
		}
		writing.Lock()
		n := start(t, cfg)
		defer n.close()
		d = newDriver(t, n.store.Shard(1))
		for n.store.files.newest.Load() < 4 {
			d.produce(4000, 1)
		}
		writing.Unlock()
		synctest.Wait()
		if removed == 0 || settled > most {
			t.Errorf("%d files were deleted while %d settled", removed, settled)
		}
	})
}
