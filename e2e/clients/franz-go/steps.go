package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
}

// steps is one run; its topics and groups begin with its name.
type steps struct {
	bootstrap, name string
	client          *kgo.Client
	admin           *kadm.Client
	topics          []string
}

func newSteps(bootstrap string) (*steps, error) {
	s := &steps{bootstrap: bootstrap, name: fmt.Sprintf("franz-%d", time.Now().UnixMilli())}
	client, err := s.dial()
	if err != nil {
		return nil, err
	}
	s.client, s.admin = client, kadm.NewClient(client)
	return s, nil
}

func (s *steps) close() { s.client.Close() }

func (s *steps) dial(opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append(opts, kgo.SeedBrokers(s.bootstrap), kgo.AlwaysRetryEOF(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if words := strings.Fields(os.Getenv("KAFKA_LOGIN")); len(words) == 3 { // mechanism, user, password
		switch auth := (scram.Auth{User: words[1], Pass: words[2]}); words[0] {
		case "SCRAM-SHA-256":
			opts = append(opts, kgo.SASL(auth.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			opts = append(opts, kgo.SASL(auth.AsSha512Mechanism()))
		default:
			opts = append(opts, kgo.SASL(plain.Auth{User: words[1], Pass: words[2]}.AsMechanism()))
		}
	}
	return kgo.NewClient(opts...)
}

func (s *steps) all() []step {
	out := []step{{"topics", s.create}, {"configs", s.configs}}
	for _, c := range codecs {
		out = append(out, step{"produce-" + c.name, func(ctx context.Context) (string, error) { return s.produce(ctx, c.name, c.codec) }})
	}
	return append(out, step{"idempotent", s.idempotent}, step{"group", s.group}, step{"commits", s.commits}, step{"time", s.time},
		step{"delete-records", s.deleteRecords}, step{"groups", s.groups}, step{"delete-topics", s.deleteTopics})
}

func (s *steps) topic(ctx context.Context, suffix string, partitions int32, configs map[string]*string) (string, error) {
	topic := s.name + "-" + suffix
	if _, err := s.admin.CreateTopic(ctx, partitions, 1, configs, topic); err != nil {
		return "", err
	}
	s.topics = append(s.topics, topic)
	return topic, until(ctx, topic+" is listed", func() (bool, error) {
		listed, err := s.admin.ListTopics(ctx, topic)
		return err == nil && len(listed[topic].Partitions) == int(partitions), err
	})
}

// read gives the records of a partition up to its end; there must be n.
func (s *steps) read(ctx context.Context, topic string, partition int32, n int) ([]*kgo.Record, error) {
	ends, err := s.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(topic, partition)
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	c, err := s.dial(kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out []*kgo.Record
	for len(out) == 0 || out[len(out)-1].Offset < end.Offset-1 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		out = append(out, fetches.Records()...)
	}
	return out, equal("records in "+topic, len(out), n)
}

// fill produces the numbers in [begin, end), n to partition n modulo partitions.
func (s *steps) fill(ctx context.Context, topic string, partitions, begin, end int) error {
	c, err := s.dial(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(1000))
	if err != nil {
		return err
	}
	defer c.Close()
	var records []*kgo.Record
	for i := begin; i < end; i++ {
		records = append(records, &kgo.Record{Partition: int32(i % partitions), Value: []byte(strconv.Itoa(i))})
	}
	return c.ProduceSync(ctx, records...).FirstErr()
}

func (s *steps) create(ctx context.Context) (string, error) {
	topic, err := s.topic(ctx, "admin", 3, map[string]*string{"retention.ms": kadm.StringPtr("3600000")})
	if err != nil {
		return "", err
	}
	if _, err := s.admin.CreateTopic(ctx, 3, 1, nil, topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		return "", fmt.Errorf("creating it again: %v", err)
	}
	if grown, err := s.admin.UpdatePartitions(ctx, 5, topic); err != nil || grown.Error() != nil {
		return "", errors.Join(err, grown.Error())
	}
	return "created with 3 partitions, grown to 5", until(ctx, "5 partitions", func() (bool, error) {
		listed, err := s.admin.ListTopics(ctx, topic)
		return err == nil && len(listed[topic].Partitions) == 5, err
	})
}

func (s *steps) configs(ctx context.Context) (string, error) {
	topic := s.name + "-admin"
	get := func(key string) (value, source string, err error) {
		described, err := s.admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return "", "", err
		}
		rc, err := described.On(topic, nil)
		for _, c := range rc.Configs {
			if c.Key == key {
				return c.MaybeValue(), c.Source.String(), rc.Err
			}
		}
		return "", "", errors.Join(err, rc.Err)
	}
	change := func(c kadm.AlterConfig, holds func(value, source string) bool) error {
		altered, err := s.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{c}, topic)
		if err != nil {
			return err
		}
		for _, a := range altered {
			if a.Err != nil {
				return a.Err
			}
		}
		return until(ctx, "the change is seen", func() (bool, error) {
			value, source, err := get(c.Name)
			return holds(value, source), err
		})
	}
	value, source, err := get("retention.ms")
	if err := errors.Join(err, equal("given at creation", value+" "+source, "3600000 DYNAMIC_TOPIC_CONFIG")); err != nil {
		return "", err
	}
	return "described, set and reset", errors.Join(
		change(kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("7200000")},
			func(value, _ string) bool { return value == "7200000" }),
		change(kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"},
			func(_, source string) bool { return source != "DYNAMIC_TOPIC_CONFIG" }))
}

func (s *steps) produce(ctx context.Context, name string, codec kgo.CompressionCodec) (string, error) {
	topic, err := s.topic(ctx, name, 1, nil)
	if err != nil {
		return "", err
	}
	c, err := s.dial(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return "", err
	}
	defer c.Close()
	var sent []*kgo.Record
	for i := range 300 {
		n := strconv.Itoa(i)
		sent = append(sent, &kgo.Record{Key: []byte("key-" + n), Value: []byte("value " + n + " " + strings.Repeat("lorem ipsum ", 8)),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(n)}}})
	}
	if err := c.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return "", err
	}
	got, err := s.read(ctx, topic, 0, 300)
	for i, r := range got {
		show := func(r *kgo.Record) string { return fmt.Sprintf("%d %s %s %s", r.Offset, r.Key, r.Value, r.Headers) }
		err = errors.Join(err, equal("acknowledged offset", sent[i].Offset, i), equal("record", show(r), show(sent[i])))
	}
	return "300 records in order with keys and headers", err
}

func (s *steps) idempotent(ctx context.Context) (string, error) {
	topic, err := s.topic(ctx, "idempotent", 2, nil)
	if err != nil {
		return "", err
	}
	if err := s.fill(ctx, topic, 2, 0, 1000); err != nil {
		return "", err
	}
	for p := range 2 {
		got, err := s.read(ctx, topic, int32(p), 500)
		for i, r := range got {
			err = errors.Join(err, equal("value", string(r.Value), 2*i+p))
		}
		if err != nil {
			return "", err
		}
	}
	return "1000 records once and in order", nil
}

func (s *steps) time(ctx context.Context) (string, error) {
	topic, err := s.topic(ctx, "time", 1, nil)
	if err != nil {
		return "", err
	}
	begin := time.Now().Add(-100 * time.Second).Truncate(time.Millisecond)
	var records []*kgo.Record
	for i := range 100 {
		records = append(records, &kgo.Record{Topic: topic, Timestamp: begin.Add(time.Duration(i) * time.Second), Value: []byte(strconv.Itoa(i))})
	}
	if err := s.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return "", err
	}
	for ms, want := range map[int64]int64{41_500: 42, 0: 0, 99_000: 99, 99_001: 100} { // past the last: its end
		offsets, err := s.admin.ListOffsetsAfterMilli(ctx, begin.UnixMilli()+ms, topic)
		got, _ := offsets.Lookup(topic, 0)
		if err := errors.Join(err, got.Err, equal(fmt.Sprintf("offset at %d ms", ms), got.Offset, want)); err != nil {
			return "", err
		}
	}
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AfterMilli(begin.UnixMilli() + 41_500)}}
	c, err := s.dial(kgo.ConsumePartitions(from))
	if err != nil {
		return "", err
	}
	defer c.Close()
	fetches := c.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return "", err
	}
	largest, err := s.admin.ListMaxTimestampOffsets(ctx, topic)
	last, _ := largest.Lookup(topic, 0)
	return "offsets by time, seek", errors.Join(err, equal("first record from there", string(fetches.Records()[0].Value), "42"),
		equal("offset of the largest time", last.Offset, 99))
}

func (s *steps) deleteRecords(ctx context.Context) (string, error) {
	topic := s.name + "-time"
	deleted, err := s.admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, At: 30}}})
	if err := errors.Join(err, deleted.Error()); err != nil {
		return "", err
	}
	got, err := s.read(ctx, topic, 0, 70)
	if err != nil {
		return "", err
	}
	return "log starts at 30", errors.Join(equal("low watermark", deleted[topic][0].LowWatermark, 30), equal("first offset", got[0].Offset, 30))
}

func (s *steps) deleteTopics(ctx context.Context) (string, error) {
	deleted, err := s.admin.DeleteTopics(ctx, s.topics...)
	if err := errors.Join(err, deleted.Error()); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d topics deleted", len(s.topics)), until(ctx, "none is listed", func() (bool, error) {
		listed, err := s.admin.ListTopics(ctx)
		for _, t := range s.topics {
			if listed.Has(t) {
				return false, err
			}
		}
		return true, err
	})
}
