package region

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// node is a region of one node on an in-memory disk.
type node struct {
	*Region
	t     *testing.T
	fs    *vfs.Mem
	store *storage.Store
	stop  func(kill bool)
}

var testTopic = rhumb.Topic{Tenant: "public", Namespace: "default", Name: "orders"}

func startNode(t *testing.T, fs *vfs.Mem, change func(*Config, *storage.Config)) *node {
	t.Helper()
	sc := storage.Config{FS: fs, Dir: "data", Shards: 3, MinFree: -1, Reserve: -1, FileSize: 1 << 20}
	rc := Config{Name: "us", Number: 7}
	if change != nil {
		change(&rc, &sc)
	}
	store, err := storage.Open(sc)
	if err != nil {
		t.Fatal(err)
	}
	rc.Store = store
	r, err := Open(rc)
	if err != nil {
		t.Fatal(err)
	}
	r.SetOwed(func() map[rhumb.PartitionRef]Owed { return map[rhumb.PartitionRef]Owed{} })
	ctx, cancel := context.WithCancel(context.Background())
	storeDone, regionDone := make(chan error, 1), make(chan error, 1)
	storeCtx, stopStore := context.WithCancel(context.Background())
	go func() { storeDone <- store.Run(storeCtx) }()
	go func() { regionDone <- r.Run(ctx) }()
	n := &node{Region: r, t: t, fs: fs, store: store}
	n.stop = func(kill bool) {
		if kill {
			store.Kill()
		}
		cancel()
		<-regionDone
		stopStore()
		<-storeDone
		if !kill {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
		n.stop = func(bool) {}
	}
	t.Cleanup(func() { n.stop(false) })
	if err := r.WaitReady(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) topic(name rhumb.Topic, partitions int32) TopicInfo {
	n.t.Helper()
	info, err := n.CreateTopic(context.Background(), TopicSpec{Topic: name, Partitions: partitions})
	if err != nil {
		n.t.Fatal(err)
	}
	return info
}

func (n *node) append(ref rhumb.PartitionRef, b []byte) AppendResult {
	n.t.Helper()
	h, err := codec.CheckBatch(b)
	if err != nil {
		n.t.Fatal(err)
	}
	c := make(chan AppendResult, 1)
	n.Append(ref, AppendRequest{Batch: b, Header: h}, func(r AppendResult) { c <- r })
	return <-c
}

// makeBatch builds a batch of records that only has the right shape.
func makeBatch(count int, size int, change func(*codec.BatchHeader)) []byte {
	b := make([]byte, codec.BatchHeaderSize+size)
	h := codec.BatchHeader{Count: int32(count), LastOffsetDelta: int32(count - 1), ProducerID: codec.NoProducer, ProducerEpoch: -1, BaseSequence: -1}
	if change != nil {
		change(&h)
	}
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	be.PutUint32(b[23:], uint32(h.LastOffsetDelta))
	be.PutUint64(b[27:], uint64(h.FirstTimestamp))
	be.PutUint64(b[35:], uint64(h.MaxTimestamp))
	be.PutUint64(b[43:], uint64(h.ProducerID))
	be.PutUint16(b[51:], uint16(h.ProducerEpoch))
	be.PutUint32(b[53:], uint32(h.BaseSequence))
	be.PutUint32(b[57:], uint32(h.Count))
	be.PutUint32(b[17:], codec.Checksum(b[21:]))
	return b
}

func TestAppendAndRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 2)
		if len(info.Partitions) != 2 || !info.Ready() {
			t.Fatalf("topic %+v", info)
		}
		ref := info.Partitions[1].Ref
		for i := range 5 {
			if r := n.append(ref, makeBatch(3, 100, nil)); r.Err != nil || r.Base != rhumb.Offset(3*i) {
				t.Fatalf("append %d: %+v", i, r)
			}
		}
		st, ok := n.State(ref)
		if !ok || st.End != 15 || st.Flushed != 15 || st.OwnLast != 14 || !st.Leading {
			t.Fatalf("state %+v", st)
		}
		got, err := n.Read(ref, Query{From: 4, Limit: 100, MaxBytes: 1 << 20})
		if err != nil || len(got) != 4 || got[0].Base != 3 {
			t.Fatalf("read %d batches from %v: %v", len(got), got, err)
		}
		h, err := codec.CheckBatch(got[0].Batch)
		if err != nil || h.BaseOffset != 3 || h.LeaderEpoch != st.LeaderEpoch {
			t.Fatalf("stored batch %+v: %v", h, err)
		}
	})
}
