package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/brokertest"
)

func listRequest(topic string, version int16, asked ...int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, ts := range asked {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = ts, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// look asks partition 0 for one timestamp.
func (h *harness) look(ts int64) kmsg.ListOffsetsResponseTopicPartition {
	h.Helper()
	p := ask[*kmsg.ListOffsetsResponse](h.dial(), listRequest("t", 11, ts)).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		h.Fatalf("timestamp %d: code %d", ts, p.ErrorCode)
	}
	return p
}

func (h *harness) wantLook(asked, offset, timestamp int64) {
	h.Helper()
	if p := h.look(asked); p.Offset != offset || p.Timestamp != timestamp {
		h.Errorf("asked %d: offset %d timestamp %d, want %d and %d", asked, p.Offset, p.Timestamp, offset, timestamp)
	}
}

func TestP108TimeLookupBetweenRecords(t *testing.T) { both(t, p108TimeLookupBetweenRecords) }

func p108TimeLookupBetweenRecords(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	for _, ts := range []int64{2, 4, 6, 8} {
		h.append("t", brokertest.Batch{Times: []int64{ts}})
	}
	for i, ts := range []int64{3, 5, 7} {
		h.wantLook(ts, int64(i+1), ts+1)
	}
	h.wantLook(9, -1, -1)
}

func TestP110TimeLookupInsideABatch(t *testing.T) { both(t, p110TimeLookupInsideABatch) }

func p110TimeLookupInsideABatch(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.append("t", brokertest.Batch{Times: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}})
	h.wantLook(7, 6, 7)
}

func TestP111TimeLookupWithUnorderedTimes(t *testing.T) { both(t, p111TimeLookupWithUnorderedTimes) }

func p111TimeLookupWithUnorderedTimes(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.append("t", brokertest.Batch{Times: []int64{5, 20}}, brokertest.Batch{Times: []int64{10, 3}}, brokertest.Batch{Times: []int64{30}})
	h.wantLook(10, 1, 20)
	h.wantLook(6, 1, 20)
	h.wantLook(21, 4, 30)
}

func TestP115LargestTimestamp(t *testing.T) { both(t, p115LargestTimestamp) }

func p115LargestTimestamp(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.wantLook(askLargest, -1, -1)
	h.append("t", brokertest.Batch{Times: []int64{5, 20, 20}}, brokertest.Batch{Times: []int64{20, 3}})
	h.wantLook(askLargest, 1, 20)
}

func TestP116AndP165LookupsFollowTheLogStart(t *testing.T) {
	both(t, p116AndP165LookupsFollowTheLogStart)
}

func p116AndP165LookupsFollowTheLogStart(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.append("t", brokertest.Batch{Times: []int64{50, 40, 30}}, brokertest.Batch{Times: []int64{10}})
	h.deleteTo(2, 2)
	h.wantLook(askLargest, 2, 30)
	h.wantLook(35, -1, -1)
	h.wantLook(askStart, 2, -1)
	h.wantLook(askLocalStart, 2, -1)
	h.deleteTo(-1, 4) // P121: emptied
	for _, asked := range []int64{askStart, askEnd} {
		h.wantLook(asked, 4, -1)
	}
	h.wantLook(0, -1, -1)
	h.append("t", brokertest.Batch{Times: []int64{1}})
	h.wantLook(askLargest, 4, 1)
	h.wantLook(0, 4, 1)
	h.wantLook(askLastTiered, -1, -1)
	h.wantLook(askPendingTiered, -1, -1)
}

func (h *harness) deleteTo(offset, want int64) {
	h.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = 2
	topic := kmsg.NewDeleteRecordsRequestTopic()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = offset
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	if got := ask[*kmsg.DeleteRecordsResponse](h.dial(), req).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LowWatermark != want {
		h.Fatalf("%+v", got)
	}
}

func TestP95EpochOfTheFoundRecord(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	for ts := range int64(4) {
		h.append("t", brokertest.Batch{Times: []int64{ts + 1}})
		h.region.NextEpoch()
	}
	for asked, epoch := range map[int64]int32{askStart: 1, 1: 1, 2: 2, 3: 3, askLargest: 4, askEnd: 5} {
		if p := h.look(asked); p.LeaderEpoch != epoch {
			t.Errorf("asked %d: epoch %d, want %d", asked, p.LeaderEpoch, epoch)
		}
	}
}

func TestP96OffsetForLeaderEpoch(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.region.NextEpoch() // epochs 2, 2, 4, 4, 6, 6, of three records each
	for i := range 6 {
		h.append("t", brokertest.Batch{Times: []int64{1, 2, 3}})
		if i%2 == 1 {
			h.region.NextEpoch()
			h.region.NextEpoch()
		}
	}
	for asked, want := range map[int32][2]int64{-1: {-1, -1}, 0: {0, 0}, 1: {1, 0}, 2: {2, 6}, 3: {2, 6}, 4: {4, 12}, 5: {4, 12}, 6: {6, 18},
		7: {6, 18}, 8: {8, 18}, 9: {-1, -1}} {
		h.epochEnds("t", asked, want)
	}
}

// TestP96EpochOfNothing asks where an epoch ended that left nothing, or nothing any more: not below
// what a consumer of its time may have read, as it would be told of a truncation.
func TestP96EpochOfNothing(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	trimmed := h.topic("trimmed", 1, nil)
	h.append("trimmed", brokertest.Batch{Times: []int64{1, 2, 3}})
	if _, err := h.broker.DeleteRecords(t.Context(), &trimmed, 0, 3); err != nil {
		t.Fatal(err)
	}
	h.epochEnds("t", 1, [2]int64{1, 0})
	h.region.NextEpoch() // as a restart does
	h.epochEnds("t", 1, [2]int64{1, 0})
	h.epochEnds("trimmed", 1, [2]int64{1, 3})
	h.region.NextEpoch()
	h.append("trimmed", brokertest.Batch{Times: []int64{4}})
	h.epochEnds("trimmed", 1, [2]int64{1, 3})
	h.epochEnds("trimmed", 2, [2]int64{2, 3})
}

func (h *harness) epochEnds(topic string, asked int32, want [2]int64) {
	h.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = 4, -2
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LeaderEpoch = -1, asked
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got := ask[*kmsg.OffsetForLeaderEpochResponse](h.dial(), req).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || int64(got.LeaderEpoch) != want[0] || got.EndOffset != want[1] {
		h.Errorf("%s, epoch %d: %d ends at %d, want %v", topic, asked, got.LeaderEpoch, got.EndOffset, want)
	}
}
