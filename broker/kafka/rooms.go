package kafka

import (
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/internal/offheap"
)

const (
	// keptRooms bounds what freed rooms of a server take, which wait to be used again.
	keptRooms = 64 << 20
	// keptShare is what they may have of the budget of requests, on top of it.
	keptShare = 4
	// roomIdle is how long one waits.
	roomIdle = time.Second
)

// rooms keeps some of the system's pieces of memory that bodies of requests were read
// into. A fresh piece costs as much as its content twice over: each page is cleared,
// entered and taken away again.
type rooms struct {
	most int64 // bytes that may wait; 0: none

	mu     sync.Mutex
	spare  []spareRoom // the longest unused first
	bytes  int64       // of spare
	timer  *time.Timer // that calls trim, nil while nothing waits
	closed bool
}

type spareRoom struct {
	room  []byte
	since time.Time
}

func newRooms(budget int64) *rooms { return &rooms{most: min(budget/keptShare, keptRooms)} }

// get gives a room of n bytes, or a little more: the last one that was used, if it fits.
// All of a used one takes memory, so a much larger one would be more than the budget of
// requests was asked for. It is nil if the system has none.
func (r *rooms) get(n int64) []byte {
	r.mu.Lock()
	for i := len(r.spare) - 1; i >= 0; i-- {
		room := r.spare[i].room
		if size := int64(len(room)); size < n || size > n+n/sizeSteps {
			continue
		}
		r.spare = append(r.spare[:i], r.spare[i+1:]...)
		r.bytes -= int64(len(room))
		r.mu.Unlock()
		return room
	}
	r.mu.Unlock()
	room := mapRoom(n)
	offheap.Add(int64(len(room)))
	return room
}

// put takes a room back. Nobody may use its bytes any more.
func (r *rooms) put(room []byte) {
	size, now := int64(len(room)), time.Now()
	var gone []spareRoom
	r.mu.Lock()
	if r.closed || size > r.most {
		gone = []spareRoom{{room: room}}
	} else {
		n := 0
		for r.bytes+size > r.most {
			r.bytes -= int64(len(r.spare[n].room))
			n++
		}
		gone = r.drop(n)
		r.spare = append(r.spare, spareRoom{room, now})
		r.bytes += size
		if r.timer == nil {
			r.timer = time.AfterFunc(roomIdle, r.trim)
		}
	}
	r.mu.Unlock()
	giveBack(gone)
}

// drop takes the first n out of those that wait. Call with r.mu held.
func (r *rooms) drop(n int) []spareRoom {
	if n == 0 {
		return nil
	}
	gone := append([]spareRoom(nil), r.spare[:n]...)
	rest := copy(r.spare, r.spare[n:])
	clear(r.spare[rest:])
	r.spare = r.spare[:rest]
	return gone
}

// trim gives back what nobody used for roomIdle.
func (r *rooms) trim() {
	now, n := time.Now(), 0
	r.mu.Lock()
	for n < len(r.spare) && now.Sub(r.spare[n].since) >= roomIdle {
		r.bytes -= int64(len(r.spare[n].room))
		n++
	}
	gone := r.drop(n)
	if len(r.spare) == 0 || r.closed {
		r.timer = nil
	} else {
		r.timer.Reset(roomIdle)
	}
	r.mu.Unlock()
	giveBack(gone)
}

// close gives everything back; what is used is given back as it comes.
func (r *rooms) close() {
	r.mu.Lock()
	r.closed = true
	gone := r.spare
	r.spare, r.bytes = nil, 0
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	giveBack(gone)
}

func giveBack(gone []spareRoom) {
	for _, g := range gone {
		offheap.Add(-int64(len(g.room)))
		unmapRoom(g.room)
	}
}
