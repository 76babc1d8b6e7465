package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestCompactionWritesLittle: what compaction writes stays within what the dirty ratio
// promises, whatever the number of keys. storage/DESIGN.md has the figures.
func TestCompactionWritesLittle(t *testing.T) {
	for _, c := range []struct {
		name string
		keys int
		skew bool
	}{{"few keys", 100, false}, {"many keys", 10_000, false}, {"some keys hot", 10_000, true}, {"each key once", 1 << 30, false}} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { writesLittle(t, c.keys, c.skew) })
		})
	}
}

func writesLittle(t *testing.T, keys int, skew bool) {
	cfg := testConfig(vfs.NewMem(vfs.MemConfig{}))
	cfg.FileSize, cfg.StateMemTable = 512<<10, 1<<20
	n := start(t, cfg)
	defer n.close()
	d := newDriver(t, n.store.Shard(1))
	rng := rand.New(rand.NewPCG(1, uint64(keys)))
	zipf := rand.NewZipf(rng, 1.1, 10, uint64(keys-1))
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	entries := 1200
	if testing.Short() {
		entries = 400
	}
	next, size := rhumb.Offset(0), 0
	for i := range entries {
		records := make([]codec.PlainRecord, 50)
		for k := range records {
			key := rng.IntN(keys)
			if skew {
				key = int(zipf.Uint64())
			}
			at := rng.IntN(len(noise) - 100)
			records[k] = codec.PlainRecord{Timestamp: int64(next), Key: fmt.Append(nil, "key ", key), Value: noise[at : at+100]}
		}
		batch := codec.BuildBatch(codec.NoSender, records)
		codec.PatchBatch(batch, next, 1)
		env := codec.Envelope{Region: 1, Partition: 1, Life: ownLife, First: next, Last: next + 49, Prev: next - 1, Count: 50}
		b := append(make([]byte, codec.EnvelopeSize), batch...)
		env.Put(b, batch)
		next += 50
		size += len(b)
		e := &raftpb.Entry{Index: new(uint64(i + 1)), Term: new(uint64(1)), Data: append([]byte{opBatches, 0}, b...)}
		d.save(e)
		if err := d.sh.Apply(decodeEntry(e)); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			d.sh.SetCompaction(1, &Compaction{Limit: next, Policy: compact.Policy{DirtyRatio: .5, DeleteRetention: time.Hour}})
			<-time.After(time.Minute)
			synctest.Wait()
		}
	}
	st := n.store.CompactionStats()
	written := float64(st.Written) / float64(st.Dirty)
	t.Logf("%d bytes produced, %d are left; %d passes read %.2f and wrote %.2f bytes per dirty byte, %d records went",
		size, d.sh.Bytes(1), st.Passes, float64(st.Read)/float64(st.Dirty), written, st.Removed)
	if st.Passes < 2 || written > 2 {
		t.Errorf("%d passes wrote %.2f bytes per dirty byte, at most 2 are promised", st.Passes, written)
	}
}
