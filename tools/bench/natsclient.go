package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsClient speaks to a JetStream server. A stream has one lane.
//
// It publishes with a reply subject of its own per record in flight, and one
// subscription for all answers: that costs the client least.
type natsClient struct {
	conn  *nats.Conn
	js    jetstream.JetStream
	inbox string // answers come to INBOX.BATCH.RECORD

	mu      sync.Mutex
	batches []*natsBatch
}

// natsBatch is what is kept with a batch.
type natsBatch struct {
	messages []nats.Msg
	done     func(i int, err error)
}

func dialNATS(url string) (*natsClient, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	c := &natsClient{conn: conn, inbox: nats.NewInbox()}
	if c.js, err = jetstream.New(conn); err == nil {
		_, err = conn.Subscribe(c.inbox+".*.*", c.answer)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *natsClient) close() { c.conn.Close() }

var errRefused = errors.New("the stream refused a record")

// answer takes the answer to a record to its batch.
func (c *natsClient) answer(m *nats.Msg) {
	batchText, recordText, _ := strings.Cut(m.Subject[len(c.inbox)+1:], ".")
	number, err := strconv.Atoi(batchText)
	if err != nil {
		return
	}
	record, err := strconv.Atoi(recordText)
	if err != nil {
		return
	}
	c.mu.Lock()
	b := c.batches[number]
	c.mu.Unlock()
	if !bytes.Contains(m.Data, []byte(`"seq":`)) {
		err = errRefused
	}
	b.done(record, err)
}

func (c *natsClient) send(topic string, b *batch, i, n int, done func(i int, err error)) {
	own, ok := b.own.(*natsBatch)
	if !ok {
		own = &natsBatch{messages: make([]nats.Msg, len(b.values)), done: done}
		c.mu.Lock()
		number := len(c.batches)
		c.batches = append(c.batches, own)
		c.mu.Unlock()
		for i := range own.messages {
			own.messages[i] = nats.Msg{Reply: fmt.Sprintf("%s.%d.%d", c.inbox, number, i)}
		}
		b.own = own
	}
	if i == 0 {
		own.done = done
	}
	for ; n > 0; i, n = i+1, n-1 {
		own.messages[i].Subject, own.messages[i].Data = topic, b.values[i]
		if err := c.conn.PublishMsg(&own.messages[i]); err != nil {
			done(i, err)
		}
	}
}

func (c *natsClient) receive(ctx context.Context, topic string, fn func([]byte)) error {
	var consumer jetstream.Consumer
	err := until(ctx, time.Minute, func(ctx context.Context) (err error) {
		consumer, err = c.js.OrderedConsumer(ctx, topic, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
		return err
	})
	if err != nil {
		return err
	}
	running, err := consumer.Consume(func(m jetstream.Msg) { fn(m.Data()) }, jetstream.PullMaxMessages(4096))
	if err != nil {
		return err
	}
	<-ctx.Done()
	running.Stop()
	<-running.Closed()
	return nil
}
