package broker

import (
	"errors"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ErrNamespaceLimit refuses partitions above what the namespace's document allows.
var ErrNamespaceLimit = errors.New("broker: limit of the namespace")

// room counts partitions that are being made in namespaces with a limit, so that two
// clients at once do not both take the last ones.
type room struct {
	mu     sync.Mutex
	making map[rhumb.Topic]*making
}

// making is a topic that is made, or grown, by so many at once.
type making struct {
	partitions int // that it has afterwards, at most
	users      int
}

// RoomFor says whether the region, and the topic's namespace in it, may have so many
// more partitions.
func (b *Broker) RoomFor(t rhumb.Topic, partitions int) error {
	if err := b.region.RoomFor(partitions); err != nil {
		return err
	}
	b.room.mu.Lock()
	defer b.room.mu.Unlock()
	return b.roomInNamespace(t, partitions)
}

// reserve is RoomFor for a topic that is to have so many partitions, of which more
// are new, and keeps the room until release is called.
func (b *Broker) reserve(t rhumb.Topic, partitions, more int) (release func(), err error) {
	if b.cfg.Policy == nil || b.cfg.Policy.PartitionLimit(t) == 0 {
		return func() {}, nil
	}
	r := &b.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := b.roomInNamespace(t, more); err != nil {
		return nil, err
	}
	if r.making == nil {
		r.making = map[rhumb.Topic]*making{}
	}
	m := r.making[t]
	if m == nil {
		m = &making{}
		r.making[t] = m
	}
	m.users, m.partitions = m.users+1, max(m.partitions, partitions)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.users--; m.users == 0 {
			delete(r.making, t)
		}
	}, nil
}

// roomInNamespace compares with the namespace's limit. The caller holds room.mu.
func (b *Broker) roomInNamespace(t rhumb.Topic, partitions int) error {
	if b.cfg.Policy == nil {
		return nil
	}
	limit := b.cfg.Policy.PartitionLimit(t)
	if limit == 0 {
		return nil
	}
	have := 0
	counted := map[rhumb.Topic]bool{} // of those that are being made: they may be there already
	for _, info := range b.region.Topics() {
		if info.Topic.Space() != t.Space() {
			continue
		}
		n := len(info.Partitions)
		if m := b.room.making[info.Topic]; m != nil {
			n, counted[info.Topic] = max(n, m.partitions), true
		}
		have += n
	}
	for topic, m := range b.room.making {
		if topic.Space() == t.Space() && !counted[topic] {
			have += m.partitions
		}
	}
	if have+partitions > limit {
		return rhumb.Errorf(rhumb.KindNoSpace, "%w: %s has %d partitions here, %d more are above its limit of %d: delete topics, or raise limits.partitions of the namespace",
			ErrNamespaceLimit, t.Space(), have, partitions, limit)
	}
	return nil
}
