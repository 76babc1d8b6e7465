package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

// pulsarClient speaks Pulsar's protocol.
type pulsarClient struct {
	conn pulsar.Client

	mu        sync.Mutex
	producers map[string]pulsar.Producer // per topic
}

func dialPulsar(url string) (*pulsarClient, error) {
	conn, err := pulsar.NewClient(pulsar.ClientOptions{URL: url, Logger: log.DefaultNopLogger()})
	if err != nil {
		return nil, err
	}
	return &pulsarClient{conn: conn, producers: map[string]pulsar.Producer{}}, nil
}

func (c *pulsarClient) close() {
	for _, p := range c.producers {
		p.Close()
	}
	c.conn.Close()
}

// pulsarPending is how many records of a partition may wait for an answer: more than
// the load ever has. The client's default of 1,000 would decide the rate.
const pulsarPending = 1 << 17

// producer gives the one for a topic: batches as the client makes them by default,
// but after 1 ms, as the linger of the other clients.
func (c *pulsarClient) producer(topic string) (pulsar.Producer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.producers[topic]; p != nil {
		return p, nil
	}
	p, err := c.conn.CreateProducer(pulsar.ProducerOptions{
		Topic:                   topic,
		BatchingMaxPublishDelay: time.Millisecond,
		MaxPendingMessages:      pulsarPending,
		MessageRouter:           pulsarLane,
	})
	if err == nil {
		c.producers[topic] = p
	}
	return p, err
}

// pulsarLane takes the partition from the record's header.
func pulsarLane(m *pulsar.ProducerMessage, _ pulsar.TopicMetadata) int {
	return int(binary.LittleEndian.Uint32(m.Payload[8:]))
}

// pulsarBatch is what is kept with a batch.
type pulsarBatch struct {
	messages []pulsar.ProducerMessage
	answers  []func(pulsar.MessageID, *pulsar.ProducerMessage, error)
	done     func(i int, err error)
}

func (c *pulsarClient) send(topic string, b *batch, i, n int, done func(i int, err error)) {
	own, ok := b.own.(*pulsarBatch)
	if !ok {
		own = &pulsarBatch{messages: make([]pulsar.ProducerMessage, len(b.values))}
		for i := range own.messages {
			own.messages[i].Payload = b.values[i]
			own.answers = append(own.answers, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { own.done(i, err) })
		}
		b.own = own
	}
	if i == 0 {
		own.done = done
	}
	p, err := c.producer(topic)
	for ; n > 0; i, n = i+1, n-1 {
		if err != nil {
			done(i, err)
			continue
		}
		p.SendAsync(context.Background(), &own.messages[i], own.answers[i])
	}
}

// pulsarAckEvery is how many records are acknowledged together.
const pulsarAckEvery = 1000

func (c *pulsarClient) receive(ctx context.Context, topic string, fn func([]byte)) error {
	records := make(chan pulsar.ConsumerMessage, 4096)
	var consumer pulsar.Consumer
	if err := until(ctx, time.Minute, func(context.Context) (err error) {
		consumer, err = c.conn.Subscribe(pulsar.ConsumerOptions{
			Topic: topic, SubscriptionName: fmt.Sprintf("bench-%08x", rand.Uint32()), Type: pulsar.Exclusive,
			SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
			ReceiverQueueSize:           4096, MessageChannel: records,
		})
		return err
	}); err != nil {
		return err
	}
	defer consumer.Close()
	last := map[int32]pulsar.MessageID{} // per partition: read, and not acknowledged
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case m := <-records:
			fn(m.Payload())
			last[m.ID().PartitionIdx()] = m.ID()
		}
		if n%pulsarAckEvery != 0 {
			continue
		}
		for part, id := range last {
			if err := consumer.AckIDCumulative(id); err != nil {
				return err
			}
			delete(last, part)
		}
	}
}
