package region

import (
	"context"
	"hash/fnv"
	"sync"

	"github.com/rhumbmq/rhumb/region/shard"
)

// Slots is the number of coordinator slots. It never changes: a group hashes to
// a slot, and a slot to a shard.
const Slots = 64

// Slot gives the coordinator slot of a group.
func Slot(k GroupKey) int {
	h := fnv.New64a()
	for _, part := range [...]string{string(k.Tenant), string(k.Namespace), k.Group} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return int(h.Sum64() % Slots)
}

func (r *Region) coordinator(k GroupKey) *shard.Shard {
	return r.shards[1+Slot(k)%r.cfg.Shards]
}

// Coordinates gives the term in which this node coordinates a group, false if it
// does not: then another node does, or none yet.
func (r *Region) Coordinates(k GroupKey) (term uint64, ok bool) { return r.coordinator(k).Leadership() }

// StoreOffsets stores a group's positions, all or none. Like the other writes to
// groups it takes place in the order of the calls for that group; done is called
// once, from the shard's goroutine when the write is durable, or before the call
// returns if it is refused. It must not block.
func (r *Region) StoreOffsets(k GroupKey, commits []OffsetCommit, done func(error)) {
	r.coordinator(k).CommitOffsets(k, commits, done)
}

// StoreDeleteOffsets forgets positions of a group; if before is not 0 only those
// that were stored before that time, in ms since 1970.
func (r *Region) StoreDeleteOffsets(k GroupKey, offsets []OffsetKey, before int64, done func(error)) {
	r.coordinator(k).DeleteOffsets(k, offsets, before, done)
}

// StorePutGroup stores what a group's coordinator wants to find again; an empty
// blob forgets it.
func (r *Region) StorePutGroup(k GroupKey, blob []byte, done func(error)) {
	r.coordinator(k).PutGroup(k, blob, done)
}

// StoreDeleteGroup forgets a group: its state and all its positions.
func (r *Region) StoreDeleteGroup(k GroupKey, done func(error)) {
	r.coordinator(k).DeleteGroup(k, done)
}

// OffsetsUse tells what committed positions take in memory: what commits would add
// for a group, the group's, and those of all groups of the region.
func (r *Region) OffsetsUse(k GroupKey, commits []OffsetCommit) OffsetsUse {
	u := r.coordinator(k).OffsetsUse(k, commits)
	u.Count, u.All = 0, 0
	for _, s := range r.shards[1:] {
		n, bytes := s.OffsetsTotal()
		u.Count += n
		u.All += bytes
	}
	return u
}

// Offsets gives a group's committed positions.
func (r *Region) Offsets(k GroupKey) map[OffsetKey]OffsetCommit { return r.coordinator(k).Offsets(k) }

// Group gives what StorePutGroup stored, nil if nothing.
func (r *Region) Group(k GroupKey) []byte { return r.coordinator(k).Group(k) }

// Groups gives the keys of all groups that have anything stored, in no order.
func (r *Region) Groups() []GroupKey {
	var out []GroupKey
	for _, s := range r.shards[1:] {
		out = append(out, s.Groups()...)
	}
	return out
}

// producerIDs hands out the ids of one block after the other.
type producerIDs struct {
	mu   sync.Mutex
	next int64 // 0: a block is needed
	end  int64
}

const blockBits = 16

// ProducerID gives a producer id that no client of the region, in this life or
// another, has had: region number << 48 | block << 16 | counter. It is positive.
// Blocks grow, and start at the clock: neither a rebuilt nor a restored data
// directory gives one again.
func (r *Region) ProducerID(ctx context.Context) (int64, error) {
	p := &r.ids
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == p.end {
		block, err := r.shards[0].ProducerBlock(ctx)
		if err != nil {
			return 0, err
		}
		p.next = int64(r.cfg.Number)<<48 | block<<blockBits
		p.end = p.next + 1<<blockBits
	}
	id := p.next
	p.next++
	return id, nil
}
