package strands

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// pipe is a stream that buffers, as those of QUIC do, and takes a while, each pipe
// another one.
type pipe struct {
	delay time.Duration
	ch    chan []byte
	over  chan struct{}
	once  sync.Once
	rest  []byte
}

func newPipe(delay time.Duration) *pipe {
	return &pipe{delay: delay, ch: make(chan []byte, 128), over: make(chan struct{})}
}

var errCut = errors.New("cut")

func (p *pipe) Write(b []byte) (int, error) {
	select {
	case <-time.After(p.delay * time.Duration(1+len(b)/1000)):
	case <-p.over:
		return 0, errCut
	}
	select {
	case p.ch <- bytes.Clone(b):
		return len(b), nil
	case <-p.over:
		return 0, errCut
	}
}

func (p *pipe) Close() error { close(p.ch); return nil }

func (p *pipe) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		var ok bool
		select {
		case p.rest, ok = <-p.ch:
			if !ok {
				return 0, io.EOF
			}
		case <-p.over:
			return 0, errCut
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *pipe) Cancel() { p.once.Do(func() { close(p.over) }) }

// lane is both ends of one under test.
type lane struct {
	t    *testing.T
	out  *Sender
	in   *Receiver
	base *pipe
	wg   sync.WaitGroup

	mu    sync.Mutex
	pipes []*pipe // of strands
}

func newLane(t *testing.T, delay time.Duration) *lane {
	l := &lane{t: t, in: NewReceiver(), base: newPipe(delay)}
	l.out = NewSender(7, l.base, nil, nil)
	return l
}

// begin has the receiver take the base; it waits for the sender's first write.
func (l *lane) begin() {
	x, err := Accept(l.base)
	if err != nil || x.Lane != 7 {
		l.t.Errorf("base of lane %d, %v", x.Lane, err)
	}
	l.in.Base(x)
}

// add gives the lane one more strand.
func (l *lane) add(delay time.Duration) *Strand {
	p := newPipe(delay)
	l.mu.Lock()
	l.pipes = append(l.pipes, p)
	l.mu.Unlock()
	x := l.out.Add(p)
	if x == nil {
		p.Cancel()
		return nil
	}
	l.wg.Go(func() {
		y, err := Accept(p)
		if err != nil || !l.in.Add(y) {
			p.Cancel()
		}
	})
	return x
}

func (l *lane) close() {
	l.out.Cancel()
	l.in.Cancel()
	l.mu.Lock()
	for _, p := range l.pipes {
		p.Cancel()
	}
	l.mu.Unlock()
	l.out.Wait()
	l.in.Wait()
	l.wg.Wait()
}

func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	var s [32]byte
	s[0] = byte(seed)
	_, _ = rand.NewChaCha8(s).Read(b)
	return b
}

// TestLaneKeepsItsOrder: strands of all speeds come and go at random, and the lane's
// bytes come out as they went in.
func TestLaneKeepsItsOrder(t *testing.T) {
	for seed := range uint64(20) {
		bubble.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			l := newLane(t, time.Millisecond)
			want := noise(seed, 3<<20)
			var wg sync.WaitGroup
			wg.Go(func() {
				for b := want; len(b) > 0; {
					n := min(len(b), 1+rnd.IntN(100_000))
					if _, err := l.out.Write(b[:n]); err != nil {
						t.Errorf("write: %v", err)
						return
					}
					b = b[n:]
				}
			})
			stop := make(chan struct{})
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, 2))
				var on []*Strand
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(rnd.IntN(200)) * time.Millisecond):
					}
					if i := rnd.IntN(len(on) + 2); i < len(on) {
						l.out.Remove(on[i])
						on = append(on[:i], on[i+1:]...)
					} else if x := l.add(time.Duration(rnd.IntN(20)) * time.Millisecond); x != nil {
						on = append(on, x)
					}
				}
			})
			l.begin()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(l.in, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("seed %d: other bytes than went in, %v", seed, err)
			}
			close(stop)
			wg.Wait()
			l.close()
		})
	}
}

// TestSlowStrandHoldsNobodyUp: what a strand carries goes by its speed.
func TestSlowStrandHoldsNobodyUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLane(t, 10*time.Millisecond)
		for i := range 7 {
			l.add(10 * time.Millisecond * time.Duration(1+i%2*9))
		}
		began := time.Now()
		go func() { _, _ = l.out.Write(noise(1, 8<<20)) }()
		l.begin()
		if _, err := io.ReadFull(l.in, make([]byte, 8<<20)); err != nil {
			t.Fatal(err)
		}
		// 4 of 100 KB/s and 4 of 10 KB/s for 8 MiB: one alone needs 84 s, a fixed order 110 s.
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
		if n := l.in.Count(); n != 8 {
			t.Errorf("%d strands", n)
		}
		l.close()
	})
}

// TestBrokenStrandEndsTheLane: at both ends, once, and nothing is left running.
func TestBrokenStrandEndsTheLane(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		told := 0
		l := newLane(t, time.Millisecond)
		l.out.broken = func(error) { told++ }
		l.add(time.Millisecond)
		l.add(time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				if _, err := l.out.Write(noise(2, 50_000)); err != nil {
					return
				}
			}
		})
		l.begin()
		if _, err := io.ReadFull(l.in, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		l.pipes[1].Cancel()
		if _, err := io.Copy(io.Discard, l.in); !errors.Is(err, errCut) {
			t.Errorf("read gave %v", err)
		}
		wg.Wait()
		l.out.Wait()
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		if l.out.Add(newPipe(0)) != nil {
			t.Error("a lane that is over takes a strand")
		}
		l.close()
	})
}

// in is a stream of bytes that are there; it ends, or with hang waits for more.
type in struct {
	*bytes.Reader
	hang chan struct{}
	once sync.Once
}

func newIn(b []byte, hang bool) *in {
	i := &in{Reader: bytes.NewReader(append(appendPrologue(nil, 7), b...))}
	if hang {
		i.hang = make(chan struct{})
	}
	return i
}

func (i *in) Read(b []byte) (int, error) {
	n, err := i.Reader.Read(b)
	if err != nil && i.hang != nil {
		<-i.hang
	}
	return n, err
}

func (i *in) Cancel() {
	if i.hang != nil {
		i.once.Do(func() { close(i.hang) })
	}
}

func receiverOf(t testing.TB, hang bool, base []byte, others ...[]byte) *Receiver {
	r := NewReceiver()
	x, err := Accept(newIn(base, hang))
	if err != nil {
		t.Fatal(err)
	}
	r.Base(x)
	for _, b := range others {
		if x, err := Accept(newIn(b, false)); err == nil {
			r.Add(x)
		}
	}
	return r
}

func pieces(hs ...head) (b []byte) {
	for _, h := range hs {
		b = append(b, make([]byte, headSize)...)
		h.put(b[len(b)-headSize:])
		b = append(b, make([]byte, h.length)...)
	}
	return b
}

// TestHostilePieces: a peer that breaks the rules ends its lane, with an error that says so.
func TestHostilePieces(t *testing.T) {
	mark := head{spread: true}
	for name, c := range map[string]struct{ base, other []byte }{
		"empty piece":         {base: pieces(head{})},
		"large piece":         {base: pieces(head{length: MaxPiece + 1})},
		"number too high":     {base: pieces(head{number: 1, length: 1})},
		"number again":        {base: pieces(mark, head{number: 1, length: 1}, head{number: 1, length: 1})},
		"number of the past":  {base: pieces(mark), other: pieces(head{number: 0, length: 1})},
		"two with one number": {base: pieces(mark, head{number: 5, length: 1}), other: pieces(head{number: 5, length: 1})},
		"second mark":         {base: pieces(mark, mark)},
	} {
		bubble.Test(t, func(t *testing.T) {
			r := receiverOf(t, true, c.base, c.other)
			if _, err := io.Copy(io.Discard, r); rhumb.KindOf(err) != rhumb.KindCorrupt {
				t.Errorf("%s: %v", name, err)
			}
			r.Cancel()
			r.Wait()
		})
	}
	for _, b := range [][]byte{nil, make([]byte, 40), appendPrologue(nil, 1)[:10]} {
		if _, err := Accept(&in{Reader: bytes.NewReader(b)}); err == nil {
			t.Errorf("prologue %x is taken", b)
		}
	}
}

// TestGoldenBytes: what two versions must agree on.
func TestGoldenBytes(t *testing.T) {
	got := append(appendPrologue(nil, 0x0102), pieces(head{number: 3, length: 2}, head{number: 4, spread: true})...)
	want := []byte("RMBS\x10\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00" +
		"\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x80\x04\x00\x00\x00\x00\x00\x00\x00")
	if !bytes.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// FuzzReceiver: whatever comes on two strands, a lane gives bytes or an error, never
// more than came, and ends.
func FuzzReceiver(f *testing.F) {
	mark := head{spread: true}
	f.Add(pieces(head{length: 5}, head{number: 1, length: 9}), []byte{})
	f.Add(pieces(mark, head{number: 1, length: 5}), pieces(head{number: 2, length: 5}))
	f.Add(pieces(mark, head{number: 2, length: 5}), pieces(head{number: 1, length: 5}, head{number: 3, length: 1}))
	f.Fuzz(func(t *testing.T, base, other []byte) {
		r := receiverOf(t, false, base, other)
		n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		if n > int64(len(base)+len(other)) {
			t.Errorf("%d bytes out of %d, %v", n, len(base)+len(other), err)
		}
		r.Cancel()
		r.Wait()
	})
}
