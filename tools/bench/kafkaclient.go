package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaClient speaks Kafka's protocol: to Kafka, and to Rhumb.
type kafkaClient struct {
	addr string
	kgo  *kgo.Client
}

// dialKafka makes a client that is idempotent and waits for all replicas, as
// Kafka's own clients do unless told otherwise. It gathers a batch for the time of linger.
func dialKafka(addr string, linger time.Duration) (*kafkaClient, error) {
	c, err := kgo.NewClient(
		kgo.SeedBrokers(addr),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(linger),
		kgo.MaxBufferedRecords(1<<20),
		kgo.MetadataMinAge(250*time.Millisecond),
	)
	return &kafkaClient{addr: addr, kgo: c}, err
}

func (c *kafkaClient) close() { c.kgo.Close() }

// makeTopic creates a topic with one replica.
func (c *kafkaClient) makeTopic(ctx context.Context, name string, partitions int) error {
	_, err := kadm.NewClient(c.kgo).CreateTopic(ctx, int32(partitions), 1, nil, name)
	return err
}

// ping gives no error once the broker serves.
func (c *kafkaClient) ping(ctx context.Context) error {
	_, err := kadm.NewClient(c.kgo).BrokerMetadata(ctx)
	return err
}

// kafkaBatch is what is kept with a batch: its records and their promise.
type kafkaBatch struct {
	records []kgo.Record
	promise func(*kgo.Record, error)
	done    func(i int, err error)
	next    atomic.Int32 // records of a partition are answered in order
}

func (c *kafkaClient) send(topic string, b *batch, i, n int, done func(i int, err error)) {
	k, ok := b.own.(*kafkaBatch)
	if !ok {
		k = &kafkaBatch{records: make([]kgo.Record, len(b.values))}
		k.promise = func(_ *kgo.Record, err error) { k.done(int(k.next.Add(1)-1), err) }
		b.own = k
	}
	if i == 0 {
		k.done = done
		k.next.Store(0)
	}
	for ; n > 0; i, n = i+1, n-1 {
		r := &k.records[i]
		*r = kgo.Record{Topic: topic, Partition: b.lane, Value: b.values[i]}
		c.kgo.Produce(context.Background(), r, k.promise)
	}
}

func (c *kafkaClient) receive(ctx context.Context, topic string, fn func([]byte)) error {
	// A client of its own: what it reads is not mixed with what others do.
	r, err := kgo.NewClient(
		kgo.SeedBrokers(c.addr),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(250*time.Millisecond),
		kgo.MetadataMaxAge(time.Second), // a copy's topic appears late
		kgo.FetchMaxBytes(50<<20),
	)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		f := r.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.EachRecord(func(r *kgo.Record) { fn(r.Value) })
	}
}
