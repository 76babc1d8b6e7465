package replicator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/replicator/strands"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// lanes are the streams of a connection on which this side's sessions send.
type lanes struct {
	conn *conn

	mu       sync.Mutex
	open     []*lane
	opening  [classes]int
	sessions map[wire.SessionID]*sending
	alone    lonely
	lastID   wire.SessionID
	lastLane uint64
	readers  sync.WaitGroup
}

// lane is one of them. Sessions that are pinned to it take turns in writing.
type lane struct {
	link     *link
	kind     class // of the sessions that are pinned to it
	stream   *quic.Stream
	out      *strands.Sender             // spreads it, nil if the peer knows no strands
	on       map[*member]*strands.Strand // where; the pool's own
	blocked  time.Duration               // when the pool last looked; its own
	progress func(n int)                 // the stream took so many bytes
	sessions int                         // pinned; guarded by lanes.mu
	broken   atomic.Bool
	gone     chan struct{} // closed when it is broken
	moved    atomic.Int64  // Unix ns: when the stream last took something

	mu      sync.Mutex
	carried carried // of new data, for the carrier

	// One writer at a time. A channel, because it is held while the path takes
	// nothing: under virtual time who waits for a mutex stops the clock.
	baton  chan struct{} // capacity 1
	writer *wire.Writer
	took   time.Duration // for how long the last piece was written
}

func (ls *lanes) init(c *conn) {
	ls.conn, ls.sessions, ls.alone = c, map[wire.SessionID]*sending{}, newLonely()
}

// pin gives a session an id and the emptiest lane of its class; while fewer of these
// than allowed are open and none is empty, it opens one more.
func (ls *lanes) pin(ctx context.Context, s *sending) error {
	ls.mu.Lock()
	l, open := ls.emptiest(s.kind)
	if (l == nil || l.sessions > 0) && open+ls.opening[s.kind] < ls.conn.m.cfg.Limits.Lanes {
		ls.opening[s.kind]++
		ls.mu.Unlock()
		stream, err := ls.conn.qc.OpenStreamSync(ctx)
		ls.mu.Lock()
		ls.opening[s.kind]--
		if err != nil {
			ls.mu.Unlock()
			return err
		}
		l = ls.make(stream, s.kind)
		ls.open = append(ls.open, l)
		ls.readers.Go(func() { ls.hear(l) })
		if s.kind == fresh {
			ls.readers.Go(l.carry)
		}
	}
	defer ls.mu.Unlock()
	if l == nil { // others open the first ones just now
		l, _ = ls.emptiest(s.kind)
	}
	if l == nil {
		return errNoLane
	}
	ls.lastID++
	l.sessions++
	s.id, s.lane = ls.lastID, l
	ls.sessions[s.id] = s
	return nil
}

// make makes a lane of a stream, which is its base. The caller holds mu.
func (ls *lanes) make(stream *quic.Stream, kind class) *lane {
	l := &lane{link: ls.conn.link, kind: kind, stream: stream, gone: make(chan struct{}), baton: make(chan struct{}, 1)}
	l.writer = wire.NewWriter(l, true)
	l.carried.init()
	p := &ls.conn.pool
	l.progress = func(n int) {
		l.moved.Store(time.Now().UnixNano())
		p.took.Add(uint64(n))
	}
	if p.most > 1 {
		ls.lastLane++
		l.on = map[*member]*strands.Strand{}
		l.out = strands.NewSender(ls.lastLane, baseOut{stream}, l.progress, func(error) { ls.giveUp(l) })
		p.poke()
	}
	return l
}

// emptiest gives the lane of a class with the fewest sessions, and how many there are.
func (ls *lanes) emptiest(kind class) (best *lane, open int) {
	for _, l := range ls.open {
		if l.kind != kind {
			continue
		}
		if open++; best == nil || l.sessions < best.sessions {
			best = l
		}
	}
	return best, open
}

// unpin forgets a session: answers that are still under way to it are dropped.
func (ls *lanes) unpin(s *sending) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s.lane.sessions--
	delete(ls.sessions, s.id)
}

// hear takes the answers of a lane to their sessions.
func (ls *lanes) hear(l *lane) {
	reader := wire.NewReader(l.stream, noBudget{})
	for {
		f, err := reader.Next()
		if err == nil {
			err = ls.deliver(f)
		}
		if err != nil {
			var b *broken
			if errors.As(readError(err), &b) {
				ls.conn.end(b)
			}
			ls.giveUp(l)
			if l.out != nil {
				l.out.Wait()
			}
			return
		}
	}
}

// giveUp ends a lane that broke or is stuck: its sessions go on over others.
func (ls *lanes) giveUp(l *lane) {
	if l.broken.CompareAndSwap(false, true) {
		close(l.gone)
	}
	l.stream.CancelWrite(streamGivenUp)
	l.stream.CancelRead(streamGivenUp)
	if l.out != nil {
		l.out.Cancel()
	}
	defer ls.loseAlone(l)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.open = slices.DeleteFunc(ls.open, func(o *lane) bool { return o == l })
	for _, s := range ls.sessions {
		if s.lane == l {
			s.cancel(errLane)
		}
	}
}

func (ls *lanes) deliver(f wire.Frame) error {
	var id wire.SessionID
	switch f := f.(type) {
	case *wire.State:
		id = f.Session
	case *wire.Confirm:
		id = f.Session
	case *wire.Refuse:
		id = f.Session
	case *wire.Close:
		id = f.Session
	default:
		return brokenf("a %s frame in answer to a session", f.Type())
	}
	ls.mu.Lock()
	s := ls.sessions[id]
	ls.mu.Unlock()
	if s == nil {
		ls.hearAlone(id, f)
		return nil // else it was closed by this side meanwhile
	}
	// The budget is given back here, not by the session's goroutine: that one may
	// wait for these very bytes.
	switch f := f.(type) {
	case *wire.Confirm:
		s.flow.link.counters.confirmedBytes.Add(uint64(s.ledger.confirm(f.Watermark)))
	case *wire.Refuse, *wire.Close:
		s.ledger.rewind() // whatever is under way is sent again
	}
	return s.inbox.put(f)
}

// pieceBytes is how much is given to the stream at once, so that progress shows
// while a large batch goes over a slow path.
const pieceBytes = 64 << 10

// Write gives bytes to the stream, piece by piece. It is for the frame writer. Between
// two pieces that were slow backlog gives way to new data, for seven times as long as a piece takes at
// most, so that it has its eighth.
func (l *lane) Write(b []byte) (n int, err error) {
	for n < len(b) {
		size := pieceBytes
		if l.kind != fresh && l.took > quickPiece { // a fast line has room for both
			size = politePiece
			l.link.precedence.yield(min((backlogShare-1)*l.took, yieldMost), l.gone)
		}
		began := time.Now()
		m, err := l.give(b[n:min(len(b), n+size)])
		n += m
		if err != nil {
			return n, err
		}
		l.took = time.Since(began)
	}
	return n, nil
}

// give gives a piece to the stream, or to all over which the lane is spread.
func (l *lane) give(b []byte) (n int, err error) {
	if l.out != nil {
		return l.out.Write(b)
	}
	n, err = l.stream.Write(b)
	l.progress(n)
	return n, err
}

// write sends frames and flushes them. It blocks while the peer or the path
// takes nothing, until the connection ends; little of new data goes to the carrier
// instead, who then has gone up to a number.
func (l *lane) write(frames ...wire.Frame) (number uint64, err error) {
	if number, ok := l.gather(frames); ok {
		return number, nil
	}
	l.baton <- struct{}{}
	defer func() { <-l.baton }()
	if l.unload() != nil {
		return 0, errLane
	}
	if l.kind == fresh {
		l.link.precedence.begin()
		defer l.link.precedence.end()
	}
	for _, f := range frames {
		if l.writer.Write(f) != nil {
			return 0, errLane
		}
	}
	if l.writer.Flush() != nil {
		return 0, errLane
	}
	return 0, nil
}

// inbox holds the answers that a session has not looked at yet.
type inbox struct {
	ready chan struct{} // capacity 1

	mu     sync.Mutex
	frames []wire.Frame
}

// maxInbox bounds it: confirms replace each other, so more than a few frames
// come only from a peer that breaks the protocol.
const maxInbox = 64

func newInbox() inbox { return inbox{ready: make(chan struct{}, 1)} }

func (b *inbox) put(f wire.Frame) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, confirm := f.(*wire.Confirm)
	if n := len(b.frames); n > 0 && confirm {
		if _, again := b.frames[n-1].(*wire.Confirm); again {
			b.frames[n-1] = f
			return nil
		}
	}
	if len(b.frames) == maxInbox {
		return brokenf("more than %d answers to one session wait", maxInbox)
	}
	b.frames = append(b.frames, f)
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return nil
}

// take gives what came, in order.
func (b *inbox) take() []wire.Frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	frames := b.frames
	b.frames = nil
	return frames
}
