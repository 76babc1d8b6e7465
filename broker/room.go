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
	making map[rhumb.Space]int
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

// reserve is RoomFor, and keeps the room until release is called.
func (b *Broker) reserve(t rhumb.Topic, partitions int) (release func(), err error) {
	if b.cfg.Policy == nil || b.cfg.Policy.PartitionLimit(t) == 0 {
		return func() {}, nil
	}
	r := &b.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := b.roomInNamespace(t, partitions); err != nil {
		return nil, err
	}
	if r.making == nil {
		r.making = map[rhumb.Space]int{}
	}
	r.making[t.Space()] += partitions
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.making[t.Space()] -= partitions; r.making[t.Space()] == 0 {
			delete(r.making, t.Space())
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
	have := b.room.making[t.Space()]
	for _, info := range b.region.Topics() {
		if info.Topic.Space() == t.Space() {
			have += len(info.Partitions)
		}
	}
	if have+partitions > limit {
		return rhumb.Errorf(rhumb.KindNoSpace, "%w: %s has %d partitions here, %d more are above its limit of %d: delete topics, or raise limits.partitions of the namespace",
			ErrNamespaceLimit, t.Space(), have, partitions, limit)
	}
	return nil
}
