package kafka

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// onDisk serves topic "t" of a region on a real disk, as the disk in memory costs
// more than all that is measured. Nothing waits for the disk: that is no work of
// ours.
func onDisk(b *testing.B) *harness {
	b.Helper()
	h := startReal(b, func(c *storage.Config, _ *region.Config) {
		c.FS, c.Dir, c.FileSize, c.Durability = vfs.OS(), b.TempDir(), 0, storage.DurabilityNone
	})
	h.topic("t", 1, nil)
	return h
}

// benchBatch is a batch of n records of 1 KiB.
func benchBatch(n int) []byte {
	records := make([]codec.PlainRecord, n)
	for i := range records {
		records[i] = codec.PlainRecord{Timestamp: int64(1000 + i), Key: fmt.Append(nil, i), Value: make([]byte, 1024)}
	}
	return codec.BuildBatch(codec.NoSender, records)
}

// readAnswer skips an answer and gives its length.
func readAnswer(in *bufio.Reader) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	_, err := in.Discard(n)
	return n, err
}

// inFlight is how many requests the benchmarks keep on their way, as clients do.
const inFlight = 5

// pipeline sends a request b.N times and reads the answers, inFlight at a time.
func pipeline(b *testing.B, nc net.Conn, frame func(i int) []byte, answered func(size int)) {
	b.Helper()
	slots := make(chan struct{}, inFlight)
	failed := make(chan error, 1)
	go func() {
		for i := range b.N {
			slots <- struct{}{}
			if _, err := nc.Write(frame(i)); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	in := bufio.NewReaderSize(nc, 64<<10)
	for range b.N {
		n, err := readAnswer(in)
		if err != nil {
			b.Fatal(err)
		}
		answered(n)
		<-slots
	}
	if err := <-failed; err != nil {
		b.Fatal(err)
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, n := range []int{64, 900} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			nc := onDisk(b).dial().nc
			nc.SetDeadline(time.Time{})
			batch := benchBatch(n)
			req := frame(produceRequestOf("t", -1, batch), 1)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			b.ResetTimer()
			pipeline(b, nc, func(int) []byte { return req }, func(size int) {
				if size > 200 { // an error's text makes it longer
					b.Errorf("answer of %d bytes", size)
				}
			})
			b.StopTimer()
		})
	}
}

// BenchmarkProduceLarge sends requests as a client at full speed does: a large batch to each
// of six partitions.
func BenchmarkProduceLarge(b *testing.B) {
	h := onDisk(b)
	h.topic("six", 6, nil)
	nc := h.dial().nc
	nc.SetDeadline(time.Time{})
	batch := benchBatch(900)
	req := frame(produceRequestOf("six", -1, batch, batch, batch, batch, batch, batch), 1)
	b.SetBytes(int64(6 * len(batch)))
	b.ReportAllocs()
	b.ResetTimer()
	pipeline(b, nc, func(int) []byte { return req }, func(size int) {
		if size > 500 { // errors' texts make it longer
			b.Errorf("answer of %d bytes", size)
		}
	})
}

func BenchmarkFetch(b *testing.B) {
	const stored = 32 // batches
	for _, n := range []int{64, 900} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			nc := onDisk(b).dial().nc
			nc.SetDeadline(time.Time{})
			batch := benchBatch(n)
			produce := frame(produceRequestOf("t", -1, batch), 1)
			in := bufio.NewReader(nc)
			for range stored {
				if _, err := nc.Write(produce); err != nil {
					b.Fatal(err)
				}
				if _, err := readAnswer(in); err != nil {
					b.Fatal(err)
				}
			}
			req := fetchFrame(len(batch))
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			b.ResetTimer()
			at := len(req.bytes) - req.offset
			pipeline(b, nc, func(i int) []byte {
				binary.BigEndian.PutUint64(req.bytes[at:], uint64(i%stored*n))
				return req.bytes
			}, func(size int) {
				if size < len(batch) {
					b.Errorf("answer of %d bytes", size)
				}
			})
			b.StopTimer()
		})
	}
}

type offsetFrame struct {
	bytes  []byte
	offset int // of the fetch offset, from the end
}

// fetchFrame is a fetch without a session of about one batch of partition 0.
func fetchFrame(size int) offsetFrame {
	const mark = 0x1122334455667788
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, 1000, 1, int32(size)
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "t"
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = mark, int32(size), -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	req.SessionID, req.SessionEpoch = 0, -1
	out := frame(req, 1)
	for i := range out {
		if binary.BigEndian.Uint64(out[i:]) == mark {
			return offsetFrame{out, len(out) - i}
		}
	}
	panic("the request has no offset")
}
