package storage

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func TestI2RetentionDeletesFilesAndLogStartStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		cfg := testConfig(fs)
		removed := 0
		cfg.Events.Removed = func(uint64) { removed++ }
		n := start(t, cfg)
		d := newDriver(t, n.store.Shard(1))
		for range 600 {
			d.produce(400, 1, 2)
		}
		synctest.Wait()
		total := d.sh.Bytes(1)
		start1 := d.sh.RetentionStart(1, Retention{MaxBytes: total / 4})
		if left, want := d.next[1]-start1, d.next[1]/4; left < want-5 || left > want {
			t.Errorf("a quarter of %d records would leave %d", d.next[1], left)
		}
		if s := d.sh.RetentionStart(1, Retention{BeforeMs: 3000}); s < 300 || s > 303 {
			t.Errorf("older than 3000 ms ends at %d", s)
		}
		if s := d.sh.RetentionStart(1, Retention{BeforeMs: 3000, Limit: 100}); s > 100 {
			t.Errorf("the limit was passed: %d", s)
		}
		if s := d.sh.RetentionStart(1, Retention{}); s != 0 {
			t.Errorf("no retention moves the start to %d", s)
		}
		d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: start1}}})
		synctest.Wait()
		if removed != 0 {
			t.Fatal("a file was deleted that partition 2 has batches in")
		}
		d.update(&Update{Drops: []rhumb.PartitionID{2}, LogStarts: []LogStart{{Partition: 1, Start: 3}}})
		synctest.Wait()
		if removed < 5 {
			t.Errorf("%d files deleted", removed)
		}
		if _, err := d.sh.Read(Query{Partition: 1, From: start1 - 1, Limit: d.next[1]}); rhumb.KindOf(err) != rhumb.KindOutOfRange {
			t.Errorf("below the log start: %v", err)
		}
		if got, err := d.sh.Read(Query{Partition: 2, Limit: 9}); len(got) > 0 || err != nil {
			t.Errorf("dropped partition: %d batches, %v", len(got), err)
		}
		if list, err := d.sh.Entries(1, 2, 1); err != raft.ErrCompacted {
			t.Errorf("entry of a deleted file: %d, %v", len(list), err)
		}
		readAll(t, d.sh, 1, start1, d.next[1], 5000)
		n.close()
		n = start(t, cfg)
		if s := n.store.Shard(1).LogStart(1); s != start1 {
			t.Errorf("log start %d after a restart, want %d", s, start1)
		}
		readAll(t, n.store.Shard(1), 1, start1, d.next[1], 5000)
		n.close()
	})
}

// TestI11RetentionBySizeWithinASettledFile moves the log start to the middle of a
// settled file and of a batch: what is kept is counted exactly, before and after a
// restart, and so is what goes next.
func TestI11RetentionBySizeWithinASettledFile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := testConfig(vfs.NewMem(vfs.MemConfig{}))
		n := start(t, cfg)
		d := newDriver(t, n.store.Shard(1))
		for range 300 {
			d.produce(400, 1)
		}
		synctest.Wait()
		settled := n.store.files.settledThrough()
		if settled < 2 {
			t.Fatal("nothing has settled")
		}
		for _, begin := range []rhumb.Offset{7, 8, 9, 200, 201, 400, d.next[1] - 1} {
			d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: begin}}})
			kept := readAll(t, d.sh, 1, begin, d.next[1], 5000)
			var total int64
			for i := range kept {
				total += int64(codec.EnvelopeSize + len(kept[i].Batch))
			}
			for range 2 {
				if got := d.sh.Bytes(1); got != total {
					t.Fatalf("from %d on: %d bytes, want %d", begin, got, total)
				}
				left, want := total, begin
				for i := range kept {
					if got := d.sh.RetentionStart(1, Retention{MaxBytes: left}); got != want {
						t.Fatalf("from %d on, with at most %d of %d bytes: %d, want %d", begin, left, total, got, want)
					}
					left, want = left-int64(codec.EnvelopeSize+len(kept[i].Batch)), kept[i].Last()+1
					if i == 20 {
						break
					}
				}
				n.close()
				n = start(t, cfg)
				next := d.next
				d = newDriver(t, n.store.Shard(1))
				d.next = next
			}
		}
		n.close()
	})
}

// TestReadersOutliveDeletion reads on while everything below them is deleted.
func TestReadersOutliveDeletion(t *testing.T) {
	n := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
	d := newDriver(t, n.store.Shard(1))
	ctx, stop := context.WithCancel(context.Background())
	bad := make(chan error, 4)
	for range cap(bad) {
		go func() {
			var err error
			for from := rhumb.Offset(0); ctx.Err() == nil && err == nil; {
				var got []Stored
				from = max(from, d.sh.LogStart(1))
				got, err = d.sh.Read(Query{Partition: 1, From: from, Limit: 1 << 40, MaxBytes: 3000})
				if rhumb.KindOf(err) == rhumb.KindOutOfRange {
					err = nil
				}
				for i := range got {
					if got[i].Last() < from || got[i].Base > from && i > 0 && got[i].Base != got[i-1].Last()+1 {
						err = fmt.Errorf("batch %d at %d after %d", i, got[i].Base, from)
					}
				}
				if len(got) > 0 {
					from = got[len(got)-1].Last() + 1
				}
				runtime.Gosched()
			}
			bad <- err
		}()
	}
	for i := range 1500 {
		d.produce(600, 1)
		if i%50 == 49 {
			d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: d.next[1] - 100}}})
		}
	}
	stop()
	for range cap(bad) {
		if err := <-bad; err != nil {
			t.Error(err)
		}
	}
	n.close()
}

func TestTailCacheAndEntriesStayBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := testConfig(vfs.NewMem(vfs.MemConfig{}))
		n := start(t, cfg)
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		for range 2000 {
			d.produce(500, 1)
			if n.store.tail.used > cfg.TailCache {
				t.Fatalf("tail cache holds %d bytes", n.store.tail.used)
			}
		}
		synctest.Wait()
		d.produce(500, 1)
		held := 0
		for _, s := range d.sh.entries.slots {
			if s.entry != nil {
				held += int(s.size)
			}
		}
		if int64(held) > cfg.TailCache {
			t.Errorf("entries hold %d bytes", held)
		}
		if slots := len(d.sh.entries.slots); slots > 500 {
			t.Errorf("%d entries are known, files settle after about 90", slots)
		}
		if used := n.store.cache.Used(); used > cfg.IndexCache {
			t.Errorf("index cache holds %d bytes", used)
		}
	})
}

func TestI12FlushedIndexUnderInterval(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := testConfig(vfs.NewMem(vfs.MemConfig{}))
		cfg.Durability = DurabilityInterval
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var told atomic.Uint64
		s.Shard(1).OnFlush(told.Store)
		n := run(t, s)
		defer n.close()
		d := newDriver(t, s.Shard(1))
		d.produce(100, 1)
		if f := d.sh.FlushedIndex(); f != 0 {
			t.Errorf("flushed %d at once", f)
		}
		<-time.After(time.Second) // of the bubble's time
		if f := d.sh.FlushedIndex(); f != 1 || told.Load() != 1 {
			t.Errorf("flushed %d, told %d, after the interval", f, told.Load())
		}
		d.save(&raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(1))})
		<-time.After(time.Second) // of the bubble's time
		d.term = 2                // a new leader cancels entry 2
		d.save(&raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(2))})
		if f := d.sh.FlushedIndex(); f != 1 {
			t.Errorf("flushed %d, but entry 2 was cancelled", f)
		}
	})
}
