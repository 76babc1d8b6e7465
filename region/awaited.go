package region

import (
	"math"
	"slices"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
)

// awaited are the topics that somebody waits for. A change wakes only those who wait for
// a topic that changed: where a thousand topics are made at once, each woken by each
// change would cost a million wakes.
type awaited struct {
	mu      sync.Mutex
	mark    uint64 // of the topics' history: those who wait have seen what was before it
	waiting map[rhumb.UUID][]chan struct{}
}

// add gives what is signalled when a topic changes or goes, until cancel. What was before
// the call is not: look after it.
func (a *awaited) add(meta *shard.Shard, id rhumb.UUID) (changed <-chan struct{}, cancel func()) {
	c := make(chan struct{}, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		a.mark = meta.TopicsSince(math.MaxUint64).Next
		a.waiting = map[rhumb.UUID][]chan struct{}{}
	}
	a.waiting[id] = append(a.waiting[id], c)
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		rest := slices.DeleteFunc(a.waiting[id], func(o chan struct{}) bool { return o == c })
		if a.waiting[id] = rest; len(rest) == 0 {
			delete(a.waiting, id)
		}
	}
}

// wake signals those who wait for a topic that changed since the last call. It does not
// block.
func (a *awaited) wake(meta *shard.Shard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		return
	}
	change := meta.TopicsSince(a.mark)
	a.mark = change.Next
	if change.Whole || change.Gone > 0 {
		for id := range a.waiting {
			a.signal(id)
		}
		return
	}
	for _, t := range change.Changed {
		a.signal(t.ID)
	}
}

// signal wakes those who wait for a topic. The caller holds mu.
func (a *awaited) signal(id rhumb.UUID) {
	for _, c := range a.waiting[id] {
		select {
		case c <- struct{}{}:
		default: // it will look anyway
		}
	}
}
