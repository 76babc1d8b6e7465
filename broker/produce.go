package broker

import (
	"context"
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
}

// AppendAnswer is what became of an AppendItem.
type AppendAnswer struct {
	Base       rhumb.Offset // of the batch's first record
	LogStart   rhumb.Offset
	AppendTime int64 // ms since 1970 in topics of LogAppendTime, else -1
	Err        error
}

// Appends are the batches of one request on their way into the log.
type Appends struct {
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
	s := b.settingsOf(item.Topic.Configs)
	h, err := b.checkBatch(item.Records, s)
	if err != nil {
		fail(err)
		return
	}
	b.region.Append(p.Ref, AppendRequest{Batch: item.Records, Header: h}, func(r AppendResult) {
		if r.Err != nil {
			fail(r.Err)
			return
		}
		answer := AppendAnswer{Base: r.Base, LogStart: r.LogStart, AppendTime: -1}
		if s.appendTime {
			answer.AppendTime = stampedTime(h, r)
		}
		done(answer)
	})
}

// stampedTime is the time that the records carry: what we stamped. A duplicate
// was stamped when it was stored, which nobody remembers: -1.
func stampedTime(h codec.BatchHeader, r AppendResult) int64 {
	if r.Duplicate {
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
		return a.answers
	default:
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-a.done:
		return a.answers
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

// err gives the first error; all answers are there.
func (a *Appends) err() error {
	for i := range a.answers {
		if a.answers[i].Err != nil {
			return a.answers[i].Err
		}
	}
	return nil
}
