package shard

import (
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Ends is where a partition's own records begin and end: the part of [PartitionState]
// that is asked for all partitions at once.
type Ends struct {
	LogStart rhumb.Offset
	OwnFloor rhumb.Offset
	OwnLast  rhumb.Offset
	Flushed  rhumb.Offset
}

// Ends gives that of a partition, false if it is not there.
func (s *Shard) Ends(id rhumb.PartitionID) (Ends, bool) {
	p := s.partition(id)
	if p == nil {
		return Ends{}, false
	}
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	st := &p.view.state
	return Ends{LogStart: st.LogStart, OwnFloor: st.OwnFloor, OwnLast: st.OwnLast, Flushed: st.Flushed}, true
}

// Sums is what all partitions of a shard have together.
type Sums struct {
	Partitions int
	Bytes      int64  // stored batches with their envelopes
	Gaps       uint64 // records of gaps
}

// Sums adds up the shard's partitions, without a copy of any. The storage may have to read
// an index for a size, so none of it is asked while the tables are held.
func (s *Shard) Sums() (sum Sums) {
	s.m.mu.RLock()
	all := slices.Collect(maps.Values(s.m.partitions))
	s.m.mu.RUnlock()
	sum.Partitions = len(all)
	for _, p := range all {
		p.view.mu.Lock()
		sum.Gaps += p.view.state.Gaps
		p.view.mu.Unlock()
		sum.Bytes += s.cfg.Storage.Bytes(p.id)
	}
	return sum
}

// TopicCount gives the number of topics that shard 0 has.
func (s *Shard) TopicCount() int {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	return len(s.m.topics)
}
