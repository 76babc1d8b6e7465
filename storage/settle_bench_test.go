package storage

import (
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// BenchmarkSettleBehind settles log files of 1 MiB that have waited, as after a time in
// which the disk was busy, and tells how many it does in a second.
func BenchmarkSettleBehind(b *testing.B) {
	const behind = 32
	files := 0
	for b.Loop() {
		b.StopTimer()
		cfg := testConfig(vfs.OS())
		cfg.Dir, cfg.FileSize, cfg.CopyForwardFiles = filepath.Join(b.TempDir(), "data"), 1<<20, 10*behind
		settled := make(chan struct{}, 10*behind)
		cfg.Events.Settled = func(uint64, uint64) { settled <- struct{}{} }
		n := start(b, cfg)
		d := newDriver(b, n.store.Shard(1))
		n.store.installs.Add(1) // as while a snapshot is installed: nothing settles
		first := n.store.files.newest.Load()
		for n.store.files.newest.Load() < first+behind+1 {
			d.produce(32<<10, 1, 2, 3, 4)
		}
		b.StartTimer()
		n.store.installs.Add(-1)
		n.store.wake()
		for range behind {
			<-settled
		}
		b.StopTimer()
		files += behind
		n.close()
		b.StartTimer()
	}
	b.ReportMetric(float64(files)/b.Elapsed().Seconds(), "files/s")
}
