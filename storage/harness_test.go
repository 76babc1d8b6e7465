package storage

import (
	"context"
	"encoding/binary"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// testConfig is a small store: files roll after a few hundred batches.
func testConfig(fs vfs.FS) Config {
	return Config{FS: fs, Dir: "data", Shards: 2, FileSize: 64 << 10, MinFree: -1, Reserve: -1,
		TailCache: 32 << 10, IndexCache: 64 << 10, StateMemTable: 256 << 10, StateCache: 1 << 20}
}

// node is a store with its Run.
type node struct {
	t     testing.TB
	store *Store
	done  chan error
	stop  context.CancelFunc
}

func start(t testing.TB, cfg Config) *node {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return run(t, s)
}

func run(t testing.TB, s *Store) *node {
	ctx, stop := context.WithCancel(context.Background())
	n := &node{t: t, store: s, done: make(chan error, 1), stop: stop}
	go func() { n.done <- s.Run(ctx) }()
	return n
}

// close stops the node cleanly.
func (n *node) close() {
	n.t.Helper()
	n.stop()
	if err := <-n.done; err != nil {
		n.t.Errorf("run: %v", err)
	}
	if err := n.store.Close(); err != nil {
		n.t.Errorf("close: %v", err)
	}
}

func (n *node) kill() {
	n.store.Kill()
	<-n.done
	n.stop()
}

// testSource is the origin of test batches that are the partition's own.
var ownLife = rhumb.Life{1}

// makeBatch makes a stored batch of count records at base, whose payload is size
// bytes that only this base and seed have.
func makeBatch(p rhumb.PartitionID, base rhumb.Offset, count, size int, seed uint64) (codec.Envelope, []byte) {
	batch := make([]byte, codec.BatchHeaderSize+size)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[16] = 2
	binary.BigEndian.PutUint32(batch[23:], uint32(count-1))
	binary.BigEndian.PutUint32(batch[57:], uint32(count))
	for i := range size {
		batch[codec.BatchHeaderSize+i] = byte(uint64(base)*31 + seed*17 + uint64(i))
	}
	binary.BigEndian.PutUint32(batch[17:], codec.Checksum(batch[21:]))
	codec.PatchBatch(batch, base, 1)
	e := codec.Envelope{Region: 1, Partition: p, Life: ownLife, First: base, Last: base + rhumb.Offset(count) - 1,
		Prev: base - 1, AppendTime: int64(base) * 10, Count: uint32(count)}
	b := make([]byte, codec.EnvelopeSize+len(batch))
	e.Put(b, batch)
	copy(b[codec.EnvelopeSize:], batch)
	return e, b
}

// driver plays a shard's goroutine with one voter: what is saved is applied.
type driver struct {
	t     testing.TB
	sh    *Shard
	term  uint64
	index uint64
	next  map[rhumb.PartitionID]rhumb.Offset
}

func newDriver(t testing.TB, sh *Shard) *driver {
	last, _ := sh.LastIndex()
	return &driver{t: t, sh: sh, term: 1, index: last, next: map[rhumb.PartitionID]rhumb.Offset{}}
}

// produce saves and applies one entry with one batch for each partition.
func (d *driver) produce(size int, parts ...rhumb.PartitionID) {
	d.t.Helper()
	e, u := d.entry(size, parts...)
	d.save(e)
	if err := d.sh.Apply(u); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) entry(size int, parts ...rhumb.PartitionID) (*raftpb.Entry, *Update) {
	d.index++
	u := &Update{Index: d.index, Term: d.term}
	data := []byte{'B'}
	for _, p := range parts {
		count := 1 + int(d.index)%3
		env, b := makeBatch(p, d.next[p], count, size, d.index)
		u.Batches = append(u.Batches, BatchRef{Partition: p, Index: d.index, At: len(data), Envelope: env,
			Base: d.next[p], MaxTimestamp: env.AppendTime, Bytes: b})
		data = append(data, b...)
		d.next[p] += rhumb.Offset(count)
	}
	return &raftpb.Entry{Index: new(d.index), Term: new(d.term), Data: data}, u
}

// save saves an entry and waits until it is done.
func (d *driver) save(e *raftpb.Entry) {
	d.t.Helper()
	done := make(chan error, 1)
	hs := &raftpb.HardState{Term: new(d.term), Vote: new(uint64(1)), Commit: new(e.GetIndex() - 1)}
	d.sh.Save(hs, []*raftpb.Entry{e}, true, func(err error) { done <- err })
	if err := <-done; err != nil {
		d.t.Fatal(err)
	}
}

// applyOnly saves and applies an entry without batches.
func (d *driver) update(u *Update) {
	d.t.Helper()
	d.index++
	u.Index, u.Term = d.index, d.term
	d.save(&raftpb.Entry{Index: new(d.index), Term: new(d.term), Data: []byte{'U'}})
	if err := d.sh.Apply(u); err != nil {
		d.t.Fatal(err)
	}
}

// readAll reads a partition from an offset to its end, in steps of maxBytes.
func readAll(t testing.TB, sh *Shard, p rhumb.PartitionID, from, end rhumb.Offset, maxBytes int) (got []Stored) {
	t.Helper()
	for from < end {
		list, err := sh.Read(Query{Partition: p, From: from, Limit: end, MaxBytes: maxBytes})
		if err != nil {
			t.Fatalf("read partition %d from %d: %v", p, from, err)
		}
		if len(list) == 0 {
			t.Fatalf("partition %d: nothing at %d, end is %d", p, from, end)
		}
		for i := range list {
			if list[i].Base > from && len(got) > 0 {
				t.Fatalf("partition %d: hole from %d to %d", p, from, list[i].Base)
			}
			from = list[i].Last() + 1
		}
		got = append(got, list...)
	}
	return got
}
