package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

type fixture struct {
	*testing.T
	*broker.Broker
	region *brokertest.Region
	topic  broker.TopicInfo
}

func newFixture(t *testing.T, configs map[string]string) *fixture {
	t.Helper()
	f := &fixture{T: t, region: brokertest.New()}
	b, err := broker.New(broker.Config{Region: f.region, ExpandLimit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f.Broker = b
	f.topic, err = b.CreateTopic(t.Context(), broker.TopicSpec{Topic: rhumb.Topic{Tenant: "a", Namespace: "b", Name: "c"}, Configs: configs})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) append(b brokertest.Batch) broker.AppendAnswer {
	f.Helper()
	return f.appendBytes(b.Bytes())
}

func (f *fixture) appendBytes(b []byte) broker.AppendAnswer {
	a := f.Append([]broker.AppendItem{{Topic: &f.topic, Records: b}}, func(error) {})
	return a.Wait(f.Context(), time.Now().Add(time.Minute))[0]
}

// What the records of a batch must be is asked for with validate=full.
func TestFullValidation(t *testing.T) {
	f := newFixture(t, map[string]string{"validate": "full"})
	good := brokertest.Batch{Times: []int64{1, 2, 3}, Value: make([]byte, 100)}
	for _, p := range codectest.Packings {
		if a := f.appendBytes(p.Batch(good.Bytes())); a.Err != nil {
			t.Errorf("%s: %v", p.Name, a.Err)
		}
		packed := p.Pack(good.Encode())
		if a := f.appendBytes(codectest.WithRecords(good.Bytes(), p.Codec, packed[:len(packed)/2])); rhumb.KindOf(a.Err) != rhumb.KindCorrupt {
			t.Errorf("%s, cut: %v", p.Name, a.Err)
		}
	}
	jump := append([]byte{12, 0, 0, 0, 1, 1, 0}, 12, 0, 0, 4, 1, 1, 0)
	if a := f.append(brokertest.Batch{Times: []int64{1, 2}, Records: jump}); rhumb.KindOf(a.Err) != rhumb.KindInvalid {
		t.Errorf("deltas 0 and 2: %v", a.Err)
	}
}

// A small batch that expands to much is refused before it has expanded.
func TestP75ExpansionIsBounded(t *testing.T) {
	f := newFixture(t, map[string]string{"validate": "full"})
	one := brokertest.Batch{Times: []int64{1}, Value: make([]byte, 8<<20)}.Bytes()
	many := brokertest.Batch{Times: make([]int64, 300_000)}.Bytes() // small records, together too large
	for _, p := range codectest.Packings[1:] {
		for name, batch := range map[string][]byte{"one": one, "many": many} {
			packed := p.Batch(batch)
			if len(packed) > 1<<20 {
				continue // not accepted at all
			}
			if a := f.appendBytes(packed); rhumb.KindOf(a.Err) != rhumb.KindTooLarge {
				t.Errorf("%s, %s: %v", p.Name, name, a.Err)
			}
		}
	}
}

// FuzzRecords: whatever the records of a batch with a right CRC are, checking
// them and looking a time up among them ends without a panic.
func FuzzRecords(f *testing.F) {
	records := brokertest.Batch{Times: []int64{1, 5, 3}}.Encode()
	for _, p := range codectest.Packings {
		f.Add(p.Codec, p.Pack(records), uint8(3))
	}
	f.Add(int16(codec.CodecLZ4), []byte{4, 0x22, 0x4d, 0x18}, uint8(3))
	region := brokertest.New()
	b, err := broker.New(broker.Config{Region: region, ExpandLimit: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	full, _ := b.CreateTopic(f.Context(), broker.TopicSpec{Topic: rhumb.Topic{Tenant: "a", Namespace: "b", Name: "full"}, Configs: map[string]string{"validate": "full"}})
	f.Fuzz(func(t *testing.T, codec int16, records []byte, count uint8) {
		header, _ := b.CreateTopic(t.Context(), broker.TopicSpec{Topic: rhumb.Topic{Tenant: "a", Namespace: "b", Name: "header"}})
		batch := brokertest.Batch{Times: make([]int64, int(count)+1), Attributes: codec & 7, Records: records}
		for _, topic := range []broker.TopicInfo{full, header} {
			b.Append([]broker.AppendItem{{Topic: &topic, Records: batch.Bytes()}}, func(error) {})
			b.ByTime(&topic, 0, -1, 0)
			b.Latest(&topic, 0, -1)
		}
		if err := b.DeleteTopic(t.Context(), header); err != nil {
			t.Fatal(err)
		}
	})
}

// unbounded is a budget that never ends.
type unbounded struct{}

func (unbounded) Acquire(context.Context, int64) error { return nil }
func (unbounded) TryAcquire(int64) bool                { return true }
func (unbounded) Release(int64)                        {}

// In virtual time: an idle fetch ends exactly when it may, one that is woken too
// early goes on waiting.
func TestP80FetchWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		began := time.Now()
		limits := broker.FetchLimits{MinBytes: 150, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond, Budget: unbounded{}}
		items := []broker.FetchItem{{Topic: &f.topic, MaxBytes: 1 << 20, LeaderEpoch: -1}}
		go func() {
			time.Sleep(200 * time.Millisecond)
			f.append(brokertest.Batch{Times: []int64{1}})
		}()
		answers, release := f.Fetch(t.Context(), items, limits)
		release()
		if waited := time.Since(began); waited != limits.MaxWait || len(answers[0].Batches) != 1 {
			t.Errorf("waited %v for %d batches", waited, len(answers[0].Batches))
		}
		limits.MaxWait, limits.MinBytes = time.Hour, 1000
		go func() {
			for range 20 {
				time.Sleep(time.Second)
				f.append(brokertest.Batch{Times: []int64{1}})
			}
		}()
		began = time.Now()
		answers, release = f.Fetch(t.Context(), items, limits)
		release()
		if waited := time.Since(began); answers[0].Bytes < 1000 || waited > 20*time.Second {
			t.Errorf("waited %v for %d bytes", waited, answers[0].Bytes)
		}
		time.Sleep(time.Minute) // the producer ends
	})
}

// A count that the bytes of a batch cannot hold is refused by the header alone: it
// would take offsets that nobody ever uses.
func TestCountOutOfProportion(t *testing.T) {
	f := newFixture(t, nil)
	smallest := []byte{12, 0, 0, 0, 1, 1, 0} // no key, no value, no headers
	if a := f.append(brokertest.Batch{Times: []int64{1}, Records: smallest}); a.Err != nil {
		t.Fatalf("the smallest record: %v", a.Err)
	}
	zeros := brokertest.Batch{Times: make([]int64, 50_000)}.Bytes()
	for _, p := range codectest.Packings {
		if a := f.appendBytes(p.Batch(zeros)); a.Err != nil {
			t.Errorf("%s: records that compress well: %v", p.Name, a.Err)
		}
	}
	for name, b := range map[string]brokertest.Batch{
		"no records":       {Times: make([]int64, 3), Records: []byte{}},
		"two in the space": {Times: make([]int64, 2), Records: smallest},
		"gzip":             {Times: make([]int64, 100_000), Records: make([]byte, 30), Attributes: 1},
		"snappy":           {Times: make([]int64, 100_000), Records: make([]byte, 30), Attributes: 2},
		"lz4":              {Times: make([]int64, 100_000), Records: make([]byte, 30), Attributes: 3},
		"zstd":             {Times: make([]int64, 200_000), Records: make([]byte, 30), Attributes: 4},
	} {
		if a := f.append(b); rhumb.KindOf(a.Err) != rhumb.KindInvalid {
			t.Errorf("%s: %d records: %v", name, len(b.Times), a.Err)
		}
	}
}

// What consumers cannot read past is refused where records are looked at.
func TestRecordsThatStopConsumers(t *testing.T) {
	f := newFixture(t, map[string]string{"validate": "full"})
	for name, record := range map[string][]byte{
		"negative header count": {12, 0, 0, 0, 1, 1, 5},
		"long key length":       {22, 0, 0, 0, 0x81, 0x80, 0x80, 0x80, 0x80, 0, 1, 0},
		"huge null":             {24, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 1, 0, 0},
		"long offset delta":     {22, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0},
	} {
		if a := f.append(brokertest.Batch{Times: []int64{1}, Records: record}); rhumb.KindOf(a.Err) != rhumb.KindCorrupt {
			t.Errorf("%s: %v", name, a.Err)
		}
	}
}
