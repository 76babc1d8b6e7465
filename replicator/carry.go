package replicator

import (
	"sync/atomic"

	"github.com/rhumbmq/rhumb/replicator/wire"
)

// Sessions of new data that send little give it to their lane and go on; the lane's
// carrier writes what has gathered. Where thousands of partitions get a record now and
// then, each that waited for a turn and for the lane would cost two changes of
// goroutines, in a queue whose head is not running yet: on a busy machine that is
// slower than the records come.
const (
	// carriedGroup is how much a session may send at once in this way.
	carriedGroup = 16 << 10
	// carriedMost is how much may have gathered: from then on sessions wait for the lane,
	// as those do that send more.
	carriedMost = 32 << 10
	// otherFrame is about what a frame without a batch takes.
	otherFrame = 512
)

// carried is what waits for a lane's carrier. Guarded by lane.mu, but for the counts.
type carried struct {
	wake   chan struct{} // capacity 1: something has gathered
	writer *wire.Writer  // into bytes
	bytes  gathered
	spare  gathered // the carrier's own

	put  atomic.Uint64 // groups that were gathered so far
	gone atomic.Uint64 // of these, that the stream took
}

// gathered is a buffer to write into.
type gathered []byte

func (g *gathered) Write(b []byte) (int, error) {
	*g = append(*g, b...)
	return len(b), nil
}

func (c *carried) init() {
	c.wake = make(chan struct{}, 1)
	c.writer = wire.NewWriter(&c.bytes, true)
}

// sizeOf tells about how many bytes frames take.
func sizeOf(frames []wire.Frame) (n int) {
	for _, f := range frames {
		if d, ok := f.(*wire.Data); ok {
			n += d.Size()
		}
		n += otherFrame
	}
	return n
}

// gather takes frames for the carrier, and gives the number that tells when they are
// gone. It is false if they, or those before them, are too many.
func (l *lane) gather(frames []wire.Frame) (number uint64, ok bool) {
	if l.kind != fresh || sizeOf(frames) > carriedGroup {
		return 0, false
	}
	c := &l.carried
	l.mu.Lock()
	if len(c.bytes) > carriedMost || l.broken.Load() {
		l.mu.Unlock()
		return 0, false
	}
	for _, f := range frames {
		_ = c.writer.Write(f) // a frame over the limit is left out, as it is elsewhere
	}
	_ = c.writer.Flush()
	number = c.put.Add(1)
	l.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return number, true
}

// carry writes what gathers until the lane breaks.
func (l *lane) carry() {
	for {
		select {
		case <-l.gone:
			return
		case <-l.carried.wake:
		}
		l.baton <- struct{}{}
		err := l.unload()
		<-l.baton
		if err != nil {
			return
		}
	}
}

// unload writes what has gathered. The caller holds the baton, and so keeps the order
// of what a session sent one way and the other.
func (l *lane) unload() error {
	c := &l.carried
	l.mu.Lock()
	full, put := c.bytes, c.put.Load()
	c.bytes, c.spare = c.spare[:0], nil
	l.mu.Unlock()
	var err error
	if len(full) > 0 {
		l.link.precedence.begin()
		_, err = l.Write(full)
		l.link.precedence.end()
		c.gone.Store(put)
	}
	c.spare = full
	return err
}
