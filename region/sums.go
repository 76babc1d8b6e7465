package region

import (
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
)

// Ends is where a partition's own records begin and end.
type Ends = shard.Ends

// Ends gives that of a partition, false if it is not there.
func (r *Region) Ends(ref rhumb.PartitionRef) (Ends, bool) {
	if s := r.shard(ref.Shard); s != nil {
		return s.Ends(ref.ID)
	}
	return Ends{}, false
}

// Sums is what the region has in all.
type Sums struct {
	Topics, Partitions int
	Open               int    // partitions that are on this node
	Bytes              int64  // stored batches with their envelopes
	Gaps               uint64 // records of gaps
}

// Sums adds up all topics and partitions, without a copy of any: with tens of thousands of
// topics a list of them is tens of megabytes.
func (r *Region) Sums() Sums {
	sum := Sums{Topics: r.shards[0].TopicCount(), Partitions: r.shards[0].PartitionCount()}
	for _, s := range r.shards {
		part := s.Sums()
		sum.Open += part.Partitions
		sum.Bytes += part.Bytes
		sum.Gaps += part.Gaps
	}
	return sum
}
