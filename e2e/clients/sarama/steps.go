package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

var codecs = []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4,
	sarama.CompressionZSTD}

// steps is one run; its topics and groups begin with its name.
type steps struct {
	bootstrap []string
	name      string
	admin     sarama.ClusterAdmin
	topics    []string
}

func newSteps(bootstrap string) (*steps, error) {
	s := &steps{bootstrap: []string{bootstrap}, name: fmt.Sprintf("sarama-%d", time.Now().UnixMilli())}
	var err error
	s.admin, err = sarama.NewClusterAdmin(s.bootstrap, config())
	return s, err
}

func (s *steps) close() { s.admin.Close() }

// config is what every client here starts from.
func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Session.Timeout = 10 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	c.Consumer.Retry.Backoff = 100 * time.Millisecond
	if words := strings.Fields(os.Getenv("KAFKA_LOGIN")); len(words) == 3 { // mechanism, user, password; others need code of the user's
		c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLMechanism(words[0])
		c.Net.SASL.User, c.Net.SASL.Password = words[1], words[2]
	}
	c.Metadata.Retry.Max, c.Metadata.Retry.Backoff = 100, 50*time.Millisecond
	return c
}

// idempotent makes a producer's configuration one that neither loses nor doubles.
func idempotent(c *sarama.Config) *sarama.Config {
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Retry.Max, c.Producer.Retry.Backoff = 1000, 50*time.Millisecond
	c.Net.MaxOpenRequests = 1
	return c
}

func (s *steps) all() []step {
	out := []step{{"topics", s.create}, {"configs", s.configs}}
	for _, c := range codecs {
		out = append(out, step{"produce-" + c.String(), func(context.Context) (string, error) { return s.produce(c) }})
	}
	return append(out, step{"idempotent", s.idempotent}, step{"group", s.group}, step{"commits", s.commits}, step{"time", s.time},
		step{"delete-records", s.deleteRecords}, step{"groups", s.groups}, step{"delete-topics", s.deleteTopics})
}

func (s *steps) topic(ctx context.Context, suffix string, partitions int32, configs map[string]*string) (string, error) {
	topic := s.name + "-" + suffix
	if err := s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}, false); err != nil {
		return "", err
	}
	s.topics = append(s.topics, topic)
	return topic, s.awaitPartitions(ctx, topic, int(partitions))
}

func (s *steps) awaitPartitions(ctx context.Context, topic string, want int) error {
	return until(ctx, fmt.Sprintf("%d partitions of %s", want, topic), func() (bool, error) {
		described, err := s.admin.DescribeTopics([]string{topic})
		return err == nil && described[0].Err == sarama.ErrNoError && len(described[0].Partitions) == want, err
	})
}

// read gives the records of a partition from the offset up to its end; there must
// be n.
func (s *steps) read(topic string, partition int32, offset int64, n int) ([]*sarama.ConsumerMessage, error) {
	client, err := sarama.NewClient(s.bootstrap, config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
	if err != nil {
		return nil, err
	}
	c, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	records, err := c.ConsumePartition(topic, partition, offset)
	if err != nil {
		return nil, err
	}
	defer records.Close()
	var out []*sarama.ConsumerMessage
	for timeout := time.After(patience); len(out) == 0 || out[len(out)-1].Offset < end-1; {
		select {
		case m := <-records.Messages():
			out = append(out, m)
		case <-timeout:
			return nil, fmt.Errorf("%s is not read to %d: %d records", topic, end, len(out))
		}
	}
	return out, equal("records in "+topic, len(out), n)
}

func (s *steps) send(c *sarama.Config, messages []*sarama.ProducerMessage) error {
	p, err := sarama.NewSyncProducer(s.bootstrap, c)
	if err != nil {
		return err
	}
	return errors.Join(p.SendMessages(messages), p.Close())
}

// fill produces the numbers in [begin, end), n to partition n modulo partitions.
func (s *steps) fill(topic string, partitions, begin, end int) error {
	var messages []*sarama.ProducerMessage
	for i := begin; i < end; i++ {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: int32(i % partitions), Value: sarama.StringEncoder(strconv.Itoa(i))})
	}
	c := idempotent(config())
	c.Producer.Flush.MaxMessages = 50
	return s.send(c, messages)
}

func (s *steps) create(ctx context.Context) (string, error) {
	hour := "3600000"
	topic, err := s.topic(ctx, "admin", 3, map[string]*string{"retention.ms": &hour})
	if err != nil {
		return "", err
	}
	if err := s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return "", fmt.Errorf("creating it again: %v", err)
	}
	if err := s.admin.CreatePartitions(topic, 5, nil, false); err != nil {
		return "", err
	}
	return "created with 3 partitions, grown to 5", s.awaitPartitions(ctx, topic, 5)
}

func (s *steps) configs(ctx context.Context) (string, error) {
	topic := s.name + "-admin"
	get := func() (string, error) {
		asked := &sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
		results, err := s.admin.DescribeConfigs([]*sarama.ConfigResource{asked}, sarama.DescribeConfigsOptions{})
		if err != nil {
			return "", err
		}
		if len(results) != 1 || len(results[0].Configs) != 1 {
			return "", fmt.Errorf("settings: %v", results)
		}
		c := results[0].Configs[0]
		return c.Value + " " + c.Source.String(), nil
	}
	change := func(op sarama.IncrementalAlterConfigsOperation, value *string, holds func(string) bool) error {
		entries := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: op, Value: value}}
		if err := s.admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false); err != nil {
			return err
		}
		return until(ctx, "the change is seen", func() (bool, error) { got, err := get(); return holds(got), err })
	}
	got, err := get()
	if err := errors.Join(err, equal("given at creation", got, "3600000 Topic")); err != nil {
		return "", err
	}
	two, three := "7200000", "10800000"
	if err := errors.Join(
		change(sarama.IncrementalAlterConfigsOperationSet, &two, func(got string) bool { return got == two+" Topic" }),
		change(sarama.IncrementalAlterConfigsOperationDelete, nil, func(got string) bool { return !strings.HasSuffix(got, " Topic") })); err != nil {
		return "", err
	}
	if err := s.admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &three}, false); err != nil {
		return "", err
	}
	return "described, set and reset, in both ways", until(ctx, "the change is seen", func() (bool, error) {
		got, err := get()
		return got == three+" Topic", err
	})
}

func (s *steps) produce(codec sarama.CompressionCodec) (string, error) {
	topic, err := s.topic(context.Background(), codec.String(), 1, nil)
	if err != nil {
		return "", err
	}
	var messages []*sarama.ProducerMessage
	for i := range 300 {
		n := strconv.Itoa(i)
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("key-" + n), Value: sarama.StringEncoder(value(n)),
			Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: []byte(n)}}})
	}
	c := config()
	c.Producer.Compression = codec
	if err := s.send(c, messages); err != nil {
		return "", err
	}
	got, err := s.read(topic, 0, sarama.OffsetOldest, 300)
	for i, m := range got {
		n := strconv.Itoa(i)
		err = errors.Join(err, equal("acknowledged offset", messages[i].Offset, i),
			equal("record", fmt.Sprintf("%d %s %s %s", m.Offset, m.Key, m.Value, m.Headers[0].Value), fmt.Sprintf("%d key-%s %s %s", i, n, value(n), n)))
	}
	return "300 records in order with keys and headers", err
}

func value(n string) string { return "value " + n + " " + strings.Repeat("lorem ipsum ", 8) }

func (s *steps) idempotent(ctx context.Context) (string, error) {
	topic, err := s.topic(ctx, "idempotent", 2, nil)
	if err != nil {
		return "", err
	}
	if err := s.fill(topic, 2, 0, 1000); err != nil {
		return "", err
	}
	for p := range 2 {
		got, err := s.read(topic, int32(p), sarama.OffsetOldest, 500)
		for i, m := range got {
			err = errors.Join(err, equal("value", string(m.Value), 2*i+p))
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
	var messages []*sarama.ProducerMessage
	for i := range 100 {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Timestamp: begin.Add(time.Duration(i) * time.Second),
			Value: sarama.StringEncoder(strconv.Itoa(i))})
	}
	if err := s.send(config(), messages); err != nil {
		return "", err
	}
	client, err := sarama.NewClient(s.bootstrap, config())
	if err != nil {
		return "", err
	}
	defer client.Close()
	for ms, want := range map[int64]int64{41_500: 42, 0: 0, 99_000: 99, 99_001: -1} {
		got, err := client.GetOffset(topic, 0, begin.UnixMilli()+ms)
		if err := errors.Join(err, equal(fmt.Sprintf("offset at %d ms", ms), got, want)); err != nil {
			return "", err
		}
	}
	got, err := s.read(topic, 0, 42, 58)
	if err != nil {
		return "", err
	}
	return "offsets by time, seek", equal("the record at 42", string(got[0].Value), "42")
}

func (s *steps) deleteRecords(context.Context) (string, error) {
	topic := s.name + "-time"
	if err := s.admin.DeleteRecords(topic, map[int32]int64{0: 30}); err != nil {
		return "", err
	}
	got, err := s.read(topic, 0, sarama.OffsetOldest, 70)
	if err != nil {
		return "", err
	}
	return "log starts at 30", equal("first offset", got[0].Offset, 30)
}

func (s *steps) deleteTopics(ctx context.Context) (string, error) {
	for _, topic := range s.topics {
		if err := s.admin.DeleteTopic(topic); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d topics deleted", len(s.topics)), until(ctx, "none is listed", func() (bool, error) {
		listed, err := s.admin.ListTopics()
		for _, t := range s.topics {
			if _, is := listed[t]; is {
				return false, err
			}
		}
		return true, err
	})
}
