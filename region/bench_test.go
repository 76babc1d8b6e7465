package region

import (
	"context"
	"fmt"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// BenchmarkAppend appends batches to several partitions with many in flight, on
// the system's disk.
func BenchmarkAppend(b *testing.B) {
	for _, durability := range []storage.Durability{storage.DurabilityFsync, storage.DurabilityNone} {
		for _, size := range []int{200, 16 << 10, 128 << 10} {
			b.Run(fmt.Sprintf("durability=%v/batch=%d", durability, size), func(b *testing.B) { benchAppend(b, durability, size) })
		}
	}
}

func benchAppend(b *testing.B, durability storage.Durability, size int) {
	store, err := storage.Open(storage.Config{FS: vfs.OS(), Dir: b.TempDir(), Shards: 8, Durability: durability, MinFree: -1, Reserve: -1})
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(Config{Name: "us", Number: 7, Store: store, Durability: durability})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	storeDone, done := make(chan error, 1), make(chan error, 1)
	go func() { storeDone <- store.Run(context.Background()) }()
	go func() { done <- r.Run(ctx) }()
	if err := r.WaitReady(ctx); err != nil {
		b.Fatal(err)
	}
	info, err := r.CreateTopic(ctx, TopicSpec{Topic: testTopic, Partitions: 16})
	if err != nil {
		b.Fatal(err)
	}
	const inFlight = 1024
	free := make(chan []byte, inFlight)
	for range min(inFlight, 64<<20/size) {
		free <- makeBatch(16, size-codec.BatchHeaderSize, nil)
	}
	h, _ := codec.ParseBatch(makeBatch(16, size-codec.BatchHeaderSize, nil))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	n := len(free)
	for i := range b.N {
		batch := <-free
		r.Append(info.Partitions[i%16].Ref, AppendRequest{Batch: batch, Header: h}, func(res AppendResult) {
			if res.Err != nil {
				b.Error(res.Err)
			}
			free <- batch
		})
	}
	for range n {
		<-free
	}
	b.StopTimer()
	cancel()
	<-done
	_ = store.Close()
	<-storeDone
}
