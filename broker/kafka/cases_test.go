package kafka

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Tests of docs/cases.md that belong to no single API.

// Message sets of before Kafka 0.11 are refused by name and store nothing.
func TestP56OldMessageSetsAreRefused(t *testing.T) { both(t, p56OldMessageSetsAreRefused) }

func p56OldMessageSetsAreRefused(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	for magic := range byte(2) {
		set := bytes.Repeat([]byte{0}, 80)
		set[11], set[16] = 68, magic
		if p := h.produced("t", 3, set); p.ErrorCode != codeInvalidRecord {
			t.Errorf("magic %d: %+v", magic, p)
		}
	}
	if end := h.ends("t"); end != 0 {
		t.Errorf("%d records", end)
	}
}

// A first batch that was refused as not leader was not stored: the same sequence
// is taken afterwards.
func TestP63NotLeaderMeansNotStored(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	batch := brokertest.Batch{Times: []int64{1}, Idempotent: true, Producer: 5}
	for _, kind := range []rhumb.Kind{rhumb.KindNotLeader, rhumb.KindUnavailable} {
		h.region.OnAppend(func(rhumb.PartitionRef, broker.AppendRequest) error { return rhumb.Errorf(kind, "moving") })
		if p := h.produced("t", 9, batch.Bytes()); p.ErrorCode != codeNotLeaderOrFollower || p.BaseOffset != -1 {
			t.Errorf("%+v", p)
		}
	}
	h.region.OnAppend(nil)
	h.region.NextEpoch()
	if p := h.produced("t", 9, batch.Bytes()); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("%+v", p)
	}
}

// A partition that knows nothing of a producer takes any first sequence, and from
// then on the next one only (KIP-360); 2^31-1 is followed by 0.
func TestP65P66SequencesAreKafkas(t *testing.T) { both(t, p65P66SequencesAreKafkas) }

func p65P66SequencesAreKafkas(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	const last = 1<<31 - 1
	for _, step := range []struct {
		sequence int32
		records  int
		epoch    int16
		code     int16
		base     int64
	}{
		{last - 2, 2, 0, 0, 0},
		{last - 2, 2, 0, 0, 0}, // a copy
		{last - 1, 2, 0, codeOutOfOrderSequence, -1},
		{last, 3, 0, 0, 2}, // last, 0, 1
		{2, 1, 0, 0, 5},
		{4, 1, 0, codeOutOfOrderSequence, -1},
		{4, 1, 1, codeOutOfOrderSequence, -1}, // a new epoch starts at 0
		{0, 1, 1, 0, 6},
		{1, 1, 0, codeInvalidProducerEpoch, -1},
	} {
		b := brokertest.Batch{Times: make([]int64, step.records), Idempotent: true, Producer: 5, Epoch: step.epoch, Sequence: step.sequence}
		if p := h.produced("t", 9, b.Bytes()); p.ErrorCode != step.code || p.BaseOffset != step.base {
			t.Errorf("%+v: %+v", step, p)
		}
	}
}

// All codecs are stored as they came; zstd needs a version whose clients know it.
func TestP73EveryCodecIsTaken(t *testing.T) { both(t, p73EveryCodecIsTaken) }

func p73EveryCodecIsTaken(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	plain := brokertest.Batch{Times: []int64{1, 2, 3}, Value: []byte("value")}.Bytes()
	offset := int64(0)
	for _, pack := range codectest.Packings {
		sent := pack.Batch(plain)
		for version, code := range map[int16]int16{6: codeUnsupportedCompressionType, 7: 0, 13: 0} {
			if version < 7 && pack.Codec != codec.CodecZstd {
				code = 0
			}
			req := produceRequestOf("t", -1, bytes.Clone(sent))
			info, _ := h.broker.Topic(mustTopic(t, "t"))
			req.Version, req.Topics[0].TopicID = version, info.ID
			p := ask[*kmsg.ProduceResponse](h.dial(), req).Topics[0].Partitions[0]
			if p.ErrorCode != code || code == 0 && p.BaseOffset != offset {
				t.Errorf("%s at version %d: %+v, want code %d at %d", pack.Name, version, p, code, offset)
			}
			if code != 0 {
				continue
			}
			got := h.dial().fetch(fetchRequest("t", offset)).Topics[0].Partitions[0].RecordBatches
			if !bytes.Equal(got[21:len(sent)], sent[21:]) {
				t.Errorf("%s: stored other bytes than came", pack.Name)
			}
			offset += 3
		}
	}
}

// Null and empty differ, for keys, values and headers; header keys may stand twice
// and values may be any bytes.
func TestP76P78ContentComesBackExactly(t *testing.T) { both(t, p76P78ContentComesBackExactly) }

func p76P78ContentComesBackExactly(t *testing.T, h *harness) {
	all := []*kgo.Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("tombstone"), Value: nil},
		{Key: []byte{0, 255}, Value: []byte{0}, Headers: []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}, {Key: "", Value: []byte{0, 255}}}},
	}
	c := h.client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := c.ProduceSync(h.ctx(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for i, r := range h.consume(h.client(kgo.ConsumeTopics("t")), len(all)) {
		want := all[i]
		same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
		if !same(r.Key, want.Key) || !same(r.Value, want.Value) || !slices.EqualFunc(r.Headers, want.Headers, func(a, b kgo.RecordHeader) bool {
			return a.Key == b.Key && same(a.Value, b.Value)
		}) {
			t.Errorf("record %d: %+v, want %+v", i, r, want)
		}
	}
}

// A fetch that waits hears of the topic's end at once, with the code that ends the
// reading.
func TestP91FetchOfADeletedTopicEnds(t *testing.T) { both(t, p91FetchOfADeletedTopicEnds) }

func p91FetchOfADeletedTopicEnds(t *testing.T, h *harness) {
	for version, code := range map[int16]int16{12: codeUnknownTopicOrPartition, 18: codeUnknownTopicID} {
		info := h.topic("t", 1, nil)
		req := fetchRequest("t", 0)
		req.Version, req.Topics[0].TopicID, req.MaxWaitMillis = version, info.ID, 50_000
		c := h.dial()
		correlation := c.send(req)
		waitFor(t, "the fetch waits", func() bool { return h.held() > 0 })
		if err := h.broker.DeleteTopic(h.ctx(), info); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		resp := decodeAnswer[*kmsg.FetchResponse](c, req, c.receive(correlation))
		if got := resp.Topics[0].Partitions[0].ErrorCode; got != code || time.Since(began) > 45*time.Second {
			t.Errorf("version %d: code %d after %v, want %d", version, got, time.Since(began), code)
		}
		again := ask[*kmsg.FetchResponse](h.dial(), req)
		if got := again.Topics[0].Partitions[0].ErrorCode; got != code {
			t.Errorf("version %d, asked again: code %d, want %d", version, got, code)
		}
	}
}

// A log that deletion emptied has a first position, which is its end: it can be
// read from there, and has no record at any time.
func TestP100P121EmptiedLog(t *testing.T) { both(t, p100P121EmptiedLog) }

func p100P121EmptiedLog(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	for range 4 {
		h.append("t", brokertest.Batch{Times: []int64{1000, 2000}})
	}
	h.deleteTo(-1, 8)
	h.wantLook(askStart, 8, -1)
	h.wantLook(askEnd, 8, -1)
	h.wantLook(askLargest, -1, -1)
	h.wantLook(0, -1, -1)
	h.wantLook(1500, -1, -1)
	atEnd := fetchRequest("t", 8)
	atEnd.MaxWaitMillis = 1
	if p := h.dial().fetch(atEnd).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.HighWatermark != 8 || p.LogStartOffset != 8 || len(p.RecordBatches) != 0 {
		t.Errorf("%+v", p)
	}
	c := h.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	h.append("t", brokertest.Batch{Times: []int64{3000}})
	if r := h.consume(c, 1); r[0].Offset != 8 {
		t.Errorf("a new consumer reads offset %d first", r[0].Offset)
	}
	h.wantLook(1500, 8, 3000)
}

// The end that look-ups give is that of records that were answered: with nothing
// under way it is the offset after the last answer, and of an empty topic the
// start.
func TestP120LatestIsAnswered(t *testing.T) { both(t, p120LatestIsAnswered) }

func p120LatestIsAnswered(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.wantLook(askEnd, 0, -1)
	h.wantLook(askStart, 0, -1)
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				h.append("t", brokertest.Batch{Times: []int64{1, 2, 3}})
			}
		}
	}()
	for range 50 {
		end := h.look(askEnd).Offset
		req := fetchRequest("t", end)
		req.MaxWaitMillis = 1
		if p := h.dial().fetch(req).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.HighWatermark < end || end%3 != 0 {
			t.Errorf("end %d: %+v", end, p)
		}
	}
	close(stop)
	<-done
}

// Nothing is throttled, and every answer that can say so says 0: clients with a
// short throttle spin.
func TestP166NothingIsThrottled(t *testing.T) { both(t, p166NothingIsThrottled) }

func p166NothingIsThrottled(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	told := 0
	for _, a := range offered() {
		req := kmsg.RequestForKey(a.key)
		req.SetVersion(a.max)
		fill(h, req)
		resp := ask[kmsg.Response](h.dial(), req)
		if r, ok := resp.(kmsg.ThrottleResponse); ok {
			told++
			if millis, _ := r.Throttle(); millis != 0 {
				t.Errorf("%s: %d ms", kmsg.NameForKey(a.key), millis)
			}
		}
	}
	if told == 0 {
		t.Error("no answer has a throttle time")
	}
}

// A setting that cannot be honoured is refused, and the topic is not made.
func TestSettingThatCannotBeHonouredMakesNoTopic(t *testing.T) {
	h := start(t)
	_, err := h.admin().CreateTopic(h.ctx(), 1, 1, map[string]*string{"compression.type": ptr("zstd")}, "t")
	if !errors.Is(err, kerr.InvalidConfig) || len(h.region.Topics()) != 0 {
		t.Errorf("%v, %d topics", err, len(h.region.Topics()))
	}
}
