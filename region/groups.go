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

// CommitOffsets stores a group's positions; it returns when they are durable.
func (r *Region) CommitOffsets(ctx context.Context, k GroupKey, commits []OffsetCommit) error {
	return r.coordinator(k).CommitOffsets(ctx, k, commits)
}

// Offsets gives a group's committed positions.
func (r *Region) Offsets(k GroupKey) map[OffsetKey]OffsetCommit { return r.coordinator(k).Offsets(k) }

// DeleteOffsets forgets positions of a group.
func (r *Region) DeleteOffsets(ctx context.Context, k GroupKey, offsets []OffsetKey) error {
	return r.coordinator(k).DeleteOffsets(ctx, k, offsets)
}

// PutGroup stores what a group's coordinator wants to find again.
func (r *Region) PutGroup(ctx context.Context, k GroupKey, blob []byte) error {
	return r.coordinator(k).PutGroup(ctx, k, blob)
}

// Group gives what PutGroup stored, nil if nothing.
func (r *Region) Group(k GroupKey) []byte { return r.coordinator(k).Group(k) }

// DeleteGroup forgets a group: its state and all its positions.
func (r *Region) DeleteGroup(ctx context.Context, k GroupKey) error {
	return r.coordinator(k).DeleteGroup(ctx, k)
}

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
