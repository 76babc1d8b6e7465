package shard

import "sync/atomic"

// DefaultBudget is how many bytes of batches one node holds between a producer's
// request and its answer.
const DefaultBudget = 256 << 20

// Budget bounds the bytes in flight of all shards of a node. It is taken before
// offsets are assigned, so that what is refused leaves no trace.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a budget of limit bytes; 0 or less means [DefaultBudget].
func NewBudget(limit int64) *Budget {
	if limit <= 0 {
		limit = DefaultBudget
	}
	return &Budget{limit: limit}
}

// Used gives the bytes that are in flight now.
func (b *Budget) Used() int64 { return b.used.Load() }

// take reserves n bytes. A batch larger than the whole budget goes alone.
func (b *Budget) take(n int64) bool {
	if used := b.used.Add(n); used > b.limit && used != n {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) give(n int64) { b.used.Add(-n) }
