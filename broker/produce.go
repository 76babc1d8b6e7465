package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// AppendItem is one batch for one partition. Records is owned by the broker
// until the append is done, whether somebody waits for that or not.
type AppendItem struct {
	Topic     *TopicInfo
	Partition int32
	Records   []byte
	// Sum is the checksum of what the batch's CRC covers, Records from codec.BatchCRCStart
	// on, if it was computed already; nil if not.
	Sum *uint32
}

// AppendAnswer is what became of an AppendItem.
type AppendAnswer struct {
	Base       rhumb.Offset // of the batch's first record
	LogStart   rhumb.Offset
	AppendTime int64 // ms since 1970 in topics of LogAppendTime, else -1
	Err        error

	stampedAt bool // AppendTime is not this batch's but that of the one at Base
	ref       rhumb.PartitionRef
}

// Appends are the batches of one request on their way into the log.
type Appends struct {
	b    *Broker
	done chan struct{} // closed when none is on its way

	mu      sync.Mutex
	left    int
	answers []AppendAnswer
	ready   []bool
	after   func(error)
}

// Append checks the batches and hands those that pass to the region, all at
// once and in order, without waiting for any. A caller that calls it for one
// request after another keeps the order of its requests. after is called once
// when no batch is on its way any more, with the first error: then Records is
// free again. It must not block.
func (b *Broker) Append(items []AppendItem, after func(error)) *Appends {
	a := &Appends{
		b:       b,
		done:    make(chan struct{}),
		left:    len(items) + 1, // one for this call, so that it cannot end under our hands
		answers: make([]AppendAnswer, len(items)),
		ready:   make([]bool, len(items)),
		after:   after,
	}
	for i := range items {
		b.append(&items[i], func(answer AppendAnswer) { a.set(i, answer) })
	}
	a.finish(1)
	return a
}

func (b *Broker) append(item *AppendItem, done func(AppendAnswer)) {
	fail := func(err error) {
		done(AppendAnswer{Base: rhumb.NoOffset, LogStart: rhumb.NoOffset, AppendTime: -1, Err: err})
	}
	p, err := partitionOf(item.Topic, item.Partition)
	if err != nil {
		fail(err)
		return
	}
	if b.cfg.Policy != nil {
		if err := b.cfg.Policy.CheckProduce(item.Topic.Topic); err != nil {
			fail(err)
			return
		}
	}
	s := b.settingsOf(item.Topic)
	h, err := b.checkBatch(item.Records, item.Sum, s)
	if err != nil {
		fail(located(err, item))
		return
	}
	if err := b.producers.enter(); err != nil {
		fail(err)
		return
	}
	b.region.Append(p.Ref, AppendRequest{Batch: item.Records, Header: h}, func(r AppendResult) {
		b.producers.leave()
		if r.Err != nil {
			fail(r.Err)
			return
		}
		answer := AppendAnswer{Base: r.Base, LogStart: r.LogStart, AppendTime: -1}
		if s.appendTime {
			answer.AppendTime = h.MaxTimestamp // as we stamped it
			answer.stampedAt = r.Duplicate
			answer.ref = p.Ref
		}
		done(answer)
	})
}

// located says of which partition the records are that an error names.
func located(err error, item *AppendItem) error {
	var refused *RecordsError
	if errors.As(err, &refused) {
		for i := range refused.Faults {
			f := &refused.Faults[i]
			f.Text = fmt.Sprintf("%s in topic partition %s-%d", f.Text, item.Topic.Topic.Short(), item.Partition)
		}
	}
	return err
}

// stampedTime reads the time that a batch got when it was stored first, of which
// an answer has a duplicate. Nobody waits for a disk in a callback, so it is read
// when the answer is asked for. A batch that is gone says nothing: -1.
func (b *Broker) stampedTime(a *AppendAnswer) int64 {
	batches, err := b.region.Read(a.ref, Query{From: a.Base, Limit: math.MaxInt64, MaxBytes: 1})
	if err != nil || len(batches) == 0 || batches[0].Base != a.Base {
		return -1
	}
	h, err := codec.ParseBatch(batches[0].Batch)
	if err != nil {
		return -1
	}
	return h.MaxTimestamp
}

func (a *Appends) set(i int, answer AppendAnswer) {
	a.mu.Lock()
	a.answers[i], a.ready[i] = answer, true
	a.mu.Unlock()
	a.finish(1)
}

func (a *Appends) finish(n int) {
	a.mu.Lock()
	a.left -= n
	last := a.left == 0
	a.mu.Unlock()
	if !last {
		return
	}
	close(a.done)
	a.after(a.err())
}

// Wait gives the answers, in the order of the items, when all are there, the
// deadline has passed or ctx is done. What is not decided then has an error of
// kind timeout: it may still be stored.
func (a *Appends) Wait(ctx context.Context, deadline time.Time) []AppendAnswer {
	select {
	case <-a.done:
		return a.settled()
	default:
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-a.done:
		return a.settled()
	case <-timer.C:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answers := make([]AppendAnswer, len(a.answers))
	for i := range answers {
		answers[i] = a.answers[i]
		if !a.ready[i] {
			answers[i] = AppendAnswer{Base: rhumb.NoOffset, LogStart: rhumb.NoOffset, AppendTime: -1,
				Err: rhumb.Errorf(rhumb.KindTimeout, "not decided in time; it may still be stored")}
		}
	}
	return answers
}

// settled gives the answers when all are there; nothing changes them any more.
func (a *Appends) settled() []AppendAnswer {
	for i := range a.answers {
		if at := &a.answers[i]; at.Err == nil && at.stampedAt {
			at.AppendTime, at.stampedAt = a.b.stampedTime(at), false
		}
	}
	return a.answers
}

// err gives the first error; all answers are there.
func (a *Appends) err() error {
	for i := range a.answers {
		if a.answers[i].Err != nil {
			return a.answers[i].Err
		}
	}
	return nil
}
