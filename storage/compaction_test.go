package storage

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// keyed is a record of a compacted partition; a nil value is a tombstone.
type keyed struct {
	offset rhumb.Offset
	origin rhumb.Offset
	life   rhumb.Life
	key    string
	value  []byte
}

// keyWriter makes entries with keyed batches of two lives in partitions 1 to 3. The
// third is never compacted, and keeps log files.
type keyWriter struct {
	rng   *rand.Rand
	keys  int
	index uint64
	next  map[rhumb.PartitionID]rhumb.Offset
	ends  map[rhumb.PartitionID]map[rhumb.Life]rhumb.Offset
	chain map[rhumb.PartitionID]map[rhumb.Life]uint64
	prev  map[rhumb.PartitionID]map[rhumb.Life]rhumb.Offset
}

func newKeyWriter(seed uint64, keys int) *keyWriter {
	w := &keyWriter{rng: rand.New(rand.NewPCG(seed, 7)), keys: keys, next: map[rhumb.PartitionID]rhumb.Offset{},
		ends: map[rhumb.PartitionID]map[rhumb.Life]rhumb.Offset{}, chain: map[rhumb.PartitionID]map[rhumb.Life]uint64{},
		prev: map[rhumb.PartitionID]map[rhumb.Life]rhumb.Offset{}}
	for _, p := range []rhumb.PartitionID{1, 2, 3} {
		w.ends[p], w.chain[p] = map[rhumb.Life]rhumb.Offset{}, map[rhumb.Life]uint64{}
		w.prev[p] = map[rhumb.Life]rhumb.Offset{{1}: rhumb.NoOffset, {2}: rhumb.NoOffset}
	}
	return w
}

// batch makes the partition's next batch. As at a real origin, a life's batches have
// a chain; those of life 1 are the partition's own, in life 2 there are gaps.
func (w *keyWriter) batch(p rhumb.PartitionID) []byte {
	life := rhumb.Life{1}
	if w.rng.IntN(3) == 0 {
		life = rhumb.Life{2}
	}
	base, count := w.next[p], 1+w.rng.IntN(6)
	records := make([]codec.PlainRecord, count)
	for i := range records {
		r := &records[i]
		r.Timestamp = int64(base)*10 + int64(i)
		r.Key = fmt.Append(nil, "key ", int(w.index/8)+w.rng.IntN(w.keys)) // each comes to its end
		if w.rng.IntN(4) > 0 {
			r.Value = bytes.Repeat(fmt.Append(nil, base, " ", i, ";"), 1+w.rng.IntN(60))
		}
	}
	batch := codectest.Packings[w.rng.IntN(len(codectest.Packings))].Batch(codec.BuildBatch(codec.NoSender, records))
	codec.PatchBatch(batch, base, 1)
	first := w.ends[p][life]
	if life == ownLife {
		first = base
	}
	h, _ := codec.ParseBatch(batch)
	e := codec.Envelope{Region: rhumb.RegionNumber(life[0]), Partition: p, Life: life, First: first, Last: first + rhumb.Offset(count) - 1,
		Prev: w.prev[p][life], AppendTime: int64(base) * 10, Count: uint32(count)}
	e.Chain = codec.NextChain(w.chain[p][life], e.First, e.Last, h.CRC)
	b := append(make([]byte, codec.EnvelopeSize), batch...)
	e.Put(b, batch)
	w.next[p] += rhumb.Offset(count)
	w.ends[p][life], w.prev[p][life], w.chain[p][life] = e.Last+1+rhumb.Offset(w.rng.IntN(2)), e.Last, e.Chain
	return b
}

func (w *keyWriter) entry() *raftpb.Entry {
	w.index++
	data := []byte{opBatches, 0}
	for range 1 + w.rng.IntN(3) {
		data = append(data, w.batch(1+rhumb.PartitionID(w.rng.IntN(3)))...)
	}
	return &raftpb.Entry{Index: new(w.index), Term: new(uint64(1)), Data: data}
}

// taken holds what recordsOf has taken apart already. Crash tests read the same batches
// a thousand times, and under the race detector an expander's buffers cost more than
// all the rest.
var taken sync.Map

// takenKey is all that the records of a batch depend on.
type takenKey struct {
	base     rhumb.Offset
	envelope codec.Envelope
	batch    string
}

// recordsOf takes a stored batch apart, and checks that its envelope fits.
func recordsOf(t testing.TB, x *codec.Expander, s *Stored) (list []keyed) {
	t.Helper()
	key := takenKey{s.Base, s.Envelope, string(s.Batch)}
	if list, ok := taken.Load(key); ok {
		return list.([]keyed)
	}
	check := codec.CheckBatch
	if s.Envelope.Thinned() {
		check = codec.CheckThinned
	}
	h, err := check(s.Batch)
	if err != nil || uint32(h.Count) != s.Envelope.Count {
		t.Fatalf("batch at %d: %d records, its envelope says %d: %v", s.Base, h.Count, s.Envelope.Count, err)
	}
	r, err := x.Open(s.Batch)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			taken.Store(key, list)
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		at := rhumb.Offset(rec.Delta)
		list = append(list, keyed{s.Base + at, s.Envelope.First + at, s.Envelope.Life, string(rec.Key), bytes.Clone(rec.Value)})
	}
}

// readKeyed reads all that a partition has.
func readKeyed(t testing.TB, sh *Shard, p rhumb.PartitionID, maxBytes int) (batches []Stored, list []keyed) {
	t.Helper()
	x := codec.NewExpander(codec.Limits{Bytes: 1 << 20, Window: 8 << 20})
	v, _ := sh.view(p)
	for from := v.Start; from < v.End; {
		got, err := sh.Read(Query{Partition: p, From: from, Limit: v.End, MaxBytes: maxBytes})
		if err != nil || len(got) == 0 {
			t.Fatalf("partition %d: %d batches from %d on, end is %d: %v", p, len(got), from, v.End, err)
		}
		for i := range got {
			list = append(list, recordsOf(t, x, &got[i])...)
		}
		batches = append(batches, got...)
		from = got[len(got)-1].Last() + 1
	}
	return batches, slices.DeleteFunc(list, func(k keyed) bool { return k.offset < v.Start })
}

// checkKeyed compares what a partition has with all that was written to it: each record
// is the one that was written there; each key's newest one is there, or was a
// tombstone and nothing of the key is left; and each hole in a life is bridged
// by the chain.
func checkKeyed(t testing.TB, sh *Shard, p rhumb.PartitionID, written []keyed) (left int) {
	t.Helper()
	batches, list := readKeyed(t, sh, p, 5000)
	byOffset, newest := map[rhumb.Offset]keyed{}, map[string]keyed{}
	start := sh.LogStart(p)
	for _, k := range written {
		byOffset[k.offset] = k
		if k.offset >= start {
			newest[k.key] = k
		}
	}
	last := map[string]keyed{}
	for _, k := range list {
		if w := byOffset[k.offset]; w.key != k.key || !bytes.Equal(w.value, k.value) || w.life != k.life || w.origin != k.origin {
			t.Fatalf("I2: partition %d: the record at %d is %s of %d bytes, %s of %d was written", p, k.offset, k.key, len(k.value), w.key, len(w.value))
		}
		last[k.key] = k
	}
	for key, want := range newest {
		got, there := last[key]
		switch {
		case there && got.offset != want.offset:
			t.Fatalf("I1: partition %d: the newest record of %s is at %d, the one at %d was written last", p, key, got.offset, want.offset)
		case !there && want.value != nil:
			t.Fatalf("I1: partition %d: the newest record of %s, at %d, is lost", p, key, want.offset)
		}
	}
	ends := map[rhumb.Life]*Stored{}
	for i := range batches {
		s := &batches[i]
		h, _ := codec.ParseBatch(s.Batch)
		if before := ends[s.Envelope.Life]; before != nil && s.Envelope.Prev == before.Envelope.Last &&
			codec.NextChain(before.Envelope.Chain, s.Envelope.First, s.Envelope.Last, s.Envelope.ChainCRC(h.CRC)) != s.Envelope.Chain {
			t.Fatalf("partition %d: the batch at %d does not continue the chain", p, s.Base)
		}
		ends[s.Envelope.Life] = s
	}
	return len(list)
}

// writtenBy gives what entries wrote, by partition.
func writtenBy(t testing.TB, entries []*raftpb.Entry) map[rhumb.PartitionID][]keyed {
	all := map[rhumb.PartitionID][]keyed{}
	x := codec.NewExpander(codec.Limits{Bytes: 1 << 20, Window: 8 << 20})
	for _, e := range entries {
		for _, b := range decodeEntry(e).Batches {
			s := Stored{Base: b.Base, Envelope: b.Envelope, Batch: b.Bytes[codec.EnvelopeSize:]}
			all[b.Partition] = append(all[b.Partition], recordsOf(t, x, &s)...)
		}
	}
	return all
}

// eager compacts as soon as something is dirty, and keeps tombstones for no time.
func eager(limit rhumb.Offset) *Compaction { return &Compaction{Limit: limit} }

func TestCompactionKeepsEachKeysNewest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		cfg := testConfig(fs)
		removed := 0
		cfg.Events.Removed = func(file uint64) {
			if !isSegment(file) {
				removed++
			}
		}
		n := start(t, cfg)
		d := newDriver(t, n.store.Shard(1))
		w := newKeyWriter(1, 40)
		var entries []*raftpb.Entry
		for range 500 {
			e := w.entry()
			d.save(e)
			if err := d.sh.Apply(decodeEntry(e)); err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		synctest.Wait()
		written := writtenBy(t, entries)
		before, third := d.sh.Bytes(1), d.sh.Bytes(3)
		d.sh.SetCompaction(1, eager(w.next[1]))
		d.sh.SetCompaction(2, eager(w.next[2]))
		<-time.After(time.Minute)
		synctest.Wait()
		if checkKeyed(t, d.sh, 3, written[3]); removed > 0 || d.sh.Bytes(3) != third {
			t.Errorf("%d files were deleted that hold the third partition; %d bytes of it are left of %d", removed, d.sh.Bytes(3), third)
		}
		d.index = w.index
		d.update(&Update{Drops: []rhumb.PartitionID{3}})
		synctest.Wait()
		stats := n.store.CompactionStats()
		t.Logf("%d files removed, %+v", removed, stats)
		for p := rhumb.PartitionID(1); p <= 2; p++ {
			left := checkKeyed(t, d.sh, p, written[p])
			if settled := int(d.sh.Compacted(p)); left > len(written[p])-settled+100 || settled == 0 {
				t.Errorf("partition %d: %d records are left of %d, %d offsets were compacted", p, left, len(written[p]), settled)
			}
		}
		if after := d.sh.Bytes(1); after > before/3 || removed < 5 {
			t.Errorf("%d bytes are left of %d, %d files were deleted", after, before, removed)
		}
		n.close()
		n = start(t, cfg)
		for p := rhumb.PartitionID(1); p <= 2; p++ {
			checkKeyed(t, n.store.Shard(1), p, written[p])
		}
		n.close()
	})
}

// TestP146LogEndStaysReadable: although all that a log ends with are tombstones whose
// time is over, its last record stays, so that a reader's position reaches the end.
func TestP146LogEndStaysReadable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		w := newKeyWriter(4, 5)
		const end = 20
		records := make([]codec.PlainRecord, end)
		for k := range records {
			records[k] = codec.PlainRecord{Timestamp: int64(k), Key: fmt.Append(nil, "gone ", k)}
		}
		batch := codec.BuildBatch(codec.NoSender, records)
		env := codec.Envelope{Region: 1, Partition: 4, Life: ownLife, Last: end - 1, Prev: rhumb.NoOffset, Count: end}
		b := append(make([]byte, codec.EnvelopeSize), batch...)
		env.Put(b, batch)
		w.index++
		list := []*raftpb.Entry{{Index: new(w.index), Term: new(uint64(1)), Data: append([]byte{opBatches, 0}, b...)}}
		for range 300 { // of the other partitions, so that all of this one settles
			list = append(list, w.entry())
		}
		for _, e := range list {
			d.save(e)
			if err := d.sh.Apply(decodeEntry(e)); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			d.sh.SetCompaction(4, eager(end))
			<-time.After(time.Minute)
		}
		_, left := readKeyed(t, d.sh, 4, 1<<20)
		if len(left) != 1 || left[0].offset != end-1 {
			t.Errorf("%d records are left, want the last one", len(left))
		}
	})
}

// TestP148LookUpsBehindHoles: a look-up in a hole finds the next record, with all that
// is its own.
func TestP148LookUpsBehindHoles(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		w := newKeyWriter(2, 10)
		for range 300 {
			e := w.entry()
			d.save(e)
			if err := d.sh.Apply(decodeEntry(e)); err != nil {
				t.Fatal(err)
			}
		}
		d.sh.SetCompaction(1, eager(w.next[1]))
		<-time.After(time.Minute)
		synctest.Wait()
		batches, _ := readKeyed(t, d.sh, 1, 1<<20)
		own := slices.DeleteFunc(slices.Clone(batches), func(s Stored) bool { return s.Envelope.Life != ownLife })
		for at := rhumb.Offset(0); at < w.next[1]; at += 7 {
			i := slices.IndexFunc(batches, func(s Stored) bool { return s.Last() >= at })
			got, err := d.sh.Read(Query{Partition: 1, From: at, Limit: w.next[1], MaxBytes: 1})
			if err != nil || len(got) != 1 || got[0].Base != batches[i].Base {
				t.Fatalf("read at %d: %d batches, %v", at, len(got), err)
			}
			i = slices.IndexFunc(own, func(s Stored) bool { return s.Envelope.Last >= at })
			list, err := d.sh.ReadOrigin(OriginQuery{Partition: 1, Region: 1, Life: ownLife, From: at, Limit: w.next[1], MaxBytes: 1})
			if err != nil || len(list) != min(1, len(own)-max(i, 0)) || i >= 0 && list[0].Base != own[i].Base {
				t.Fatalf("read of the origin at %d: %d batches, %v", at, len(list), err)
			}
			found, ok, err := d.sh.ByTime(1, int64(at)*10, w.next[1])
			if err != nil || !ok {
				t.Fatalf("time of %d: %v", at, err)
			}
			if h, _ := codec.ParseBatch(found.Batch); h.MaxTimestamp < int64(at)*10 {
				t.Fatalf("time of %d: found %d at %d", at, h.MaxTimestamp, found.Base)
			}
		}
		if got, err := d.sh.Read(Query{Partition: 1, From: 0, Limit: 1, MaxBytes: 1}); err != nil || len(got) > 0 && got[0].Base > 0 {
			t.Errorf("a limit in a hole: %d batches, %v", len(got), err)
		}
	})
}

// TestCompactionKeepsToItsLimits: neither what is too young, nor what is not flushed
// on a majority, nor what an edge still has to carry is touched.
func TestCompactionKeepsToItsLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, testConfig(vfs.NewMem(vfs.MemConfig{})))
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		w := newKeyWriter(3, 5)
		var entries []*raftpb.Entry
		for range 300 {
			e := w.entry()
			d.save(e)
			if err := d.sh.Apply(decodeEntry(e)); err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		written := writtenBy(t, entries)
		pause := func(c *Compaction) int {
			d.sh.SetCompaction(1, c)
			<-time.After(time.Minute)
			synctest.Wait()
			return checkKeyed(t, d.sh, 1, written[1])
		}
		if left := pause(&Compaction{Limit: w.next[1] / 10}); left < len(written[1])*85/100 {
			t.Errorf("%d records are left of %d, although only a tenth may be touched", left, len(written[1]))
		}
		young := &Compaction{Limit: w.next[1], Policy: compact.Policy{MinLag: time.Since(time.UnixMilli(int64(w.next[1])))}}
		if left := pause(young); left < len(written[1])*75/100 {
			t.Errorf("%d records are left of %d, although only those before %d are old enough", left, len(written[1]), w.next[1]/10)
		}
		held := &Compaction{Limit: w.next[1], Held: []Held{{index.Source{Region: 1, Life: ownLife}, rhumb.NoOffset, rhumb.NoOffset}}}
		pause(held)
		_, list := readKeyed(t, d.sh, 1, 1<<20)
		newest := map[string]keyed{}
		for _, k := range written[1] {
			if k.life == ownLife {
				newest[k.key] = k
			}
		}
		for key, want := range newest {
			if !slices.ContainsFunc(list, func(k keyed) bool { return k.offset == want.offset }) {
				t.Errorf("the newest record of %s of this life, at %d, went although an edge waits for it", key, want.offset)
			}
		}
	})
}

// TestMaxLagEndsTheFile: a record that is overdue does not wait until its log file is
// full; the next entry of anything begins a new one, and the partition is compacted.
func TestMaxLagEndsTheFile(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Hour} {
		bubble.Test(t, func(t *testing.T) {
			fs := vfs.NewMem(vfs.MemConfig{})
			n := start(t, testConfig(fs))
			d := newDriver(t, n.store.Shard(1))
			w := newKeyWriter(1, 3)
			var entries []*raftpb.Entry
			write := func() {
				e := w.entry()
				d.save(e)
				if err := d.sh.Apply(decodeEntry(e)); err != nil {
					t.Fatal(err)
				}
				entries = append(entries, e)
				synctest.Wait()
			}
			for range 20 {
				write()
			}
			files := len(n.store.log.Files())
			policy := func() {
				d.sh.SetCompaction(1, &Compaction{Limit: w.next[1], Policy: compact.Policy{MaxLag: lag, DirtyRatio: .1}})
				<-time.After(time.Minute) // of the bubble
				synctest.Wait()
			}
			policy()
			write()
			policy()
			more, passes := len(n.store.log.Files())-files, n.store.CompactionStats().Passes
			if lag > 0 && (more != 1 || passes == 0) || lag == 0 && (more != 0 || passes != 0) {
				t.Errorf("lag %v: %d more files, %d passes", lag, more, passes)
			}
			written := writtenBy(t, entries)
			checkKeyed(t, d.sh, 1, written[1])
			n.close() // or the entries would have to be applied again
			n = start(t, testConfig(fs))
			defer n.close()
			checkKeyed(t, n.store.Shard(1), 1, written[1])
		})
	}
}
