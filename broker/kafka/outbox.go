package kafka

import (
	"context"
	"sync"
)

// outbox holds the requests of a connection that wait for their answers, in order.
// Its goroutine exists only while there are some: most connections rest most of
// the time, and then cost no stack.
type outbox struct {
	slots  chan struct{} // a token per request in it; its capacity is MaxInFlight
	writer sync.WaitGroup

	mu      sync.Mutex
	waiting []pending
	running bool
	room    *sync.Cond // bytes went down
	bytes   int64      // of answers that are encoded and not sent
}

// pending is a request that waits for its answer.
type pending struct {
	r     *request
	reply reply
}

// maxQueued bounds the encoded answers of one connection, but for one: above it
// the connection is not read.
const maxQueued = 1 << 20

func newOutbox(most int) *outbox {
	o := &outbox{slots: make(chan struct{}, most)}
	o.room = sync.NewCond(&o.mu)
	return o
}

// put appends a request, as soon as there is room, and sees that write runs. The
// connection's reader calls it.
func (o *outbox) put(p pending, write func()) {
	o.slots <- struct{}{}
	o.mu.Lock()
	for o.bytes > maxQueued {
		o.room.Wait() // the writer ends it: at the latest when its deadline passes
	}
	o.bytes += p.r.kept
	o.waiting = append(o.waiting, p)
	start := !o.running
	o.running = true
	o.mu.Unlock()
	if start {
		o.writer.Go(write)
	}
}

// next gives the request whose turn it is, false if there is none: then the
// writer ends.
func (o *outbox) next() (pending, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.running, o.waiting = false, nil
		return pending{}, false
	}
	p := o.waiting[0]
	o.waiting[0] = pending{}
	o.waiting = o.waiting[1:]
	return p, true
}

// sent says that a request is answered.
func (o *outbox) sent(kept int64) {
	o.mu.Lock()
	o.bytes -= kept
	o.room.Signal()
	o.mu.Unlock()
	<-o.slots
}

// keep reserves room for an encoded answer of the node's, until it is sent. A
// connection that does not get it in time ends.
func (r *request) keep(ctx context.Context, n int64) error {
	s := r.conn.server
	n = min(n, s.cfg.AnswerBudget)
	if !s.answers.TryAcquire(n) {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.IOTimeout)
		defer cancel()
		if err := s.answers.Acquire(ctx, n); err != nil {
			return errUnread
		}
	}
	r.kept = n
	return nil
}
