package replicator

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/strands"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// pipeEnd is a stream of a lane that takes what is read at the other end at once.
type pipeEnd struct {
	*io.PipeReader
	*io.PipeWriter
}

func (p pipeEnd) Close() error { return p.PipeWriter.Close() }
func (p pipeEnd) Cancel()      { _ = p.PipeWriter.CloseWithError(io.ErrClosedPipe) }

// testLane is a lane of new data whose stream ends in the pipe.
func testLane() (*lane, pipeEnd) {
	r, w := io.Pipe()
	p := pipeEnd{r, w}
	l := &lane{link: &link{}, kind: fresh, gone: make(chan struct{}), baton: make(chan struct{}, 1)}
	l.writer = wire.NewWriter(l, true)
	l.carried.init()
	l.out = strands.NewSender(1, p, func(int) { l.moved.Store(time.Now().UnixNano()) }, nil)
	return l, p
}

func testData(id wire.SessionID, n rhumb.Offset, size int) *wire.Data {
	batch := makeBatch(1, size)
	h, err := codec.CheckBatch(batch)
	if err != nil {
		panic(err)
	}
	return &wire.Data{Session: id, Envelope: codec.Envelope{Region: 1, Life: rhumb.Life{1}, First: n, Last: n, Prev: n - 1,
		Chain: codec.NextChain(0, n, n, h.CRC), Count: 1}, Batch: batch}
}

// TestI3CarrierKeepsTheOrderOfEachSession: whatever of a session goes to the carrier and
// what it writes itself, all arrives once and in its order.
func TestI3CarrierKeepsTheOrderOfEachSession(t *testing.T) {
	const sessions, each = 8, 200
	l, p := testLane()
	var all sync.WaitGroup
	all.Go(l.carry)
	for id := range wire.SessionID(sessions) {
		all.Go(func() {
			for n := range rhumb.Offset(each) {
				size := 100
				if (int(n)+int(id))%7 == 0 {
					size = carriedGroup // too much for the carrier
				}
				if _, err := l.write(testData(id, n, size)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	x, err := strands.Accept(p)
	if err != nil {
		t.Fatal(err)
	}
	in := strands.NewReceiver()
	in.Base(x)
	reader := wire.NewReader(in, receiveBudget{t.Context(), newGate(1 << 40)})
	next := map[wire.SessionID]rhumb.Offset{}
	for range sessions * each {
		f, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		d := f.(*wire.Data)
		if d.Envelope.First != next[d.Session] {
			t.Fatalf("session %d: %d came, want %d", d.Session, d.Envelope.First, next[d.Session])
		}
		next[d.Session]++
	}
	close(l.gone)
	all.Wait()
	if c := &l.carried; c.put.Load() == 0 || c.gone.Load() != c.put.Load() {
		t.Errorf("%d groups went to the carrier, %d are gone", c.put.Load(), c.gone.Load())
	}
}

// TestI9CarrierTakesLittle: while the stream takes nothing, no more gathers than is allowed,
// who has given something there counts as writing, and the next one waits itself.
func TestI9CarrierTakesLittle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, p := testLane()
		var all sync.WaitGroup
		all.Go(l.carry)
		given := uint64(0)
		for n := rhumb.Offset(0); ; n++ {
			number, ok := l.gather([]wire.Frame{testData(1, n, 1000)})
			if !ok {
				break
			}
			given = number
			synctest.Wait()
		}
		if n := len(l.carried.bytes); n <= carriedMost || n > carriedMost+carriedGroup {
			t.Errorf("%d bytes gathered", n)
		}
		s := &sending{lane: l}
		s.given.Store(given)
		s.busy.Store(true)
		s.progress()
		<-time.After(time.Minute) // of the bubble
		if stuck, lane := s.stuck(time.Now(), 15*time.Second); !stuck || !lane {
			t.Errorf("a session whose lane takes nothing: stuck %v, because of its lane %v", stuck, lane)
		}
		waits := make(chan error)
		all.Go(func() {
			_, err := l.write(testData(2, 0, 1000))
			waits <- err
		})
		synctest.Wait()
		select {
		case err := <-waits:
			t.Errorf("another one does not wait: %v", err)
		default:
		}
		all.Go(func() { _, _ = io.Copy(io.Discard, p.PipeReader) })
		if err := <-waits; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if stuck, lane := s.stuck(time.Now(), 15*time.Second); !stuck || lane {
			t.Errorf("once its lane took all: stuck %v, because of its lane %v", stuck, lane)
		}
		close(l.gone)
		p.Cancel()
		all.Wait()
	})
}

// TestNextRead: a session of small records takes little of the budget, one with much to
// send soon a whole read, and again little when it has less.
func TestNextRead(t *testing.T) {
	const most = 1 << 20
	for _, c := range []struct {
		asked, got int
		complete   bool
		want       int
	}{
		{leastRead, 200, true, leastRead},
		{leastRead, leastRead, false, 4 * leastRead},
		{leastRead, 300_000, false, most},
		{leastRead, 300_000, true, 300_000},
		{most, most, false, most},
		{most, most / 2, true, most},
		{most, 100, true, most / 2},
		{leastRead + 2, 0, true, leastRead},
	} {
		if got := nextRead(c.asked, c.got, most, c.complete); got != c.want {
			t.Errorf("after %d of %d bytes, complete %v: %d, want %d", c.got, c.asked, c.complete, got, c.want)
		}
	}
	if got := nextRead(leastRead, 10, 4096, true); got != 4096 {
		t.Errorf("where a read is at most 4096 bytes: %d", got)
	}
}
