package kafka

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// cold has hardly any room for the tail of the log, so that reads come from files.
func cold(fs vfs.FS, dir string) func(*storage.Config, *region.Config) {
	return func(sc *storage.Config, _ *region.Config) {
		sc.FS, sc.Dir, sc.TailCache, sc.FileSize = fs, dir, 64<<10, 2<<20
	}
}

// coldBatch is a batch of the given size that can be told from others.
func coldBatch(i, size int) brokertest.Batch {
	value := bytes.Repeat([]byte{byte(i), byte(i >> 8), 7, byte(i * 31)}, size/4)
	return brokertest.Batch{Times: []int64{int64(i) + 1}, Value: value}
}

func coldFetch(offset int64) *kmsg.FetchRequest {
	req := fetchRequest("t", offset)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
	return req
}

// wantCold is what a fetch of coldBatches from 0 on gives.
func wantCold(sizes []int) (all []byte) {
	for i, size := range sizes {
		b := coldBatch(i, size).Bytes()
		binary.BigEndian.PutUint64(b, uint64(i))
		all = append(all, b...)
	}
	return all
}

// sameBatches compares but for leader epochs, which are the region's.
func sameBatches(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	for at := 0; at < len(want); at += 12 + int(binary.BigEndian.Uint32(want[at+8:])) {
		copy(want[at+12:at+16], got[at+12:at+16])
	}
	if !bytes.Equal(got, want) {
		t.Fatal("other bytes than were produced")
	}
}

// Large batches that lie in files go out from there, small ones and those of the tail
// from memory: byte for byte the same, on each kind of disk and connection.
func TestFetchByPlaceGivesTheSameBytes(t *testing.T) {
	var sizes []int
	for i := range 40 {
		sizes = append(sizes, []int{300, 20 << 10, 100 << 10, 15 << 10, 700 << 10}[i%5])
	}
	mem := func() vfs.FS { return vfs.NewMem(vfs.MemConfig{}) }
	for name, fs := range map[string]vfs.FS{"system": vfs.OS(), "memory": mem(), "system, direct": vfs.OS(), "memory, direct": mem()} {
		t.Run(name, func(t *testing.T) {
			h := startReal(t, cold(fs, filepath.Join(t.TempDir(), "d")), func(sc *storage.Config, _ *region.Config) {
				sc.Direct = strings.HasSuffix(name, "direct") // answers come from blocks in memory, too
			})
			h.topic("t", 1, nil)
			for i, size := range sizes {
				h.append("t", coldBatch(i, size))
			}
			c := h.dial()
			for range 2 {
				got := c.fetch(coldFetch(0)).Topics[0].Partitions[0].RecordBatches
				sameBatches(t, got, wantCold(sizes))
			}
			if st := h.server.Stats(); st.FetchedByPlace > 0 != canSendFile || st.Fetched != 2*int64(len(wantCold(sizes))) {
				t.Errorf("figures: %+v", st)
			}
			if err := h.server.fetches.Acquire(h.ctx(), h.server.cfg.FetchBudget); err != nil {
				t.Errorf("a part of the budget is not given back: %v", err)
			}
		})
	}
}

// Retention takes the files away while a reader that is slow gets an answer from them:
// it gets what it was promised.
func TestFetchByPlaceOutlivesItsFiles(t *testing.T) {
	removed := make(chan uint64, 64)
	h := startReal(t, cold(vfs.OS(), filepath.Join(t.TempDir(), "d")), func(sc *storage.Config, _ *region.Config) {
		sc.Events.Removed = func(id uint64) { removed <- id }
	})
	h.topic("t", 1, nil)
	sizes := make([]int, 40)
	for i := range sizes {
		sizes[i] = 800 << 10 // more in all than the sockets hold
		h.append("t", coldBatch(i, sizes[i]))
	}
	slow := h.dial()
	id := slow.send(coldFetch(0))
	var first [4]byte
	if _, err := io.ReadFull(slow.nc, first[:]); err != nil { // it is being answered
		t.Fatal(err)
	}
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.Version, del.TimeoutMillis = 1, 10_000
	dt, dp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	dp.Offset = 39
	dt.Topic, dt.Partitions = "t", append(dt.Partitions, dp)
	del.Topics = append(del.Topics, dt)
	if resp := ask[*kmsg.DeleteRecordsResponse](h.dial(), del); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("code %d", resp.Topics[0].Partitions[0].ErrorCode)
	}
	for range 10 {
		<-removed
	}
	for i := range 12 { // what would be written over files that are used again
		h.append("t", coldBatch(1000+i, 900<<10))
	}
	b := make([]byte, binary.BigEndian.Uint32(first[:]))
	if _, err := io.ReadFull(slow.nc, b); err != nil {
		t.Fatal(err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != id {
		t.Fatalf("answer of request %d, want %d", got, id)
	}
	resp := decodeAnswer[*kmsg.FetchResponse](slow, coldFetch(0), b[4:])
	sameBatches(t, resp.Topics[0].Partitions[0].RecordBatches, wantCold(sizes))
}

// A disk that fails in the middle of an answer ends the connection: what came until
// then is right, and nothing else comes.
func TestI9DiskFailsInTheMiddleOfAnAnswer(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	h := startReal(t, cold(fs, "d"))
	h.topic("t", 1, nil)
	sizes := []int{700 << 10, 700 << 10, 700 << 10, 700 << 10, 100}
	for i, size := range sizes {
		h.append("t", coldBatch(i, size))
	}
	whole := h.dial()
	id := whole.send(coldFetch(0))
	want := whole.receive(id)
	var reads atomic.Int32
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && op.Len == copySize && reads.Add(1) > 15 {
			return errors.New("unreadable")
		}
		return nil
	})
	c := h.dial()
	c.send(coldFetch(0))
	got, err := io.ReadAll(c.nc)
	fs.SetHook(nil)
	if !canSendFile {
		t.Skip("answers from files are for Linux")
	}
	if err != nil || len(got) < 15*copySize || len(got) >= len(want) || !bytes.Equal(got[8:], want[:len(got)-8]) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if err := h.server.fetches.Acquire(h.ctx(), h.server.cfg.FetchBudget); err != nil {
		t.Errorf("a part of the budget is not given back: %v", err)
	}
	h.server.fetches.Release(h.server.cfg.FetchBudget)
	if !strings.Contains(h.log.String(), errUnreadable.Error()) {
		t.Errorf("the log does not say it:\n%s", h.log)
	}
	again := h.dial()
	if !bytes.Equal(again.receive(again.send(coldFetch(0))), want) {
		t.Error("another answer, later")
	}
}

// Who asks for more before he has taken an answer from files gets the next ones from
// memory, so that what he keeps of removed files is one answer's.
func TestOneAnswerByPlaceAtATime(t *testing.T) {
	h := startReal(t, cold(vfs.OS(), filepath.Join(t.TempDir(), "d")))
	h.topic("t", 1, nil)
	sizes := []int{800 << 10, 800 << 10, 100}
	for i := range sizes {
		h.append("t", coldBatch(i, sizes[i]))
	}
	c := h.dial()
	c.fetch(coldFetch(2)) // the server knows the connection
	for _, busy := range []bool{true, false} {
		for _, sc := range h.server.connections() {
			sc.placed.Store(busy)
		}
		sameBatches(t, c.fetch(coldFetch(0)).Topics[0].Partitions[0].RecordBatches, wantCold(sizes))
		if placed := h.server.Stats().FetchedByPlace > 0; placed != (!busy && canSendFile) {
			t.Errorf("an answer on its way: %v, the next one by place: %v", busy, placed)
		}
	}
}

// Over TLS there is no sending from files.
func TestFetchOverTLSIsByCopy(t *testing.T) {
	cert, pool := selfSigned(t)
	h := &harness{TB: t, door: Listener{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}}
	h.serve(brokertest.Real(t, cold(vfs.OS(), filepath.Join(t.TempDir(), "d"))))
	h.topic("t", 1, nil)
	c := h.dial()
	c.nc = tls.Client(c.nc, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	sizes := []int{100 << 10, 100 << 10, 100 << 10}
	for i, size := range sizes {
		if p := ask[*kmsg.ProduceResponse](c, produceRequestOf("t", -1, coldBatch(i, size).Bytes())).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Fatalf("code %d", p.ErrorCode)
		}
	}
	sameBatches(t, c.fetch(coldFetch(0)).Topics[0].Partitions[0].RecordBatches, wantCold(sizes))
	if st := h.server.Stats(); st.FetchedByPlace != 0 || st.Fetched == 0 {
		t.Errorf("figures: %+v", st)
	}
}
