package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// pauseMean is the mean time between two batches of a client, and answerLimit
// how long it waits for an answer before it sends the batch again.
const (
	pauseMean   = 900 * time.Millisecond
	answerLimit = 5 * time.Second
)

// client is an idempotent producer of one topic in one region.
type client struct {
	w        *world
	region   int
	topic    rhumb.Topic
	rng      *rand.Rand
	life     rhumb.Life // that it writes to; a new one means a new producer id
	producer int64
	sequence int32
	made     int // values, each only once
}

// produce runs a client until ctx ends. A batch that was not answered is sent
// again, with the same sequence, until it is, or until its topic has another
// life.
func (w *world) produce(ctx context.Context, r, t int) {
	c := &client{w: w, region: r, topic: topicName(t), rng: rand.New(rand.NewPCG(w.seed, uint64(r)<<8|uint64(t)))}
	for ctx.Err() == nil {
		values := make([]string, 1+c.rng.IntN(5))
		for i := range values {
			values[i] = fmt.Sprintf("r%d/t%d/%d", r, t, c.made)
			c.made++
		}
		for ctx.Err() == nil {
			if err := c.send(ctx, values); err == nil {
				break
			}
			pause(ctx, time.Second)
		}
		pause(ctx, time.Duration(c.rng.ExpFloat64()*float64(pauseMean)))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// send sends one batch to the region as it is now.
func (c *client) send(ctx context.Context, values []string) error {
	answers := make(chan region.AppendResult, 1)
	var life rhumb.Life
	err := c.w.use(c.region, func(r *region.Region) error {
		t, ok := r.Topic(c.topic)
		if !ok || !t.Ready() {
			return rhumb.Errorf(rhumb.KindNotFound, "no topic")
		}
		p := t.Partitions[0]
		if err := c.meet(ctx, r, t, p.Life); err != nil {
			return err
		}
		life = p.Life
		raw, header := encodeBatch(c.producer, c.sequence, values)
		r.Append(p.Ref, region.AppendRequest{Batch: raw, Header: header}, func(a region.AppendResult) { answers <- a })
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case a := <-answers:
		if a.Err != nil {
			c.w.note("client r%d %s: %v", c.region, c.topic.Name, a.Err)
			return a.Err
		}
		c.w.truth.ack(acked{c.region, life, a.Base, values})
		c.sequence += int32(len(values))
		return nil
	case <-time.After(answerLimit):
		return rhumb.Errorf(rhumb.KindTimeout, "no answer")
	}
}

// meet makes the client a new producer when the topic has a new life.
func (c *client) meet(ctx context.Context, r *region.Region, t region.TopicInfo, life rhumb.Life) error {
	if c.life == life {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	id, err := r.ProducerID(limited)
	if err != nil {
		return err
	}
	c.w.truth.born(life, birth{c.region, c.topic, t.Deletions})
	c.life, c.producer, c.sequence = life, id, 0
	return nil
}
