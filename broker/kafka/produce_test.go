package kafka

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// produced sends one batch and gives its answer.
func (h *harness) produced(topic string, version int16, batch []byte) kmsg.ProduceResponseTopicPartition {
	h.Helper()
	req := produceRequestOf(topic, -1, batch)
	req.Version = version
	return ask[*kmsg.ProduceResponse](h.dial(), req).Topics[0].Partitions[0]
}

func TestP48BaseOffsetIsOfTheFirstRecord(t *testing.T) { both(t, p48BaseOffsetIsOfTheFirstRecord) }

func p48BaseOffsetIsOfTheFirstRecord(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	for _, want := range []int64{0, 3, 6} {
		if p := h.produced("t", 9, brokertest.Batch{Times: []int64{1, 2, 3}}.Bytes()); p.BaseOffset != want || p.LogStartOffset != 0 || p.LogAppendTime != -1 {
			t.Fatalf("%+v, want base %d", p, want)
		}
	}
}

func TestProduceRefusals(t *testing.T) {
	h := start(t)
	h.topic("t", 1, map[string]string{"max.message.bytes": "2000"})
	h.topic("compact", 1, map[string]string{"cleanup.policy": "compact"})
	one := brokertest.Batch{Times: []int64{1}}
	changed := func(change func(b []byte)) []byte {
		b := one.Bytes()
		change(b)
		codec.SealBatch(b)
		return b
	}
	idempotent := brokertest.Batch{Times: []int64{1}, Idempotent: true, Producer: 5, Sequence: -1}
	future := brokertest.Batch{Times: []int64{time.Now().Add(2 * time.Hour).UnixMilli()}}
	for name, tc := range map[string]struct {
		topic   string
		version int16
		batch   []byte
		code    int16
	}{
		"P56 magic 1":                 {"t", 9, changed(func(b []byte) { b[16] = 1 }), codeInvalidRecord},
		"magic 0":                     {"t", 9, changed(func(b []byte) { b[16] = 0 }), codeInvalidRecord},
		"magic 3":                     {"t", 9, changed(func(b []byte) { b[16] = 3 }), codeCorruptMessage},
		"magic 5":                     {"t", 3, changed(func(b []byte) { b[16] = 5 }), codeCorruptMessage},
		"negative magic":              {"t", 9, changed(func(b []byte) { b[16] = 0xfe }), codeCorruptMessage},
		"no batch":                    {"t", 9, nil, codeInvalidRecord},
		"cut":                         {"t", 9, one.Bytes()[:70], codeCorruptMessage},
		"two batches":                 {"t", 9, append(one.Bytes(), one.Bytes()...), codeInvalidRecord},
		"wrong CRC":                   {"t", 9, append(one.Bytes()[:60:60], 9), codeCorruptMessage},
		"count":                       {"t", 9, changed(func(b []byte) { b[60] = 2 }), codeInvalidRecord},
		"codec 5":                     {"t", 9, changed(func(b []byte) { b[22] |= 5 }), codeInvalidRecord},
		"P141 control bit":            {"t", 9, changed(func(b []byte) { b[22] |= 0x20 }), codeInvalidRecord},
		"transactional bit":           {"t", 9, changed(func(b []byte) { b[22] |= 0x10 }), codeUnsupportedForFormat},
		"log append time":             {"t", 9, changed(func(b []byte) { b[22] |= 0x08 }), codeInvalidRecord},
		"negative sequence":           {"t", 9, idempotent.Bytes(), codeInvalidRecord},
		"future":                      {"t", 9, future.Bytes(), codeInvalidTimestamp},
		"too large":                   {"t", 9, brokertest.Batch{Times: []int64{1}, Value: make([]byte, 2000)}.Bytes(), codeMessageTooLarge},
		"P73 zstd at version 6":       {"t", 6, changed(func(b []byte) { b[22] |= 4 }), codeUnsupportedCompressionType},
		"no such topic":               {"absent", 9, one.Bytes(), codeUnknownTopicOrPartition},
		"bad topic":                   {"a b", 9, one.Bytes(), codeInvalidTopic},
		"no key in a compacted topic": {"compact", 9, brokertest.Batch{Times: []int64{1}, NoKeys: true}.Bytes(), codeInvalidRecord},
		"damaged record":              {"compact", 9, brokertest.Batch{Times: []int64{1}, Records: []byte{200, 1, 1, 0, 0, 0, 0}}.Bytes(), codeCorruptMessage},
	} {
		if p := h.produced(tc.topic, tc.version, tc.batch); p.ErrorCode != tc.code || p.BaseOffset != -1 || tc.version >= 8 && p.ErrorMessage == nil {
			t.Errorf("%s: %+v, want code %d", name, p, tc.code)
		}
	}
	if end := h.ends("t"); end != 0 {
		t.Errorf("%d records were stored", end)
	}
}

func TestProduceRefusesTheRequest(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	req := produceRequestOf("t", 2, oneRecord())
	c := h.dial()
	if p := ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0]; p.ErrorCode != codeInvalidRequiredAcks {
		t.Errorf("acks 2: %+v", p)
	}
	req.Acks, req.TransactionID = -1, ptr("tx")
	if p := ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0]; p.ErrorCode != codeTransactionalIDAuthFailed {
		t.Errorf("transaction: %+v", p)
	}
	req.TransactionID, req.Version, req.Topics[0].TopicID = nil, 13, [16]byte{9}
	if p := ask[*kmsg.ProduceResponse](c, req).Topics[0]; p.Partitions[0].ErrorCode != codeUnknownTopicID || p.TopicID != [16]byte{9} {
		t.Errorf("unknown id: %+v", p)
	}
}

// A client that leaves the max timestamp out still gets an index by time.
func TestP58MaxTimestampIsNotTrusted(t *testing.T) { both(t, p58MaxTimestampIsNotTrusted) }

func p58MaxTimestampIsNotTrusted(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	b := brokertest.Batch{Times: []int64{500, 400}}.Bytes()
	binary.BigEndian.PutUint64(b[35:], 0)
	codec.SealBatch(b)
	if p := h.produced("t", 9, b); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	h.wantLook(450, 0, 500)
}

func TestLogAppendTime(t *testing.T) { both(t, logAppendTime) }

func logAppendTime(t *testing.T, h *harness) {
	h.topic("t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	before := time.Now().UnixMilli()
	p := h.produced("t", 9, brokertest.Batch{Times: []int64{1, 2}}.Bytes())
	if p.ErrorCode != 0 || p.LogAppendTime < before || p.LogAppendTime > time.Now().UnixMilli() {
		t.Fatalf("%+v", p)
	}
	h.wantLook(2, 0, p.LogAppendTime)
	h.produced("t", 9, h.dial().fetch(fetchRequest("t", 0)).Topics[0].Partitions[0].RecordBatches) // its CRC is right
	if end := h.ends("t"); end != 4 {
		t.Fatalf("%d records", end)
	}
}

func TestP60DuplicatesOfTheLastFiveBatches(t *testing.T) { both(t, p60DuplicatesOfTheLastFiveBatches) }

func p60DuplicatesOfTheLastFiveBatches(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	send := func(sequence int32, epoch int16) (int64, int16) {
		b := brokertest.Batch{Times: []int64{1, 2}, Idempotent: true, Producer: 7, Epoch: epoch, Sequence: sequence}
		p := h.produced("t", 9, b.Bytes())
		return p.BaseOffset, p.ErrorCode
	}
	for i := range int32(6) {
		if base, code := send(2*i, 1); code != 0 || base != int64(2*i) {
			t.Fatalf("batch %d: base %d code %d", i, base, code)
		}
	}
	for i := int32(1); i < 6; i++ {
		if base, code := send(2*i, 1); code != 0 || base != int64(2*i) {
			t.Errorf("duplicate %d: base %d code %d", i, base, code)
		}
	}
	if _, code := send(40, 1); code != codeOutOfOrderSequence {
		t.Errorf("gap: code %d", code)
	}
	if _, code := send(12, 0); code != codeInvalidProducerEpoch {
		t.Errorf("old epoch: code %d", code)
	}
	if end := h.ends("t"); end != 12 {
		t.Errorf("%d records", end)
	}
}

// The batches of one connection are appended in the order of its requests,
// though none waits for the answer of the one before.
func TestP50AppendOrderIsArrivalOrder(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.region.Hold()
	c := h.dial()
	const n = 50
	for i := range n {
		c.send(produceRequestOf("t", -1, brokertest.Batch{Times: []int64{int64(i + 1)}}.Bytes()))
	}
	waitFor(t, "all appends", func() bool { s, _ := h.region.State(h.ref("t")); return s.End == n })
	h.region.Free()
	for i := range n {
		req := produceRequestOf("t", -1)
		if p := decodeAnswer[*kmsg.ProduceResponse](c, req, c.receive(int32(i+1))).Topics[0].Partitions[0]; p.BaseOffset != int64(i) {
			t.Fatalf("request %d at offset %d", i, p.BaseOffset)
		}
		h.wantLook(int64(i+1), int64(i), int64(i+1))
	}
}

// standby refuses producers as a region of another role does.
type standby struct{ onlyDefault }

func (standby) CheckProduce(t rhumb.Topic) error {
	return rhumb.Errorf(rhumb.KindForbidden, "%w: the active region is eu: produce there", broker.ErrStandby)
}

// TestI14StandbyAnswersAPolicyViolation: with the message, which Java's producer
// shows for this code and not for an authorization error. Reading goes on.
func TestI14StandbyAnswersAPolicyViolation(t *testing.T) {
	h := start(t, func(b *broker.Config, _ *Config) { b.Policy = standby{} })
	h.topic("t", 1, nil)
	p := h.produced("t", 9, brokertest.Batch{Times: []int64{1}}.Bytes())
	if p.ErrorCode != codePolicyViolation || p.BaseOffset != -1 || p.ErrorMessage == nil || !strings.Contains(*p.ErrorMessage, "the active region is eu: produce there") {
		t.Errorf("%+v", p)
	}
	if p := h.produced("t", 3, brokertest.Batch{Times: []int64{1}}.Bytes()); p.ErrorCode != codePolicyViolation { // before messages
		t.Errorf("%+v", p)
	}
}
