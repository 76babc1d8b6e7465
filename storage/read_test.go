package storage

import (
	"errors"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestMostFirst: the first batch comes in any case, but not above that bound, and the
// error tells how much it is.
func TestMostFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
		d := newDriver(t, n.store.Shard(1))
		d.produce(5000, 1)
		d.produce(100, 1)
		q := Query{Partition: 1, Limit: 9, MaxBytes: 1}
		got, err := d.sh.Read(q)
		if err != nil || len(got) != 1 {
			t.Fatalf("without a bound %d batches, %v", len(got), err)
		}
		second := got[0].Last() + 1
		q.MostFirst = 1000
		got, err = d.sh.Read(q)
		large, is := errors.AsType[*LargeBatchError](err)
		if !is || len(got) != 0 || large.Base != 0 || large.Size < 5000 {
			t.Fatalf("%d batches, %+v, %v", len(got), large, err)
		}
		q.MostFirst = large.Size
		if got, err = d.sh.Read(q); err != nil || len(got) != 1 {
			t.Errorf("with what it said it takes: %d batches, %v", len(got), err)
		}
		q.From, q.MostFirst = second, 1000
		if got, err = d.sh.Read(q); err != nil || len(got) != 1 {
			t.Errorf("a small one behind it: %d batches, %v", len(got), err)
		}
		origin := OriginQuery{Partition: 1, Region: 1, Life: ownLife, Limit: 9, MaxBytes: 1, MostFirst: 1000}
		if got, err = d.sh.ReadOrigin(origin); len(got) != 0 || !errors.As(err, &large) || large.Base != 0 || large.Size < 5000 {
			t.Errorf("by its origin: %d batches, %v", len(got), err)
		}
		n.close()
	})
}
