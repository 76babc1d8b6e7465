package shard

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// asked is a disk that tells when it is asked how large a partition is.
type asked struct {
	*memDisk
	bytes func()
}

func (d *asked) Bytes(rhumb.PartitionID) int64 {
	d.bytes()
	return 100
}

// TestSumsHoldNothingUp: partitions are counted and added up, and while the storage looks for
// their size, for which it may read, entries are applied and partitions are found.
func TestSumsHoldNothingUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := &asked{memDisk: newMemDisk(1)}
		n := startSolo(t, disk.memDisk, func(cfg *Config) { cfg.Storage = disk })
		for topic := range byte(3) {
			n.partition(topic)
		}
		calls := 0
		disk.bytes = func() {
			calls++
			if !n.m.mu.TryLock() {
				t.Error("the storage is asked while the tables are held")
				return
			}
			n.m.mu.Unlock()
		}
		if sum := n.Sums(); sum != (Sums{Partitions: 3, Bytes: 300}) || calls != 3 {
			t.Errorf("%+v, the storage was asked %d times", sum, calls)
		}
	})
}
