package strands

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// In is a stream that a strand reads from. Cancel may be called at any time and ends
// a Read that waits.
type In interface {
	io.Reader
	Cancel()
}

// incomingBuffer is of each strand, for heads: the bytes of a piece pass it by.
const incomingBuffer = 4 << 10

// Incoming is a stream of which the lane is known.
type Incoming struct {
	Lane uint64
	in   In
	r    *bufio.Reader
	more chan struct{} // capacity 1: its piece is read
	head head
}

// Accept reads the prologue of a strand. Errors are of kind corrupt, or what reading
// gives.
func Accept(in In) (*Incoming, error) {
	x := &Incoming{in: in, r: bufio.NewReaderSize(in, incomingBuffer), more: make(chan struct{}, 1)}
	var err error
	x.Lane, err = readPrologue(x.r)
	return x, err
}

// Receiver puts a lane together. One goroutine reads; the other methods may be called
// by any.
type Receiver struct {
	readers sync.WaitGroup
	wake    chan struct{} // capacity 1: a head came, or err is set
	done    chan struct{} // closed when err is set

	// Owned by who reads.
	base *Incoming
	now  *Incoming // whose piece is read
	left int       // of it

	mu      sync.Mutex
	next    uint64 // number of the piece that is read, or comes next
	spread  bool
	waiting []*Incoming // came before the lane was spread
	strands map[*Incoming]struct{}
	heads   map[uint64]*Incoming // pieces whose turn has not come
	err     error
}

// NewReceiver makes a lane of which no strand came yet.
func NewReceiver() *Receiver {
	return &Receiver{wake: make(chan struct{}, 1), done: make(chan struct{}),
		strands: map[*Incoming]struct{}{}, heads: map[uint64]*Incoming{}}
}

// Base gives the lane its base, once, before it is read.
func (r *Receiver) Base(x *Incoming) { r.base = x }

// Add gives the lane one of its other strands. It reports false if the lane is over or
// has too many; then the strand is not the receiver's.
func (r *Receiver) Add(x *Incoming) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || len(r.strands)+len(r.waiting) > Max {
		return false
	}
	if !r.spread {
		r.waiting = append(r.waiting, x)
		return true
	}
	r.start(x)
	return true
}

// start reads a strand's heads. The caller holds mu.
func (r *Receiver) start(x *Incoming) {
	r.strands[x] = struct{}{}
	r.readers.Go(func() { r.run(x) })
}

// Count gives the number of strands that the lane has.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(1, len(r.strands)+len(r.waiting))
}

// Read gives the next bytes of the lane. io.EOF is the end of its base.
func (r *Receiver) Read(p []byte) (int, error) {
	for r.left == 0 {
		if err := r.advance(); err != nil {
			return 0, err
		}
	}
	n, err := r.now.r.Read(p[:min(len(p), r.left)])
	r.left -= n
	if err != nil {
		r.fail(whole(err))
		return n, whole(err)
	}
	if r.left == 0 {
		r.finish()
	}
	return n, nil
}

// finish goes on behind the piece that is read.
func (r *Receiver) finish() {
	r.mu.Lock()
	r.next++
	spread := r.spread
	r.mu.Unlock()
	if spread {
		r.now.more <- struct{}{} // its reader waits for this
	}
}

// advance finds the next piece.
func (r *Receiver) advance() error {
	r.mu.Lock()
	spread, next, err := r.spread, r.next, r.err
	x := r.heads[next]
	delete(r.heads, next)
	r.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !spread:
		return r.single(next)
	case x != nil:
		r.now, r.left = x, x.head.length
		return nil
	}
	select {
	case <-r.wake:
	case <-r.done:
	}
	return nil
}

// single reads the next head from the base, while that is the only strand.
func (r *Receiver) single(next uint64) error {
	var b [headSize]byte
	h, err := readHead(r.base.r, b[:])
	if err == nil && h.number != next {
		err = corruptf("piece %d where %d comes next", h.number, next)
	}
	if err != nil {
		r.fail(err)
		return err
	}
	if !h.spread {
		r.now, r.left = r.base, h.length
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spread = true
	r.next++
	r.start(r.base)
	for _, x := range r.waiting {
		r.start(x)
	}
	r.waiting = nil
	return nil
}

// run tells of the pieces of a strand, one after the other.
func (r *Receiver) run(x *Incoming) {
	var b [headSize]byte
	for last, first := uint64(0), true; ; first = false {
		h, err := readHead(x.r, b[:])
		if errors.Is(err, io.EOF) && x != r.base {
			r.mu.Lock()
			delete(r.strands, x)
			r.mu.Unlock()
			x.in.Cancel() // nothing more comes: the stream is done
			return
		}
		if err == nil && (h.spread || !first && h.number <= last) {
			err = corruptf("a piece out of order")
		}
		if err == nil {
			err = r.tell(x, h)
		}
		if err != nil {
			r.fail(err)
			return
		}
		last = h.number
		select {
		case <-x.more:
		case <-r.done:
			return
		}
	}
}

// tell notes that a strand has a piece.
func (r *Receiver) tell(x *Incoming, h head) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.number < r.next || r.heads[h.number] != nil {
		return corruptf("piece %d comes twice", h.number)
	}
	x.head = h
	r.heads[h.number] = x
	if h.number == r.next {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Cancel ends the lane: a Read that waits gives [ErrClosed].
func (r *Receiver) Cancel() { r.fail(ErrClosed) }

// Wait joins what the receiver started. The lane must be over.
func (r *Receiver) Wait() { r.readers.Wait() }

// fail ends the lane and its streams. The first cause counts.
func (r *Receiver) fail(err error) {
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return
	}
	r.err = err
	all := r.waiting
	for x := range r.strands {
		all = append(all, x)
	}
	r.waiting = nil
	close(r.done)
	r.mu.Unlock()
	for _, x := range all {
		x.in.Cancel()
	}
	if r.base != nil {
		r.base.in.Cancel()
	}
}
