package session

import (
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/mutant"
)

// flight is a message that was sent and is not confirmed.
type flight struct {
	end   dedup.ChainPoint // where it moves the watermark to
	size  int
	total int // sizes of all flights of the session up to and with this one
	skips int // how many of these are skips
}

// flights are the messages in flight, in order. Invariant: end.Offset grows.
type flights struct{ list []flight }

// bytes is derived from the list alone.
func (f *flights) bytes() int {
	if len(f.list) == 0 {
		return 0
	}
	first, last := f.list[0], f.list[len(f.list)-1]
	return last.total - first.total + first.size
}

func (f *flights) add(end dedup.ChainPoint, size int) {
	next := flight{end: end, size: size, total: size}
	if size == skipSize { // smaller than any batch
		next.skips = 1
	}
	if n := len(f.list); n > 0 {
		next.total += f.list[n-1].total
		next.skips += f.list[n-1].skips
	}
	f.list = append(f.list, next)
}

// skips is how many skips are in flight, give or take the first message.
func (f *flights) skips() int {
	if len(f.list) == 0 {
		return 0
	}
	return f.list[len(f.list)-1].skips - f.list[0].skips + 1
}

// confirm removes everything that ends at or before the watermark. It is false
// if the message that ends there has another chain.
func (f *flights) confirm(w dedup.ChainPoint) bool {
	n := 0
	for n < len(f.list) && f.list[n].end.Offset <= w.Offset {
		n++
	}
	agrees := n == 0 || f.list[n-1].end.Offset != w.Offset || f.list[n-1].end == w
	if mutant.On(mutant.WindowLeak) && n > 0 {
		n-- // the last confirmed message keeps its permit
	}
	f.list = f.list[n:]
	return agrees
}

func (f *flights) clear() { f.list = f.list[:0] }
