package sim

import (
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// acked is a batch that a producer was told is stored.
type acked struct {
	region int
	life   rhumb.Life
	base   rhumb.Offset
	values []string
}

// truth is what the world knows and no region does: what clients were told, and
// which lives an operator broke.
type truth struct {
	mu        sync.Mutex
	acks      []acked
	births    map[rhumb.Life]birth // of every life that a producer or check met
	tainted   map[rhumb.Life]string
	deletions map[rhumb.Topic]uint64
	trims     map[rhumb.Topic]bool // topics of which some region deleted records
}

// birth says where and under which deletion count a life began.
type birth struct {
	region    int
	topic     rhumb.Topic
	deletions uint64
}

func (t *truth) init() {
	t.births, t.tainted, t.deletions = map[rhumb.Life]birth{}, map[rhumb.Life]string{}, map[rhumb.Topic]uint64{}
	t.trims = map[rhumb.Topic]bool{}
}

func (t *truth) ack(a acked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acks = append(t.acks, a)
}

func (t *truth) born(l rhumb.Life, b birth) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.births[l] = b
}

func (t *truth) birthOf(l rhumb.Life) (birth, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.births[l]
	return b, ok
}

func (t *truth) deleted(name rhumb.Topic, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deletions[name] = max(t.deletions[name], count)
}

func (t *truth) trim(name rhumb.Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trims[name] = true
}

func (t *truth) trimmed(name rhumb.Topic) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trims[name]
}

func (t *truth) deletionsOf(name rhumb.Topic) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deletions[name]
}

// taint marks all lives that began in a region until now: their region forgot a
// part of them, or all.
func (t *truth) taint(region int, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l, b := range t.births {
		if b.region == region {
			t.tainted[l] = why
		}
	}
}

func (t *truth) isTainted(l rhumb.Life) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tainted[l] != ""
}
