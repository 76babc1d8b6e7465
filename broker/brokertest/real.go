package brokertest

import (
	"context"
	"testing"

	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Real runs a region of one node on a disk in memory until the test ends: what
// passes on the region in this package must pass on it, too. change may ask for
// another disk or another region.
func Real(t testing.TB, change ...func(*storage.Config, *region.Config)) *region.Region {
	t.Helper()
	sc := storage.Config{FS: vfs.NewMem(vfs.MemConfig{}), Dir: "data", Shards: 4, MinFree: -1, Reserve: -1, FileSize: 8 << 20}
	rc := region.Config{Name: "us", Number: 1, NodeID: TestNode}
	for _, f := range change {
		f(&sc, &rc)
	}
	store, err := storage.Open(sc)
	if err != nil {
		t.Fatal(err)
	}
	rc.Store = store
	r, err := region.Open(rc)
	if err != nil {
		t.Fatal(err)
	}
	storeDone, regionDone := make(chan error, 1), make(chan error, 1)
	storeCtx, stopStore := context.WithCancel(context.Background())
	regionCtx, stopRegion := context.WithCancel(context.Background())
	go func() { storeDone <- store.Run(storeCtx) }()
	go func() { regionDone <- r.Run(regionCtx) }()
	t.Cleanup(func() {
		stopRegion()
		if err := <-regionDone; err != nil {
			t.Errorf("region: %v", err)
		}
		stopStore()
		if err := <-storeDone; err != nil {
			t.Errorf("store: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	if err := r.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}
