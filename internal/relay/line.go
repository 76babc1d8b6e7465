package relay

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// maxHeld bounds the bytes that a line holds back: a long fat line (400 ms at
// 1 Gbit/s) fits, a mistyped setting cannot eat the machine's memory.
const maxHeld = 64 << 20

// LineStats counts what a line did since it was made.
type LineStats struct {
	Sent, Delivered, Dropped uint64 // datagrams; Sent counts what was given to Send
	Bytes                    uint64 // delivered
}

// Line is one direction: datagrams go in with Send and come out through
// deliver when their time has come. Run must be running.
type Line struct {
	deliver func(datagrams [][]byte)
	due     [][]byte // owned by Run

	mu    sync.Mutex
	fate  *fate
	held  datagrams
	bytes int // of held
	order uint64
	stats LineStats

	wake chan struct{} // capacity 1: the head of held changed
}

// NewLine makes a line. Luck depends on seed and direction (any two numbers).
// deliver is called by Run, one datagram at a time; the slice is its own.
func NewLine(seed, direction uint64, s Settings, deliver func(datagram []byte)) *Line {
	return newLine(seed, direction, s, func(datagrams [][]byte) {
		for _, d := range datagrams {
			deliver(d)
		}
	})
}

// newLine is NewLine with a deliver that gets all that is due, at most maxRow
// datagrams at a time, in order.
func newLine(seed, direction uint64, s Settings, deliver func(datagrams [][]byte)) *Line {
	return &Line{deliver: deliver, fate: newFate(seed, direction, s), wake: make(chan struct{}, 1)}
}

// Set changes the settings for datagrams that are sent from now on; what is
// under way already arrives as it would have, unless the line is cut.
func (l *Line) Set(s Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fate.set(s)
	if s.Cut {
		l.stats.Dropped += uint64(len(l.held))
		l.held, l.bytes = nil, 0
	}
}

// Settings gives the settings in force.
func (l *Line) Settings() Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fate.settings
}

// Stats gives the counts so far.
func (l *Line) Stats() LineStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Send puts a copy of the datagram on the line. It never blocks.
func (l *Line) Send(datagram []byte) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Sent++
	times, n := l.fate.arrivals(now, len(datagram))
	if n == 0 || l.bytes+n*len(datagram) > maxHeld {
		l.stats.Dropped++
		return
	}
	first := len(l.held) == 0 || times[0].Before(l.held[0].at)
	for _, at := range times[:n] {
		l.order++
		heap.Push(&l.held, held{at: at, order: l.order, data: append([]byte(nil), datagram...)})
		l.bytes += len(datagram)
	}
	if first {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Run delivers until the context ends, and returns its cause.
func (l *Line) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := l.deliverDue(ctx)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// deliverDue delivers all that is due and gives the time until the next one.
func (l *Line) deliverDue(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		wait := l.takeDue()
		if len(l.due) == 0 {
			return wait
		}
		l.deliver(l.due)
		l.countDue()
		clear(l.due)
	}
	return time.Hour
}

// takeDue moves what is due to due, and gives the time until the next one if that
// is nothing.
func (l *Line) takeDue() (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = l.due[:0]
	for len(l.held) > 0 && len(l.due) < maxRow {
		if wait = time.Until(l.held[0].at); wait > 0 {
			return wait
		}
		d := heap.Pop(&l.held).(held)
		l.bytes -= len(d.data)
		l.due = append(l.due, d.data)
	}
	return time.Hour
}

// countDue counts what was delivered, after it was: who waits for the count may
// rely on it.
func (l *Line) countDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Delivered += uint64(len(l.due))
	for _, data := range l.due {
		l.stats.Bytes += uint64(len(data))
	}
}

type held struct {
	at    time.Time
	order uint64 // breaks ties, so that equal times keep the order of sending
	data  []byte
}

type datagrams []held

func (d datagrams) Len() int      { return len(d) }
func (d datagrams) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d datagrams) Less(i, j int) bool {
	if !d[i].at.Equal(d[j].at) {
		return d[i].at.Before(d[j].at)
	}
	return d[i].order < d[j].order
}
func (d *datagrams) Push(x any) { *d = append(*d, x.(held)) }
func (d *datagrams) Pop() any {
	old := *d
	x := old[len(old)-1]
	old[len(old)-1] = held{}
	*d = old[:len(old)-1]
	return x
}
