package replicator

// due holds the flows that wait to be worked on over a connection. Those of which
// something happened go first: when a link begins, each of its flows asks the peer
// where it stands, which takes seconds where there are tens of thousands, and what is
// published meanwhile does not wait for that; but one in backlogShare is one that asks,
// or topics that wake again and again would keep the others from it. Guarded by link.mu.
type due struct {
	wake   chan struct{} // capacity 1: there are some
	first  []*flow       // a later life of their origin waits for them, once per connection: see link.askOf
	grown  []*flow       // something may have come
	asks   []*flow       // nobody knows anything yet
	streak int           // taken from grown since the last of asks
}

func newDue() due { return due{wake: make(chan struct{}, 1)} }

func (d *due) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// next takes the next flow, nil if there is none.
func (d *due) next() (f *flow, ask bool) {
	if f = pop(&d.first); f != nil {
		return f, true
	}
	if d.streak < backlogShare-1 || len(d.asks) == 0 {
		if f = pop(&d.grown); f != nil {
			d.streak++
			return f, false
		}
	}
	d.streak = 0
	return pop(&d.asks), true
}

func pop(list *[]*flow) (f *flow) {
	if len(*list) == 0 {
		*list = nil // tens of thousands waited here once
		return nil
	}
	f, (*list)[0] = (*list)[0], nil
	*list = (*list)[1:]
	return f
}

// queue has a flow worked on. The caller holds mu.
func (l *link) queue(f *flow) {
	if l.conn == nil {
		return // all are queued when there is a connection
	}
	l.conn.due.grown = append(l.conn.due.grown, f)
	l.conn.due.signal()
}

// askAll has all flows ask over a new connection where they stand there.
func (l *link) askAll(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return
	}
	for _, f := range l.flows {
		l.leaveStandby(f)
		c.due.asks = append(c.due.asks, f)
	}
	c.due.signal()
}

// nextDue takes the next flow that nobody works on from the queue, and marks it
// as worked on. nil if there is none.
func (l *link) nextDue(c *conn) *flow {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		f, ask := c.due.next()
		switch {
		case f == nil:
			return nil
		case l.flows[f.source.key()] != f:
			continue // ended meanwhile
		case ask && f.begun == c:
			continue // something happened of it meanwhile, so it has asked
		}
		if err := l.unheard(f, c); err != nil {
			f.stalls(err)
			continue
		}
		if f.paused {
			continue // whoever resumes it queues it
		}
		if f.running {
			f.again = true
			f.nudge()
			continue
		}
		l.leaveStandby(f)
		f.running, f.again, f.begun = true, false, c
		return f
	}
}
