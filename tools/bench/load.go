package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// load is what a phase produces.
type load struct {
	size    int           // of a record, bytes
	rate    int           // records per second, 0: as fast as they are taken
	time    time.Duration // of producing
	records int64         // end after so many, if that is sooner; 0: only time counts
	limit   time.Duration // how long copies may take after it; 0: as the phase may
	begun   func()        // called when it begins, unless nil
	lanes   int
	pending int // records in flight at most, 0: inFlight alone counts
	run     uint32
	text    []byte

	next  []uint32 // per lane: number of the next record
	total int64    // sent, with those of warm
}

const (
	// inFlight is how many bytes of payload are sent and not answered at most.
	inFlight = 32 << 20
	// batchBytes is what a lane gets at once at full speed.
	batchBytes = 128 << 10
	// turn is how long a lane gets the records of a paced load.
	turn = 5 * time.Millisecond
)

// warm sends one record to each lane, and waits for the answers.
func (l *load) warm(ctx context.Context, c client, topic string) error {
	l.next = make([]uint32, l.lanes)
	for lane := range l.lanes {
		b := newBatch(1, l.size, l.text, 0)
		b.lane = int32(lane)
		if err := until(ctx, time.Minute, func(context.Context) error {
			answer := make(chan error, 1)
			b.stamp(0, time.Now().UnixNano(), 0, l.run)
			c.send(topic, b, 0, 1, func(_ int, err error) { answer <- err })
			return <-answer
		}); err != nil {
			return err
		}
		l.next[lane]++
		l.total++
	}
	return nil
}

// produce sends records for the load's time, and waits until all are answered.
// It gives how many there were, and how many of them got an error.
func (l *load) produce(ctx context.Context, c client, topic string, answers *latencies) (sent, refused int64) {
	var errs atomic.Int64
	var open sync.WaitGroup
	records := max(1, batchBytes/l.size)
	if l.rate > 0 {
		records = max(1, l.rate*int(turn)/int(time.Second))
	}
	batches := inFlight / (records * l.size)
	if l.pending > 0 {
		records = min(records, l.pending/4)
		batches = min(batches, l.pending/records)
	}
	free := make(chan *batch, max(2, batches))
	for i := range cap(free) {
		free <- newBatch(records, l.size, l.text, i*records*l.size)
	}
	start := time.Now()
	if l.begun != nil {
		l.begun()
	}
	for n := 0; time.Since(start) < l.time && (l.records == 0 || sent < l.records) && ctx.Err() == nil; n++ {
		b := <-free
		b.lane = int32(n % l.lanes)
		b.left.Store(int32(records))
		open.Add(1)
		done := func(i int, err error) {
			if err != nil {
				errs.Add(1)
			}
			answers.add(b.due[i])
			if b.left.Add(-1) == 0 {
				free <- b
				open.Done()
			}
		}
		if l.rate > 0 {
			l.paced(c, topic, b, done, start.Add(time.Duration(n)*turn))
		} else {
			now := time.Now().UnixNano()
			for i := range b.values {
				l.stamp(b, i, now)
			}
			c.send(topic, b, 0, records, done)
		}
		sent += int64(records)
	}
	open.Wait()
	l.total += sent
	return sent, errs.Load()
}

func (l *load) stamp(b *batch, i int, due int64) {
	b.stamp(i, due, l.next[b.lane], l.run)
	l.next[b.lane]++
}

// paced sends the records of a batch each at its time.
func (l *load) paced(c client, topic string, b *batch, done func(int, error), start time.Time) {
	for i := range b.values {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(l.rate))
		time.Sleep(time.Until(due))
		l.stamp(b, i, due.UnixNano())
		c.send(topic, b, i, 1, done)
	}
}
