package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// consume reads n records of a topic from the start.
func (h *harness) consume(c *kgo.Client, n int) []*kgo.Record {
	h.Helper()
	var got []*kgo.Record
	ctx := h.ctx()
	for len(got) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			h.Fatalf("after %d of %d records: %v", len(got), n, err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

func TestFranzProducesAndConsumes(t *testing.T) { both(t, franzProducesAndConsumes) }

func franzProducesAndConsumes(t *testing.T, h *harness) {
	const n = 500
	p := h.client(kgo.DefaultProduceTopic("orders"))
	for i := range n {
		p.Produce(h.ctx(), &kgo.Record{Key: []byte{byte(i)}, Value: []byte(strconv.Itoa(i)),
			Headers: []kgo.RecordHeader{{Key: "h", Value: nil}}}, func(r *kgo.Record, err error) {
			if err != nil || r.Offset != int64(i) {
				t.Errorf("record %d at %d: %v", i, r.Offset, err)
			}
		})
	}
	if err := p.Flush(h.ctx()); err != nil {
		t.Fatal(err)
	}
	for i, r := range h.consume(h.client(kgo.ConsumeTopics("orders")), n) {
		if string(r.Value) != strconv.Itoa(i) || r.Offset != int64(i) {
			t.Fatalf("record %d is %q at offset %d", i, r.Value, r.Offset)
		}
	}
}

func TestFranzEveryCodec(t *testing.T) { both(t, franzEveryCodec) }

func franzEveryCodec(t *testing.T, h *harness) {
	h.topic("full", 1, map[string]string{"validate": "full"})
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		c := h.client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("full"))
		for range 20 {
			c.Produce(h.ctx(), kgo.StringRecord(fmt.Sprintf("%s %0200d", name, 7)), func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		if err := c.Flush(h.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	h.consume(h.client(kgo.ConsumeTopics("full")), 20*len(codecs))
}

func TestFranzFullTopicName(t *testing.T) { both(t, franzFullTopicName) }

func franzFullTopicName(t *testing.T, h *harness) {
	c := h.client()
	for _, name := range []string{"persistent://acme/shop/orders", "persistent://public/default/orders"} {
		if err := c.ProduceSync(h.ctx(), &kgo.Record{Topic: name, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		h.consume(h.client(kgo.ConsumeTopics(name)), 1)
	}
	if _, ok := h.broker.Topic(rhumb.Topic{Tenant: "acme", Namespace: "shop", Name: "orders"}); !ok {
		t.Fatal("no topic in acme/shop")
	}
	h.consume(h.client(kgo.ConsumeTopics("orders")), 1) // the bare name is public/default
}

// A connection that is cut after the append and before the answer makes the
// client send again; each record is stored once, in order.
func TestP60ConnectionsCutMidProduce(t *testing.T) {
	h := start(t)
	h.topic("cut", 1, nil)
	appended := 0
	h.region.OnAppend(func(rhumb.PartitionRef, broker.AppendRequest) error {
		if appended++; appended%7 == 0 {
			go h.cut()
		}
		return nil
	})
	h.produceThroughCuts(300)
}

// The same on the real region, where answers come when they come.
func TestI1ConnectionsCutMidProduce(t *testing.T) {
	h := startReal(t)
	info := h.topic("cut", 1, nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for next := rhumb.Offset(7); ; {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
			if state, err := h.broker.State(&info, 0); err == nil && state.End >= next { // some progress between cuts
				h.cut()
				next = state.End + 7
			}
		}
	}()
	h.produceThroughCuts(300)
	close(stop)
	<-stopped
}

func (h *harness) produceThroughCuts(n int) {
	h.Helper()
	c := h.client(kgo.DefaultProduceTopic("cut"), kgo.Dialer(h.dialCounted), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(20), kgo.ProducerBatchMaxBytes(512),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
	for i := range n {
		c.Produce(h.ctx(), kgo.StringRecord(strconv.Itoa(i)), func(_ *kgo.Record, err error) {
			if err != nil {
				h.Errorf("record %d: %v", i, err)
			}
		})
	}
	if err := c.Flush(h.ctx()); err != nil {
		h.Fatal(err)
	}
	for i, r := range h.consume(h.client(kgo.ConsumeTopics("cut")), n) {
		if string(r.Value) != strconv.Itoa(i) {
			h.Fatalf("record %d is %q", i, r.Value)
		}
	}
	info, _ := h.broker.Topic(mustTopic(h.TB, "cut"))
	if state, err := h.broker.State(&info, 0); err != nil || state.End != rhumb.Offset(n) {
		h.Fatalf("%d records stored, want %d: %v", state.End, n, err)
	}
}

// cut closes every connection that is open now.
func (h *harness) cut() {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	for c := range h.server.open {
		if asked, ok := h.asked.Load(c.nc.RemoteAddr().String()); ok && asked.(*asking).writes.Load() > 1 {
			c.nc.Close()
		}
	}
}

// asking is a client's connection that counts what was asked on it. franz-go gives
// up for good when its first request is cut off: it may be that TLS is missing.
type asking struct {
	net.Conn
	writes atomic.Int64
}

func (a *asking) Write(p []byte) (int, error) {
	a.writes.Add(1)
	return a.Conn.Write(p)
}

func (h *harness) dialCounted(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	a := &asking{Conn: nc}
	h.asked.Store(nc.LocalAddr().String(), a)
	return a, nil
}

func (h *harness) ends(topic string) int64 {
	h.Helper()
	ends, err := h.admin().ListEndOffsets(h.ctx(), topic)
	if err != nil {
		h.Fatal(err)
	}
	o, _ := ends.Lookup(topic, 0)
	return o.Offset
}

func TestFranzSimpleConsumerCommits(t *testing.T) { both(t, franzSimpleConsumerCommits) }

func franzSimpleConsumerCommits(t *testing.T, h *harness) {
	info := h.topic("t", 2, nil)
	adm := h.admin()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: "t", Partition: 1, At: 5, LeaderEpoch: 1, Metadata: "m"})
	if err := adm.CommitAllOffsets(h.ctx(), "g", os); err != nil {
		t.Fatal(err)
	}
	got, err := adm.FetchOffsets(h.ctx(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := got.Lookup("t", 1); !ok || o.At != 5 || o.Metadata != "m" || o.LeaderEpoch != 1 {
		t.Fatalf("fetched %+v", o)
	}
	if groups, err := adm.ListGroups(h.ctx()); err != nil || groups["g"].State != "Empty" || len(groups) != 1 {
		t.Fatalf("%+v, %v", groups, err)
	}
	if err := h.broker.DeleteTopic(h.ctx(), info); err != nil {
		t.Fatal(err)
	}
	h.topic("t", 2, nil)
	got, err = adm.FetchOffsets(h.ctx(), "g")
	if err != nil || len(got) != 0 {
		t.Fatalf("P03: a new topic has the positions of the old one: %v, %v", got, err)
	}
}

func TestFranzTransactionsAreRefusedCleanly(t *testing.T) {
	both(t, franzTransactionsAreRefusedCleanly)
}

func franzTransactionsAreRefusedCleanly(t *testing.T, h *harness) {
	c := h.client(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	err := c.BeginTransaction()
	if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Fatalf("error %v", err)
	}
}

func TestFranzAdmin(t *testing.T) { both(t, franzAdmin) }

func franzAdmin(t *testing.T, h *harness) {
	adm := h.admin()
	created, err := adm.CreateTopic(h.ctx(), 3, 1, map[string]*string{"cleanup.policy": ptr("compact"), "flush.ms": ptr("5")}, "made")
	if err != nil || created.NumPartitions != 3 || created.ID == (kadm.TopicID{}) {
		t.Fatalf("%+v, %v", created, err)
	}
	if _, err := adm.CreateTopic(h.ctx(), 3, 1, nil, "made"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatalf("created twice: %v", err)
	}
	configs, err := adm.DescribeTopicConfigs(h.ctx(), "made")
	if err != nil || configs[0].Err != nil {
		t.Fatal(err, configs)
	}
	values := map[string]string{}
	for _, c := range configs[0].Configs {
		values[c.Key] = c.MaybeValue()
	}
	if values["cleanup.policy"] != "compact" || values["flush.ms"] != "5" || values["max.message.bytes"] != "1048588" {
		t.Fatalf("settings %v", values)
	}
	if meta, err := adm.Metadata(h.ctx()); err != nil || meta.Controller != testNode || *meta.Brokers[0].Rack != "us" ||
		meta.Cluster != h.broker.ClusterID().String() {
		t.Fatalf("%+v, %v", meta, err)
	}
	for count, want := range map[int]error{5: nil, 2: kerr.InvalidPartitions} { // P163
		if resp, err := adm.UpdatePartitions(h.ctx(), count, "made"); err != nil || !errors.Is(resp["made"].Err, want) {
			t.Fatalf("%d partitions: %+v, %v", count, resp, err)
		}
	}
	if info, _ := h.broker.Topic(mustTopic(t, "made")); len(info.Partitions) != 5 {
		t.Fatalf("%d partitions", len(info.Partitions))
	}
	if _, err := adm.DescribeBrokerConfigs(h.ctx(), testNode); err != nil {
		t.Fatal(err)
	}
	if resp, err := adm.DeleteTopics(h.ctx(), "made", "absent"); err != nil || resp["made"].Err != nil ||
		!errors.Is(resp["absent"].Err, kerr.UnknownTopicOrPartition) || resp["absent"].ErrMessage == "" {
		t.Fatalf("%+v, %v", resp, err)
	}
}

func TestFranzDeleteRecordsAndReset(t *testing.T) { both(t, franzDeleteRecordsAndReset) }

func franzDeleteRecordsAndReset(t *testing.T, h *harness) {
	c := h.client(kgo.DefaultProduceTopic("t"))
	for range 10 {
		if err := c.ProduceSync(h.ctx(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: "t", Partition: 0, At: 4})
	resp, err := h.admin().DeleteRecords(h.ctx(), os)
	if err != nil || resp.Error() != nil || resp["t"][0].LowWatermark != 4 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if r := h.consume(h.client(kgo.ConsumeTopics("t")), 6); r[0].Offset != 4 {
		t.Fatalf("P100: earliest is %d, want 4", r[0].Offset)
	}
}

// A consumer that seeks by time starts at the first record that is not older,
// inside a compressed batch, too.
func TestP110FranzSeeksByTime(t *testing.T) { both(t, p110FranzSeeksByTime) }

func p110FranzSeeksByTime(t *testing.T, h *harness) {
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	p := h.client(kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(50*time.Millisecond), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	for i := range 100 {
		p.Produce(h.ctx(), &kgo.Record{Value: []byte(strconv.Itoa(i)), Timestamp: base.Add(time.Duration(i) * time.Second)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := p.Flush(h.ctx()); err != nil {
		t.Fatal(err)
	}
	at := base.Add(41500 * time.Millisecond)
	got := h.consume(h.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(at.UnixMilli()))), 58)
	if string(got[0].Value) != "42" || len(got) != 58 {
		t.Fatalf("%d records from %q on", len(got), got[0].Value)
	}
}
