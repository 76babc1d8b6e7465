package commitlog

import (
	"fmt"
	"sync"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// BenchmarkAppend has 8 shards append entries of one size to a log on the real file
// system, each with a bounded number of bytes in flight, and counts what was flushed.
func BenchmarkAppend(b *testing.B) {
	const shards = 8
	for _, size := range []int{200, 4 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			l := start(b, Config{FS: vfs.OS(), Dir: b.TempDir() + "/log"})
			inFlight := min(max((2<<20)/size, 8), 2048)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			var loops sync.WaitGroup
			for shard := range shards {
				n := b.N / shards
				if shard == 0 {
					n += b.N % shards
				}
				loops.Go(func() { appendMany(b, l.Log, rhumb.ShardID(shard), n, size, inFlight) })
			}
			loops.Wait()
			b.StopTimer()
			if files := l.Files(); len(files) > 2 {
				b.ReportMetric(float64(len(files)), "files")
			}
		})
	}
}

func appendMany(b *testing.B, l *Log, shard rhumb.ShardID, n, size, inFlight int) {
	slots := make(chan struct{}, inFlight)
	data := make([]byte, size)
	ent := &raftpb.Entry{Index: new(uint64(0)), Term: new(uint64(1)), Type: raftpb.EntryNormal.Enum(), Data: data}
	f := &Frame{Kind: KindEntries, Shard: shard, Entries: []*raftpb.Entry{ent}}
	done := func(_ []Location, err error) {
		if err != nil {
			b.Error(err)
		}
		<-slots
	}
	for i := range n {
		slots <- struct{}{}
		*ent.Index = uint64(i + 1)
		l.Append(f, true, done)
		if i%max((8<<20)/size, 1) == 0 { // retention: files go round
			for _, info := range l.Files() {
				if info.Closed {
					_ = l.Remove(info.ID) // another shard's loop may have been faster
				}
			}
		}
	}
	for range inFlight {
		slots <- struct{}{}
	}
}
