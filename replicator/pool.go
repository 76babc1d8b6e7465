package replicator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/climb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

const (
	// maxJoined bounds the connections that joined others, of all links together.
	maxJoined = 256
	// joinsAtOnce is how many of a link are dialled at once.
	joinsAtOnce = 16
	// joinTime bounds one attempt.
	joinTime = dialTimeout
	// sampleEvery is how often it is looked how the path does.
	sampleEvery = 500 * time.Millisecond
	// surplusFor is how long a connection that nobody uses stays.
	surplusFor = 10 * time.Second
	// enoughFor is how long a peer is not asked again that took no more.
	enoughFor = 5 * time.Minute
	// hintFor is how long a link that lost its connection remembers how many were good.
	hintFor = 15 * time.Minute
)

// pool are the connections that joined a link's connection, and how many there should
// be. Each side decides over how many it sends; who dialled the first dials the others.
// They live as long as that one at most.
type pool struct {
	// Fixed before run.
	conn *conn
	id   rhumb.UUID // by which connections join, of who dialled
	most int        // connections that both sides take; 1: none may join

	took   atomic.Uint64 // bytes that lanes gave to QUIC
	warmed atomic.Uint32 // outcome of warming the first connection
	cold   atomic.Int32  // connections that are to be warmed when they have joined
	wake   chan struct{} // capacity 1
	ran    sync.WaitGroup

	// Owned by run.
	climber  *climb.Climber
	meter    meter
	lastTook uint64
	samples  int
	surplus  time.Time // since when there is a connection too many, zero: there is none
	spares   spares

	mu        sync.Mutex
	members   []*member // by number
	closed    bool
	dialling  map[uint16]bool
	pause     backoff   // of dialling after a failure
	notBefore time.Time // as pause says
	wanted    int       // by this side
	theirs    int       // by the peer
	enough    int       // that the peer took when it refused more, 0: it did not
	enoughAt  time.Time
	path      pathFigures
}

// pathFigures is what Status says of a link's path.
type pathFigures struct {
	loss    float64
	goodput float64
	rtt     time.Duration
	least   time.Duration // round trip without a queue, as far as is known
}

// agree takes from the peer's hello what both sides can do.
func (p *pool) agree(c *conn, theirs *wire.Hello) {
	p.most = 1
	if c.features&featureStrands != 0 {
		p.most = min(c.m.cfg.Limits.Connections, int(theirs.Connections), maxConnections)
	}
	p.most = max(1, p.most)
	if !c.dialled {
		p.id = theirs.Pool
	}
}

func (p *pool) init(c *conn) {
	p.conn, p.wanted, p.theirs = c, 1, 1
	p.wake, p.dialling = make(chan struct{}, 1), map[uint16]bool{}
	p.pause = backoff{least: dialPause, most: dialPauseMost}
	c.link.mu.Lock()
	hint := c.link.hint
	if time.Since(c.link.hintAt) > hintFor {
		hint = 0
	}
	c.link.mu.Unlock()
	p.climber = climb.New(p.most, hint)
}

// poke has the pool looked at. It never blocks.
func (p *pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// asked notes how many connections the peer wants.
func (p *pool) asked(n int) {
	p.mu.Lock()
	p.theirs = max(1, min(n, p.most))
	p.mu.Unlock()
	p.poke()
}

// retry has connections dialled again at once that the peer did not take.
func (p *pool) retry() {
	p.mu.Lock()
	p.enough, p.notBefore = 0, time.Time{}
	p.mu.Unlock()
	p.poke()
}

// wanting gives how many this side wants.
func (p *pool) wanting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// run measures and keeps as many connections as bring something.
func (p *pool) run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	p.meter.look(p.conn.qc, nil, time.Now(), 0)
	p.conn.observe(time.Now(), &p.meter) // a long line is corrected from the start
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case now := <-tick.C:
			p.sample(now, now.Sub(last))
			p.weigh()
			last = now
		}
		if p.most > 1 {
			p.spread()
			p.balance(ctx, time.Now())
		}
	}
}

// sample looks how the path did, and decides how many connections to use.
func (p *pool) sample(now time.Time, d time.Duration) {
	took := p.took.Load()
	s := climb.Sample{At: now, Bytes: took - p.lastTook, Blocked: p.conn.lanes.blockedFor().Seconds() / max(d.Seconds(), .001)}
	p.lastTook = took
	p.mu.Lock()
	s.Open = min(p.wanted, 1+len(p.members))
	all := slices.Clone(p.members)
	p.mu.Unlock()
	used := all[:max(0, s.Open-1)]
	p.meter.look(p.conn.qc, used, now, s.Blocked)
	p.meter.hear(p.conn.qc, all)
	if p.conn.outgrown(&p.meter) {
		p.conn.end(errRenewed)
	}
	if p.samples++; p.samples%observeEvery == 0 {
		p.conn.observe(now, &p.meter)
	}
	s.RTT, s.Least, s.Loss = p.meter.rtt, p.meter.leastTrip(), p.meter.smooth
	s.Corrected = p.conn.correcting
	n := 1
	if p.most > 1 {
		p.spare(now, used, s)
		n = p.climber.Step(s)
	}
	if fixed := int(p.conn.m.fixed.Load()); fixed > 0 {
		n = min(fixed, p.most)
	}
	p.mu.Lock()
	changed := n != p.wanted
	p.wanted, p.path.loss = n, p.meter.smooth
	p.path.rtt, p.path.least = s.RTT, s.Least
	p.path.goodput += smoothing * (float64(s.Bytes)/max(d.Seconds(), .001) - p.path.goodput)
	goodput := p.path.goodput
	p.mu.Unlock()
	p.conn.link.regulate(goodput)
	if changed {
		select {
		case p.conn.control.want <- struct{}{}:
		default:
		}
	}
}

// spread has each lane use the connections that this side wants to send over.
func (p *pool) spread() {
	p.mu.Lock()
	use := p.members[:min(len(p.members), p.wanted-1)]
	members := slices.Clone(use)
	p.mu.Unlock()
	for _, l := range p.conn.lanes.spreadable() {
		for m, s := range l.on {
			if slices.Contains(members, m) {
				continue
			}
			delete(l.on, m)
			if m.ended() { // what it had taken may be lost, and the peer may not know of the strand
				p.conn.lanes.giveUp(l)
				break
			}
			l.out.Remove(s)
		}
		for _, m := range members {
			if l.on[m] != nil || l.broken.Load() {
				continue
			}
			stream, err := m.qc.OpenUniStream()
			if err != nil {
				continue // too many of lanes before, or it ends: another time
			}
			if s := l.out.Add(strandOut{stream}); s != nil {
				l.on[m] = s
			} else {
				stream.CancelWrite(streamGivenUp)
			}
		}
	}
}

// balance dials connections that are missing, and closes those that nobody uses.
func (p *pool) balance(ctx context.Context, now time.Time) {
	if !p.conn.dialled {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	goal := min(max(p.wanted, p.theirs), p.most)
	if p.enough > 0 && now.Sub(p.enoughAt) < enoughFor {
		goal = min(goal, p.enough)
	}
	goal--
	if len(p.members) <= goal {
		p.surplus = time.Time{}
	} else if p.surplus.IsZero() {
		p.surplus = now
	} else if now.Sub(p.surplus) > surplusFor {
		for _, m := range p.members[goal:] {
			if m.strands.Load() == 0 || now.Sub(p.surplus) > 3*surplusFor {
				m.end(errEnough)
			}
		}
	}
	for number := uint16(1); len(p.members)+len(p.dialling) < goal && len(p.dialling) < joinsAtOnce && !now.Before(p.notBefore); number++ {
		if p.dialling[number] || slices.ContainsFunc(p.members, func(m *member) bool { return m.number == number }) {
			continue
		}
		if !p.conn.m.joined.try(1) {
			p.enough, p.enoughAt = 1+len(p.members), now
			return
		}
		p.dialling[number] = true
		p.ran.Go(func() { p.dial(ctx, number) })
	}
}

// dial makes one connection that joins, and serves it.
func (p *pool) dial(ctx context.Context, number uint16) {
	defer p.conn.m.joined.release(1)
	m, err := p.join(ctx, number)
	p.mu.Lock()
	delete(p.dialling, number)
	switch {
	case err == nil:
		p.pause.reset()
	case errors.Is(err, errEnough):
		p.enough, p.enoughAt = 1+len(p.members), time.Now()
	default:
		p.notBefore = time.Now().Add(p.pause.next())
	}
	p.mu.Unlock()
	if err == nil {
		m.run(ctx)
		return
	}
	p.conn.m.log.Debug("a further connection is not made", "peer_region", p.conn.link.name, "err", err)
}

// add makes a connection one of the pool, whose close waits for it if the peer dialled
// it. It is false if the pool has enough, or ends.
func (p *pool) add(m *member, served bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := slices.ContainsFunc(p.members, func(o *member) bool { return o.number == m.number })
	if p.closed || same || 1+len(p.members) >= p.most {
		return false
	}
	if m.served = served; served {
		p.ran.Add(1)
	}
	p.members = append(p.members, m)
	slices.SortFunc(p.members, func(a, b *member) int { return cmp.Compare(a.number, b.number) })
	p.poke()
	return true
}

func (p *pool) remove(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = slices.DeleteFunc(p.members, func(o *member) bool { return o == m })
	p.poke()
}

// close ends all connections of the pool and waits for them, and leaves word how many
// were good.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	members, wanted := slices.Clone(p.members), p.wanted
	p.mu.Unlock()
	for _, m := range members {
		m.end(errSuperseded)
	}
	p.ran.Wait()
	l := p.conn.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if wanted > 1 || l.hint > 0 && time.Since(l.hintAt) > hintFor {
		l.hint, l.hintAt = wanted, time.Now()
	}
}

// report gives the number of connections, and what is known of the path.
func (p *pool) report() (n int, path pathFigures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 1 + len(p.members), p.path
}
