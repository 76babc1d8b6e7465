package kafka

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/codec"
)

// Bodies are read into buffers that were used before: what is stored is never
// what a later request, or one of another connection, wrote there.
func TestBodiesOfProducesDoNotMix(t *testing.T) { both(t, bodiesOfProducesDoNotMix) }

func bodiesOfProducesDoNotMix(t *testing.T, h *harness) {
	const conns, each = 4, 100
	h.topic("t", 1, nil)
	var senders sync.WaitGroup
	for at := range conns {
		c := h.dial()
		acks := int16(at % 2) // half of them do not wait at all
		senders.Go(func() {
			for i := range each {
				value := bytes.Repeat(fmt.Appendf(nil, "%d/%d;", at, i), 1+i*20)
				batch := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Timestamp: 1000, Key: fmt.Appendf(nil, "%d/%d;", at, i), Value: value}})
				if correlation := c.send(produceRequestOf("t", acks, batch)); acks != 0 {
					resp := kmsg.NewPtrProduceResponse()
					resp.Version = 9
					if err := resp.ReadFrom(c.receive(correlation)[1:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
						t.Errorf("connection %d, request %d: %+v, %v", at, i, resp, err)
					}
				}
			}
		})
	}
	senders.Wait()
	seen := map[string]bool{}
	for _, r := range h.consume(h.client(kgo.ConsumeTopics("t")), conns*each) {
		if seen[string(r.Key)] || !bytes.Equal(r.Value, bytes.Repeat(r.Key, len(r.Value)/len(r.Key))) {
			t.Fatalf("record %d of key %s: seen %v, or its value is another's", r.Offset, r.Key, seen[string(r.Key)])
		}
		seen[string(r.Key)] = true
	}
}
