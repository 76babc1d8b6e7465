package replicator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// pingEvery is how often each side asks for the other's clock, and shows that it
// lives.
const pingEvery = time.Second

// maxPongs bounds the pings that wait for their answer: a peer that asks faster
// than answers leave gets fewer.
const maxPongs = 8

// control is what a connection keeps about its control stream.
type control struct {
	pongs    chan wire.Pong // capacity maxPongs
	announce chan struct{}  // capacity 1: topics or edges changed
	pauses   chan struct{}  // capacity 1: what is paused changed
	want     chan struct{}  // capacity 1: this side wants another number of connections
	whole    atomic.Bool    // all topics are to be looked at for what to announce
	probe    chan uint64    // numbers of pings that ask whether the peer lives
	answered chan uint64    // capacity 1: which were answered
	probes   atomic.Uint64

	mu     sync.Mutex
	behind map[rhumb.Topic]bool // topics of which the peer has less than it was told
	offset time.Duration        // the peer's wall clock minus ours
	best   time.Duration        // round trip of the ping that gave offset
	at     time.Time            // when it was observed
}

func (c *control) init() {
	c.pongs = make(chan wire.Pong, maxPongs)
	c.announce = make(chan struct{}, 1)
	c.again()
	c.pauses = make(chan struct{}, 1)
	c.pauses <- struct{}{}
	c.want = make(chan struct{}, 1)
	c.probe, c.answered = make(chan uint64), make(chan uint64, 1)
}

// again has all topics looked at for what is to be announced.
func (c *control) again() {
	c.whole.Store(true)
	c.grown()
}

// grown has the topics announced that changed since the last time.
func (c *control) grown() {
	select {
	case c.announce <- struct{}{}:
	default:
	}
}

// tellAgain has a topic announced again although nothing changed here: the peer has
// less of it than it was told, since it made it anew.
func (c *control) tellAgain(t rhumb.Topic) {
	c.mu.Lock()
	if c.behind == nil {
		c.behind = map[rhumb.Topic]bool{}
	}
	c.behind[t] = true
	c.mu.Unlock()
	c.grown()
}

// forgotten gives what tellAgain was called for since the last time.
func (c *control) forgotten() map[rhumb.Topic]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	behind := c.behind
	c.behind = nil
	return behind
}

// clock takes a pong. Of the last minute the fastest round trip is trusted: its
// clock was read least far from the middle.
func (c *control) clock(p *wire.Pong, now time.Time) {
	trip := time.Duration(now.UnixMicro()-p.PingClock) * time.Microsecond
	if trip < 0 || trip > idleTimeout {
		return // our own wall clock was set meanwhile
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.best == 0 || trip <= c.best || now.Sub(c.at) > time.Minute {
		middle := p.PingClock + (now.UnixMicro()-p.PingClock)/2
		c.offset, c.best, c.at = time.Duration(p.Clock-middle)*time.Microsecond, trip, now
	}
}

func (c *control) clockOffset() (time.Duration, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, c.at
}

// hear reads the control stream until it ends.
func (c *conn) hear(context.Context) error {
	for {
		f, err := c.reader.Next()
		if err != nil {
			return readError(err)
		}
		c.heard.Store(time.Now().UnixNano())
		switch f := f.(type) {
		case *wire.Ping:
			select {
			case c.control.pongs <- wire.Pong{Number: f.Number, PingClock: f.Clock}:
			default:
			}
		case *wire.Pong:
			c.control.clock(f, time.Now())
			if f.Number&probeMark != 0 {
				c.control.answer(f.Number)
			}
		case *wire.Topic:
			if err := c.settler.take(f); err != nil {
				return err
			}
		case *wire.Pauses:
			c.onPauses(f)
		case *wire.Want:
			c.pool.asked(int(f.Connections))
		case *wire.Seen:
			if err := c.onSeen(f); err != nil {
				return err
			}
		case *wire.Bye:
			return &refusal{reason: "the peer says goodbye: " + f.Text}
		default:
			return brokenf("a %s frame on the control stream", f.Type())
		}
	}
}

// readError makes an error of a frame reader one that ends the connection: what
// the network did stays what it is, what the peer wrote is the peer's fault.
func readError(err error) error {
	if rhumb.KindOf(err) != rhumb.KindInternal {
		return brokenf("%w", err)
	}
	return err
}

// speak writes the control stream: announces, pings and pongs, and with these, once a
// second at least, what this region has seen of the mesh's documents.
func (c *conn) speak(ctx context.Context) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	told := announced{topics: map[rhumb.Topic]announcement{}}
	var seen *configstore.Told // told last; nil: nothing yet
	for number := uint64(1); ; {
		err := c.tellSeen(&seen)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			n := &c.link.counters
			c.rates.sample(now, n.sentBytes.Load(), n.receivedBytes.Load())
			err = c.ping(number)
			number++
		case p := <-c.control.pongs:
			p.Clock = time.Now().UnixMicro()
			err = c.writer.Write(&p)
		case probe := <-c.control.probe:
			err = c.ping(probe)
		case <-c.control.pauses:
			err = c.writePauses()
		case <-c.control.want:
			err = c.writer.Write(&wire.Want{Connections: uint16(c.pool.wanting())})
		case <-c.control.announce:
			err = c.announce(&told)
		}
		if err == nil {
			err = c.writer.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// announcement is what was told of a topic.
type announcement struct {
	id         rhumb.UUID // one that was deleted here alone and made again is told again
	deletions  uint64
	partitions int
}

// announced is what was told over a connection.
type announced struct {
	topics map[rhumb.Topic]announcement
	mark   region.TopicsMark // of the last look
}

// announce tells the peer of the topics of the namespaces that both regions have
// part in, whichever way their edges lead, as far as it was not told before. So
// names reach every region of a namespace along the links that there are, with
// or without the configuration store.
func (c *conn) announce(told *announced) error {
	whole := c.control.whole.Swap(false)
	change := c.m.cfg.Region.TopicsSince(told.mark)
	told.mark = change.Mark
	topics := change.Changed
	if whole || change.Whole {
		topics = c.m.cfg.Region.Topics()
	}
	for t := range c.control.forgotten() {
		delete(told.topics, t)
		if info, ok := c.m.cfg.Region.Topic(t); ok {
			topics = append(topics, info)
		}
	}
	for _, t := range c.m.alive(topics) {
		now := announcement{t.ID, t.Deletions, len(t.Partitions)}
		if told.topics[t.Topic] == now || now.partitions == 0 || !c.link.shares(t.Topic) {
			continue
		}
		f := wire.Topic{Topic: t.Topic, Partitions: int32(now.partitions), Deletions: now.deletions, Configs: t.Configs}
		if err := c.writer.Write(&f); err != nil {
			return err
		}
		told.topics[t.Topic] = now
	}
	return nil
}
