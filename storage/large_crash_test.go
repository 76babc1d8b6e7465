package storage

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI1CrashInLargeRounds cuts the power at each operation while batches are written that
// are large enough to pass the page cache by, in both ways of writing, with what was not
// flushed lost, kept or torn, and goes on in the other way: what was promised is read, by
// place and by blocks, too, and what is written behind it stays.
func TestI1CrashInLargeRounds(t *testing.T) {
	for _, how := range ways[:2] {
		t.Run(how.String(), func(t *testing.T) { crashLarge(t, how) })
	}
}

// largeHistory is the entries of one shard, and how many were promised.
type largeHistory struct {
	mu      sync.Mutex
	entries []*Update
	saved   int
}

func (h *largeHistory) add(d *driver, size int) {
	e, u := d.entry(size, 1, 2)
	h.mu.Lock()
	h.entries = append(h.entries, u)
	h.mu.Unlock()
	d.save(e)
	h.mu.Lock()
	h.saved = len(h.entries)
	h.mu.Unlock()
	if err := d.sh.Apply(u); err != nil {
		d.t.Fatal(err)
	}
}

// move moves the log start of partition 1.
func (h *largeHistory) move(d *driver, to rhumb.Offset) {
	u := &Update{LogStarts: []LogStart{{Partition: 1, Start: to}}}
	d.update(u)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(h.entries, u)
	h.saved = len(h.entries)
}

// batches gives what a partition has after the first n entries.
func (h *largeHistory) batches(p rhumb.PartitionID, n int) (all [][]byte, start, end rhumb.Offset) {
	for _, u := range h.entries[:n] {
		for _, s := range u.LogStarts {
			if s.Partition == p {
				start = s.Start
			}
		}
	}
	for _, u := range h.entries[:n] {
		for _, b := range u.Batches {
			if b.Partition == p && b.Envelope.Last >= start {
				all = append(all, b.Bytes)
			}
			if b.Partition == p {
				end = b.Envelope.Last + 1
			}
		}
	}
	return all, start, end
}

func largeConfig(fs vfs.FS, how way) Config {
	cfg := bigConfig(fs)
	cfg.Durability, cfg.Direct = how.durability, how.direct
	cfg.ReadCache = 4 << 20
	return cfg
}

func crashLarge(t *testing.T, how way) {
	type moment struct {
		fs    *vfs.Mem
		saved int
		op    vfs.Op
	}
	var moments []moment
	h := &largeHistory{}
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		fs.SetHook(func(op vfs.Op) error {
			if op.Kind.Changes() {
				h.mu.Lock()
				defer h.mu.Unlock()
				n := len(moments)
				moments = append(moments, moment{fs.CrashClone(vfs.CrashOptions{Seed: uint64(n), Unsynced: vfs.Unsynced(n % 3)}), h.saved, op})
			}
			return nil
		})
		n := start(t, largeConfig(fs, how))
		d := newDriver(t, n.store.Shard(1))
		for i := range 24 {
			h.add(d, []int{40 << 10, 100, 70 << 10, 5000, 90 << 10, 33 << 10}[i%6])
			synctest.Wait()
		}
		n.kill()
	})
	step := 1
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(moments); i += step {
		m := moments[i]
		ok := t.Run(fmt.Sprintf("op %d %s %s", i, m.op.Kind, m.op.Name), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { recoverLarge(t, h, m.saved, m.fs, how.other()) })
		})
		if !ok {
			return
		}
	}
}

func recoverLarge(t *testing.T, was *largeHistory, saved int, fs *vfs.Mem, how way) {
	n := start(t, largeConfig(fs, how))
	defer n.close()
	sh := n.store.Shard(1)
	last, _ := sh.LastIndex()
	if how.durability == DurabilityFsync && last < uint64(saved) {
		t.Fatalf("I1: entry %d was promised, the log ends at %d", saved, last)
	}
	h := &largeHistory{entries: was.entries[:min(last, uint64(len(was.entries)))]}
	h.entries = h.entries[:len(h.entries):len(h.entries)]
	applied, _ := sh.Applied()
	for _, u := range h.entries[applied:] {
		if err := sh.Apply(u); err != nil {
			t.Fatal(err)
		}
	}
	d := newDriver(t, sh)
	for p := rhumb.PartitionID(1); p <= 2; p++ {
		_, _, d.next[p] = h.batches(p, len(h.entries))
	}
	h.check(t, d)
	for range 3 {
		h.add(d, 80<<10)
	}
	h.check(t, d)
	if how.direct && n.store.blocks.Stats().Loaded == 0 {
		t.Error("nothing was read past the cache")
	}
}

// check reads everything in both ways.
func (h *largeHistory) check(t *testing.T, d *driver) {
	t.Helper()
	for p := rhumb.PartitionID(1); p <= 2; p++ {
		want, start, end := h.batches(p, len(h.entries))
		read := readAll(t, d.sh, p, start, end, 1<<20)
		placed := readPlaces(t, d.sh, p, start, end, 1<<20)
		if len(read) != len(want) || len(placed) != len(want) {
			t.Fatalf("partition %d has %d batches, %d by place, want %d", p, len(read), len(placed), len(want))
		}
		for i := range want {
			if !bytes.HasSuffix(want[i], read[i].Batch) || !bytes.Equal(placedBytes(t, &placed[i]), read[i].Batch) {
				t.Fatalf("partition %d: batch %d is another one", p, i)
			}
		}
		ReleasePlaces(placed)
	}
}
