package kafka

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/codec"
)

// largeProduce is a body, with its header, of batches of these sizes, two to a topic, -1 for null.
func largeProduce(version int16, sizes ...int) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 1000
	for i, n := range sizes {
		if i%2 == 0 {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.TopicID = fmt.Sprintf("topic-%d", i), [16]byte{1, byte(i)}
			req.Topics = append(req.Topics, topic)
		}
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition = int32(i)
		if n >= 0 {
			part.Records = make([]byte, n)
			for k := range part.Records {
				part.Records[k] = byte(rand.Uint32())
			}
		}
		topic := &req.Topics[len(req.Topics)-1]
		topic.Partitions = append(topic.Partitions, part)
	}
	return frame(req, 7)[8:] // behind length, key and version
}

// sumsOf hashes a body that comes in pieces of at most so many bytes.
func sumsOf(version int16, body []byte, most int) *bodySums {
	s := &bodySums{version: version, flexible: version >= apis[produceKey].flexible, size: len(body)}
	for have := 0; have < len(body); {
		have = min(len(body), have+1+rand.IntN(most))
		s.advance(body[:have])
	}
	return s
}

// TestBodySumsAreThoseOfItsBatches: whatever pieces a request comes in, each batch is found
// under its name, with its own hash.
func TestBodySumsAreThoseOfItsBatches(t *testing.T) {
	for version := apis[produceKey].min; version <= apis[produceKey].max; version++ {
		for _, most := range []int{1, 100, 5000, 1 << 20} {
			body := largeProduce(version, 8<<10, 30_000, -1, 0, 100, 80<<10, 1)
			r := &request{version: version, flexible: version >= apis[produceKey].flexible, api: apis[produceKey]}
			if err := r.parseHeader(body); err != nil {
				t.Fatal(err)
			}
			p, err := decodeProduce(r)
			if err != nil {
				t.Fatal(err)
			}
			s := sumsOf(version, body, most)
			if s.acks != p.acks || s.transactional != p.transactional {
				t.Fatalf("version %d: acks %d, want %d", version, s.acks, p.acks)
			}
			n := 0
			for _, topic := range p.topics {
				for _, part := range topic.parts {
					if n == len(s.sums) {
						t.Fatalf("version %d, pieces of %d: only %d batches", version, most, n)
					}
					b := s.sums[n]
					n++
					if b.topic.name != topic.name || b.topic.id != topic.id || b.partition != part.index || b.size != len(part.records) {
						t.Errorf("version %d, pieces of %d: %+v is not %s/%d of %d bytes", version, most, b, topic.name, part.index, len(part.records))
					}
					if !bytes.Equal(body[b.start:b.start+b.size], part.records) || b.crc != codec.Checksum(part.records[min(b.size, codec.BatchCRCStart):]) {
						t.Errorf("version %d, pieces of %d: batch %d lies elsewhere, or has another's hash", version, most, n)
					}
				}
			}
		}
	}
}

// TestBatchThatWasSpoiledOnItsWayIsRefused: with a hash that was made while it was read, too.
func TestBatchThatWasSpoiledOnItsWayIsRefused(t *testing.T) { both(t, spoiledOnItsWay) }

func spoiledOnItsWay(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	whole := benchBatch(900)
	spoiled := bytes.Clone(whole)
	spoiled[len(spoiled)/2] ^= 1
	c := h.dial()
	for _, sent := range []struct {
		batch []byte
		code  int16
	}{{spoiled, 2}, {whole, 0}} {
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(c.receive(c.send(produceRequestOf("t", -1, sent.batch)))[1:]); err != nil {
			t.Fatal(err)
		}
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != sent.code {
			t.Errorf("code %d, want %d", code, sent.code)
		}
	}
}

// FuzzBodySums: bytes that are no request neither break it nor give a hash that is none.
func FuzzBodySums(f *testing.F) {
	f.Add(int16(9), largeProduce(9, 100, 2000, -1), uint16(1000))
	f.Add(int16(3), largeProduce(3, 1001), uint16(10))
	f.Add(int16(13), largeProduce(13, 0, 300), uint16(1))
	f.Fuzz(func(t *testing.T, version int16, body []byte, most uint16) {
		s := sumsOf(version, body, 1+int(most))
		for _, sum := range s.sums {
			batch := body[sum.start : sum.start+sum.size]
			if sum.crc != codec.Checksum(batch[min(sum.size, codec.BatchCRCStart):]) {
				t.Fatalf("the hash of %d bytes from %d on is wrong", sum.size, sum.start)
			}
		}
	})
}
