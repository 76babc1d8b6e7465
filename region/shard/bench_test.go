package shard

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// wires hands messages over at once.
type wires map[uint64]*Shard

func (w wires) Send(m *Message) { w[m.To].Receive(m) }

// benchVoters starts a group on real disks and gives its leader.
func benchVoters(b *testing.B, voters int) *Shard {
	var ids []uint64
	for i := range voters {
		ids = append(ids, uint64(i+1))
	}
	net := wires{}
	for _, id := range ids {
		store, err := storage.Open(storage.Config{FS: vfs.OS(), Dir: b.TempDir(), Shards: 1, MinFree: -1, Reserve: -1})
		if err != nil {
			b.Fatal(err)
		}
		cfg := Config{ID: 1, Region: 1, Node: id, Voters: ids, Storage: OnDisk(store.Shard(1)), Synced: true, Budget: NewBudget(1 << 30)}
		if voters > 1 {
			cfg.Transport = net
		}
		s, err := Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		net[id] = s
		ctx, cancel := context.WithCancel(context.Background())
		stored, ran := make(chan error, 1), make(chan error, 1)
		go func() { stored <- store.Run(context.Background()) }()
		b.Cleanup(func() { cancel(); <-ran; store.Close(); <-stored })
		go func() { ran <- s.Run(ctx) }()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, s := range net {
			if s.Leading() {
				return s
			}
			s.Tick()
		}
		<-tick.C
	}
}

// BenchmarkVoters appends batches to one shard with many in flight, and reads
// them at the tail.
func BenchmarkVoters(b *testing.B) {
	for _, voters := range []int{1, 3} {
		for _, size := range []int{200, 16 << 10, 128 << 10} {
			b.Run(fmt.Sprintf("voters=%d/batch=%d", voters, size), func(b *testing.B) { benchVotersAppend(b, voters, size) })
		}
	}
}

func benchVotersAppend(b *testing.B, voters, size int) {
	s := benchVoters(b, voters)
	id, _, err := s.CreatePartition(context.Background(), PartitionSpec{TopicID: rhumb.NewUUID(), Topic: rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"}})
	if err != nil {
		b.Fatal(err)
	}
	free := make(chan []byte, 512)
	sample := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: make([]byte, size-80)}})
	for range min(cap(free), 64<<20/size) {
		free <- append([]byte(nil), sample...)
	}
	h, err := codec.CheckBatch(sample)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	inFlight := len(free)
	for range b.N {
		batch := <-free
		s.Append(id, AppendRequest{Batch: batch, Header: h}, func(r AppendResult) {
			if r.Err != nil {
				b.Error(r.Err)
			}
			free <- batch
		})
	}
	for range inFlight {
		<-free
	}
	b.StopTimer()
	if _, err := s.Storage().Read(Query{Partition: id, From: 0, Limit: math.MaxInt64, MaxBytes: 1 << 20}); err != nil {
		b.Fatal(err)
	}
}
