package kafka

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
)

// stored fetches the batches of partition 0 from an offset on.
func (h *harness) stored(topic string, offset int64) codec.BatchHeader {
	h.Helper()
	b := h.dial().fetch(fetchRequest(topic, offset)).Topics[0].Partitions[0].RecordBatches
	first, err := codec.ParseBatch(b)
	if err == nil {
		first, err = codec.CheckBatch(b[:first.Size])
	}
	if err != nil {
		h.Fatal(err)
	}
	return first
}

// A batch that comes again gets the time that its first copy was stored with, as
// in Kafka: a producer that lost the answer must not show another.
func TestP60LogAppendTimeOfADuplicate(t *testing.T) { both(t, p60LogAppendTimeOfADuplicate) }

func p60LogAppendTimeOfADuplicate(t *testing.T, h *harness) {
	h.topic("t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	var times []int64
	batch := func(i int32) []byte {
		return brokertest.Batch{Times: []int64{5, 6}, Idempotent: true, Producer: 7, Sequence: 2 * i}.Bytes()
	}
	for i := range int32(3) {
		p := h.produced("t", 9, batch(i))
		times = append(times, p.LogAppendTime)
		for began := time.Now().UnixMilli(); time.Now().UnixMilli() == began; { // the next one has another time
			<-time.After(time.Millisecond)
		}
	}
	for i := range int32(3) {
		p := h.produced("t", 9, batch(i))
		if p.ErrorCode != 0 || p.BaseOffset != int64(2*i) || p.LogAppendTime != times[i] {
			t.Errorf("copy %d: %+v, want the time %d of %v", i, p, times[i], times)
		}
		if b := h.stored("t", int64(2*i)); b.MaxTimestamp != times[i] || b.Attributes&codec.AttrLogAppendTime == 0 {
			t.Errorf("stored: %+v, answered %d", b, times[i])
		}
	}
	h.deleteTo(4, 4) // the first two are gone
	if p := h.produced("t", 9, batch(0)); p.ErrorCode != 0 || p.LogAppendTime != -1 {
		t.Errorf("copy of a batch that is gone: %+v", p)
	}
}

// Timestamps outside of what the topic takes are INVALID_TIMESTAMP, and the
// records are named.
func TestTimestampsAreBounded(t *testing.T) { both(t, timestampsAreBounded) }

func timestampsAreBounded(t *testing.T, h *harness) {
	now := time.Now().UnixMilli()
	hour := int64(3600_000)
	h.topic("after", 1, nil)
	h.topic("before", 1, map[string]string{"message.timestamp.before.max.ms": "60000"})
	h.topic("stamped", 1, map[string]string{"message.timestamp.before.max.ms": "60000", "message.timestamp.type": "LogAppendTime"})
	for _, tc := range []struct {
		topic string
		times []int64
		code  int16
		named []int32
	}{
		{"after", []int64{now, now + hour/2}, 0, nil},
		{"after", []int64{now, now + 2*hour}, codeInvalidTimestamp, nil},
		{"after", []int64{-1}, 0, nil}, // no time at all
		{"after", []int64{0}, 0, nil},
		{"before", []int64{now, now - 1000}, 0, nil},
		{"before", []int64{now, now - hour, now, now - 2*hour}, codeInvalidTimestamp, []int32{1, 3}},
		{"before", []int64{-1}, 0, nil},
		{"stamped", []int64{now - hour, now + 5*hour}, 0, nil},
	} {
		p := h.produced(tc.topic, 9, brokertest.Batch{Times: tc.times}.Bytes())
		var named []int32
		for _, r := range p.ErrorRecords {
			named = append(named, r.RelativeOffset)
		}
		if p.ErrorCode != tc.code || !slices.Equal(named, tc.named) {
			t.Errorf("%s %v: %+v", tc.topic, tc.times, p)
		}
	}
}

// A compacted topic takes no record without a key; the answer names those that
// have none, however the batch is compressed (KIP-467).
func TestRecordsWithoutKeysAreNamed(t *testing.T) { both(t, recordsWithoutKeysAreNamed) }

func recordsWithoutKeysAreNamed(t *testing.T, h *harness) {
	h.topic("t", 1, map[string]string{"cleanup.policy": "compact"})
	records := []codec.PlainRecord{{Timestamp: 1, Key: []byte("k")}, {Timestamp: 1, Value: []byte("v")}, {Timestamp: 1, Key: []byte{}}, {Timestamp: 1}}
	for _, pack := range codectest.Packings {
		p := h.produced("t", 9, pack.Batch(codec.BuildBatch(codec.NoSender, records)))
		if p.ErrorCode != codeInvalidRecord || len(p.ErrorRecords) != 2 || p.ErrorRecords[0].RelativeOffset != 1 || p.ErrorRecords[1].RelativeOffset != 3 ||
			p.ErrorRecords[0].ErrorMessage == nil || p.ErrorMessage == nil {
			t.Errorf("%s: %+v", pack.Name, p)
		}
	}
	old := produceRequestOf("t", -1, codec.BuildBatch(codec.NoSender, records))
	old.Version = 7 // has no room for names
	if p := ask[*kmsg.ProduceResponse](h.dial(), old).Topics[0].Partitions[0]; p.ErrorCode != codeInvalidRecord {
		t.Errorf("%+v", p)
	}
	many := make([]codec.PlainRecord, 5000)
	if p := h.produced("t", 9, codec.BuildBatch(codec.NoSender, many)); p.ErrorCode != codeInvalidRecord || len(p.ErrorRecords) != 100 {
		t.Errorf("code %d, %d records named", p.ErrorCode, len(p.ErrorRecords))
	}
	if p := h.produced("t", 9, brokertest.Batch{Times: []int64{1}}.Bytes()); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("%+v", p)
	}
}

// A header whose largest timestamp cannot be right is put right from the records:
// look-ups by time and retention go by it.
func TestP58WrongMaxTimestampIsPutRight(t *testing.T) { both(t, p58WrongMaxTimestampIsPutRight) }

func p58WrongMaxTimestampIsPutRight(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.topic("full", 1, map[string]string{"validate": "full"})
	for _, pack := range codectest.Packings {
		for topic, claimed := range map[string][]int64{"t": {-1, 0, 499}, "full": {-1, 500, 510, 5000}} {
			for _, claim := range claimed {
				b := pack.Batch(brokertest.Batch{Times: []int64{500, 900, 400}}.Bytes())
				binary.BigEndian.PutUint64(b[35:], uint64(claim))
				codec.SealBatch(b)
				p := h.produced(topic, 9, b)
				if p.ErrorCode != 0 {
					t.Fatalf("%s, %d claimed: %+v", pack.Name, claim, p)
				}
				if got := h.stored(topic, p.BaseOffset); got.MaxTimestamp != 900 {
					t.Errorf("%s, %s, %d claimed: stored %+v", topic, pack.Name, claim, got)
				}
			}
		}
	}
	h.wantLook(600, 1, 900)
}
