package strands

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Out is a stream that a strand writes to. Cancel may be called at any time and ends
// a Write that waits; Close ends the stream behind what was written.
type Out interface {
	io.Writer
	Close() error
	Cancel()
}

// ErrClosed is what a sender gives after [Sender.Cancel].
var ErrClosed = errors.New("strands: lane is closed")

// Sender spreads a lane. One goroutine at a time writes; the other methods may be
// called by any.
type Sender struct {
	// Fixed at construction.
	lane   uint64
	base   *Strand
	moved  func(n int) // a stream took so many bytes; nil: nobody asks
	broken func(error) // called once, when a strand breaks; it does not block

	blocked atomic.Int64 // ns that writes took which are over
	since   atomic.Int64 // when the one that is under way began, Unix ns; 0: none is
	writers sync.WaitGroup

	// Owned by who writes.
	number uint64
	opened bool // the base's prologue is written
	spread bool // there are several strands, or were
	heads  [headSize]byte
	small  []byte // room for a small piece with its head

	mu      sync.Mutex
	pending []*Strand     // added, not begun
	strands []*Strand     // begun
	free    []*Strand     // of these, that wait for a piece
	begun   int           // strands so far
	wake    chan struct{} // capacity 1: free is not empty, or err is set
	err     error
}

// Strand is one stream of a sender's.
type Strand struct {
	out     Out
	size    int      // of its next piece; owned by who writes, or by its own goroutine
	work    chan int // capacity 1: length of the piece in buf
	buf     []byte
	order   int   // of beginning, the base first
	weight  int64 // guarded by the sender's mu
	leaving bool  // the same
}

// NewSender makes a lane whose base is a stream. moved and broken may be nil.
func NewSender(lane uint64, base Out, moved func(n int), broken func(error)) *Sender {
	return &Sender{lane: lane, base: &Strand{out: base, size: spreadPiece}, moved: moved, broken: broken, wake: make(chan struct{}, 1)}
}

// Add has the lane use one more stream, from the next piece on. The stream is the
// sender's from now on. It gives nil if the lane is over, or has enough.
func (s *Sender) Add(out Out) *Strand {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.pending)+len(s.strands) >= Max {
		return nil
	}
	x := &Strand{out: out, size: 2 * leastPiece}
	s.pending = append(s.pending, x)
	return x
}

// Remove has the lane end one of its streams behind the piece that it has.
func (s *Sender) Remove(x *Strand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.pending, x); i >= 0 {
		s.pending = slices.Delete(s.pending, i, i+1)
		x.out.Cancel()
		return
	}
	if x.leaving || x == s.base || s.err != nil || !slices.Contains(s.strands, x) {
		return
	}
	x.leaving = true
	if i := slices.Index(s.free, x); i >= 0 {
		s.free = slices.Delete(s.free, i, i+1)
		close(x.work)
	}
}

// Count gives the number of streams that the lane uses or is about to.
func (s *Sender) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 1 + len(s.pending)
	for _, x := range s.strands {
		if x != s.base && !x.leaving {
			n++
		}
	}
	return n
}

// Blocked gives for how long Write waited for the streams so far. It may go back by a
// moment when a write ends while it looks.
func (s *Sender) Blocked() time.Duration {
	d := time.Duration(s.blocked.Load())
	if since := s.since.Load(); since != 0 {
		d += time.Since(time.Unix(0, since))
	}
	return d
}

// Cancel ends the lane and all its streams at once.
func (s *Sender) Cancel() { s.fail(ErrClosed) }

// Wait joins what the sender started. The lane must be over.
func (s *Sender) Wait() { s.writers.Wait() }

// Write puts bytes on the lane. It waits while no stream takes any; with several
// strands it may return before a stream has taken the last ones.
func (s *Sender) Write(b []byte) (n int, err error) {
	began := time.Now()
	s.since.Store(began.UnixNano())
	defer func() {
		s.since.Store(0)
		s.blocked.Add(int64(time.Since(began)))
	}()
	if !s.opened {
		s.opened = true
		if err := s.direct(appendPrologue(nil, s.lane)); err != nil {
			return 0, err
		}
	}
	for n < len(b) {
		if err := s.begin(); err != nil {
			return n, err
		}
		var took int
		if s.spread {
			took, err = s.give(b[n:])
		} else {
			took, err = s.piece(b[n:])
		}
		n += took
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// direct writes to the base.
func (s *Sender) direct(b []byte) error {
	if _, err := s.base.out.Write(b); err != nil {
		return s.fail(err)
	}
	s.progress(len(b))
	return nil
}

// piece writes the next piece to the base from where it lies.
func (s *Sender) piece(b []byte) (int, error) {
	b = b[:min(len(b), s.base.size)]
	began := time.Now()
	s.next(len(b), false).put(s.heads[:])
	first, rest := s.heads[:], b
	if len(b) <= leastPiece { // to copy it costs less than another write
		s.small = append(append(s.small[:0], s.heads[:]...), b...)
		first, rest = s.small, nil
	}
	for _, part := range [][]byte{first, rest} {
		if len(part) == 0 {
			continue
		}
		if err := s.direct(part); err != nil {
			return 0, err
		}
	}
	s.base.learn(len(b), time.Since(began), MaxPiece)
	return len(b), nil
}

// learn sizes the next piece by how long one took.
func (x *Strand) learn(n int, took time.Duration, most int) {
	switch {
	case took > slowPiece:
		x.size = max(leastPiece, n/2)
	case took < quickPiece && n >= x.size:
		x.size = min(2*x.size, most)
	}
}

func (s *Sender) next(length int, spread bool) head {
	h := head{number: s.number, length: length, spread: spread}
	s.number++
	return h
}

// begin starts the strands that were added.
func (s *Sender) begin() error {
	s.mu.Lock()
	pending, err := s.pending, s.err
	s.pending = nil
	s.mu.Unlock()
	if err != nil || len(pending) == 0 {
		return err
	}
	if !s.spread {
		s.next(0, true).put(s.heads[:])
		if err := s.direct(s.heads[:]); err != nil {
			for _, x := range pending {
				x.out.Cancel()
			}
			return err
		}
		s.spread = true
		s.start(s.base)
	}
	for _, x := range pending {
		s.start(x)
	}
	return nil
}

// start has a strand write what it is given.
func (s *Sender) start(x *Strand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		x.out.Cancel()
		return
	}
	x.work, x.buf, x.size = make(chan int, 1), make([]byte, headSize+spreadPiece), min(x.size, spreadPiece)
	s.begun++
	x.order = s.begun
	s.strands = append(s.strands, x)
	s.free = append(s.free, x)
	s.writers.Go(func() { s.run(x) })
}

// run writes the pieces of a strand until it leaves or the lane ends.
func (s *Sender) run(x *Strand) {
	if x != s.base {
		if _, err := x.out.Write(appendPrologue(nil, s.lane)); err != nil {
			_ = s.fail(err)
			return
		}
	}
	for n := range x.work {
		began := time.Now()
		if _, err := x.out.Write(x.buf[:n]); err != nil {
			_ = s.fail(err)
			return
		}
		x.learn(n-headSize, time.Since(began), spreadPiece)
		s.progress(n)
		s.mu.Lock()
		if s.err != nil || x.leaving {
			s.mu.Unlock()
			break
		}
		s.free = append(s.free, x)
		s.mu.Unlock()
		s.signal()
	}
	s.mu.Lock()
	over := s.err != nil
	s.strands = slices.DeleteFunc(s.strands, func(o *Strand) bool { return o == x })
	s.mu.Unlock()
	if !over {
		_ = x.out.Close() // the receiver tells if it did not arrive
	}
}

// give copies the next piece to a strand that is free, and waits for one.
func (s *Sender) give(b []byte) (int, error) {
	for {
		s.mu.Lock()
		if s.err != nil {
			defer s.mu.Unlock()
			return 0, s.err
		}
		if len(s.free) > 0 {
			x := s.first()
			n := copy(x.buf[headSize:], b[:min(len(b), x.size)])
			s.next(n, false).put(x.buf)
			x.work <- headSize + n // it was free: there is room
			s.mu.Unlock()
			return n, nil
		}
		s.mu.Unlock()
		<-s.wake
	}
}

// Weigh has a strand, nil for the base, preferred to all of less weight.
func (s *Sender) Weigh(x *Strand, weight int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x == nil {
		x = s.base
	}
	x.weight = weight
}

// first takes of the strands that are free the one with the most weight, of these the
// oldest: a trickle so stays on few connections, where the packets that follow tell of
// a lost one sooner than a timer does. The caller holds mu.
func (s *Sender) first() *Strand {
	at := 0
	for i, x := range s.free {
		if y := s.free[at]; x.weight > y.weight || x.weight == y.weight && x.order < y.order {
			at = i
		}
	}
	x := s.free[at]
	s.free = slices.Delete(s.free, at, at+1)
	return x
}

func (s *Sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Sender) progress(n int) {
	if s.moved != nil {
		s.moved(n)
	}
}

// fail ends the lane. The first cause counts; it gives that.
func (s *Sender) fail(err error) error {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	s.err = err
	all := append(slices.Clone(s.strands), s.pending...)
	for _, x := range s.free {
		close(x.work)
	}
	s.free, s.pending = nil, nil
	s.mu.Unlock()
	s.signal()
	s.base.out.Cancel()
	for _, x := range all {
		x.out.Cancel()
	}
	if s.broken != nil && !errors.Is(err, ErrClosed) {
		s.broken(err)
	}
	return err
}
