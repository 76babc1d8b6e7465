package shard

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// view is what other goroutines see of a partition: its state after the last
// update that the storage has, and who waits for the next.
type view struct {
	mu      sync.Mutex // also guards partition.gaps
	state   PartitionState
	gone    bool
	waiters []waiting
	// unflushed holds ends of the log that are committed but not yet on the
	// disks of a majority, by the entry that made them.
	unflushed []flushPoint
}

type flushPoint struct {
	index uint64
	end   rhumb.Offset
}

// waiting is a waiter, and the partition that it was added to. Most partitions have one.
type waiting struct {
	*Waiter
	ref rhumb.PartitionRef
}

func newView() *view { return &view{} }

// remove takes a waiter away, if it is there. The caller holds mu.
func (v *view) remove(w *Waiter) {
	i := slices.IndexFunc(v.waiters, func(o waiting) bool { return o.Waiter == w })
	if i < 0 {
		return
	}
	last := len(v.waiters) - 1
	v.waiters[i] = v.waiters[last]
	v.waiters[last] = waiting{}
	v.waiters = v.waiters[:last]
}

// show publishes a partition.
func (s *Shard) show(p *partition, flushed uint64) {
	if len(p.past) > 0 {
		s.renamed.Store(true)
	}
	p.publish(s.m.index, flushed)
}

// publish shows the partition's applied state, of which entries up to flushed
// are on the disks of a majority.
func (p *partition) publish(index, flushed uint64) {
	v := p.view
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &v.state
	s.Topic, s.TopicID, s.Index, s.Deletions = p.topic, p.topicID, p.index, p.deletions
	s.Life, s.Past, s.Starts, s.Edges = p.life, p.past, p.starts, p.edges
	s.LogStart, s.OwnFloor = p.logStart, p.logStart-1
	s.OwnLast, s.OwnChain = p.ownLast, p.ownChain
	s.Gaps, s.LastAppend = p.gapCount, p.lastAppend
	if p.moved {
		s.Watermarks, p.moved = p.watermarks(), false
	}
	if s.End != p.end {
		s.End = p.end
		v.unflushed = append(v.unflushed, flushPoint{index, p.end})
	}
	v.flush(flushed)
	v.signal()
}

// flush raises Flushed by what entries up to index hold, and reports whether it
// grew. The caller holds mu.
func (v *view) flush(index uint64) bool {
	n := 0
	for n < len(v.unflushed) && v.unflushed[n].index <= index {
		v.state.Flushed = max(v.state.Flushed, v.unflushed[n].end)
		n++
	}
	v.unflushed = append(v.unflushed[:0], v.unflushed[n:]...)
	return n > 0
}

// signal wakes all waiters. The caller holds mu.
func (v *view) signal() {
	for _, w := range v.waiters {
		w.Signal(w.ref)
	}
}

func (p *partition) watermarks() []dedup.Watermark {
	var out []dedup.Watermark
	for _, k := range p.marks {
		if k.known {
			out = append(out, k.applied)
		}
	}
	slices.SortFunc(out, func(a, b dedup.Watermark) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), bytes.Compare(a.Life[:], b.Life[:]))
	})
	return out
}

// partition finds a partition, from any goroutine.
func (s *Shard) partition(id rhumb.PartitionID) *partition {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	return s.m.partitions[id]
}

// Glance is State without what the storage is asked for: Bytes and Compacted are 0.
func (s *Shard) Glance(id rhumb.PartitionID) (PartitionState, bool) {
	p := s.partition(id)
	if p == nil {
		return PartitionState{}, false
	}
	p.view.mu.Lock()
	st := p.view.state
	p.view.mu.Unlock()
	st.LeaderEpoch, st.Leading = int32(s.epoch.Load()), s.leading.Load()
	return st, true
}

// State gives what this node knows of a partition, false if it is not there.
func (s *Shard) State(id rhumb.PartitionID) (PartitionState, bool) {
	st, ok := s.Glance(id)
	if !ok {
		return st, false
	}
	st.Bytes, st.Compacted = s.cfg.Storage.Bytes(id), s.cfg.Storage.Compacted(id)
	return st, true
}

// Gaps gives the gap records of a partition, oldest first.
func (s *Shard) Gaps(id rhumb.PartitionID) []Gap {
	p := s.partition(id)
	if p == nil {
		return nil
	}
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	gaps := append([]Gap(nil), p.gaps...)
	for i := range gaps {
		gaps[i].Number = uint64(i)
	}
	return gaps
}

// AddWaiter has w signalled when the partition changes. It reports whether the
// partition is there.
func (s *Shard) AddWaiter(id rhumb.PartitionID, w *Waiter) bool {
	p := s.partition(id)
	if p == nil {
		return false
	}
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	if p.view.gone {
		return false
	}
	p.view.remove(w) // it is there once
	p.view.waiters = append(p.view.waiters, waiting{w, rhumb.PartitionRef{Shard: s.cfg.ID, ID: id}})
	return true
}

// RemoveWaiter takes back what AddWaiter did.
func (s *Shard) RemoveWaiter(id rhumb.PartitionID, w *Waiter) {
	if p := s.partition(id); p != nil {
		p.view.mu.Lock()
		p.view.remove(w)
		p.view.mu.Unlock()
	}
}

// depart marks a partition that was deleted.
func (p *partition) depart() {
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	p.view.gone = true
	p.view.signal()
	p.view.waiters = nil
}

// Partitions gives the ids of the shard's partitions, in no order.
func (s *Shard) Partitions() []rhumb.PartitionID {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	out := make([]rhumb.PartitionID, 0, len(s.m.partitions))
	for id := range s.m.partitions {
		out = append(out, id)
	}
	return out
}

// Group gives the state of a group as its coordinator stored it, nil if none.
func (s *Shard) Group(k GroupKey) []byte {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	if g := s.m.groups[k]; g != nil {
		return append([]byte(nil), g.blob...)
	}
	return nil
}

// Groups gives the keys of all groups of the shard, in no order.
func (s *Shard) Groups() []GroupKey {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	out := make([]GroupKey, 0, len(s.m.groups))
	for k := range s.m.groups {
		out = append(out, k)
	}
	return out
}

// OffsetsUse tells what committed offsets take, and what commits would add for a group.
func (s *Shard) OffsetsUse(k GroupKey, commits []OffsetCommit) OffsetsUse {
	u := OffsetsUse{All: s.m.offsetBytes.Load(), Count: s.m.offsetCount.Load()}
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	g := s.m.groups[k]
	if g != nil {
		u.Group = g.bytes
	}
	for i := range commits {
		u.More += offsetSize(&commits[i])
		if g == nil {
			continue
		}
		if old, ok := g.offsets[commits[i].Key()]; ok {
			u.More -= offsetSize(&old)
		}
	}
	return u
}

// OffsetsTotal tells what the committed offsets of all groups take.
func (s *Shard) OffsetsTotal() (count, bytes int64) {
	return s.m.offsetCount.Load(), s.m.offsetBytes.Load()
}

// Offsets gives a group's committed offsets.
func (s *Shard) Offsets(k GroupKey) map[OffsetKey]OffsetCommit {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	out := make(map[OffsetKey]OffsetCommit)
	if g := s.m.groups[k]; g != nil {
		for o, c := range g.offsets {
			out[o] = c
		}
	}
	return out
}

// Topic finds a topic by its name.
func (s *Shard) Topic(name rhumb.Topic) (*Topic, bool) {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	t, ok := s.m.names[name]
	return t, ok
}

// TopicByID finds a topic by its id.
func (s *Shard) TopicByID(id rhumb.UUID) (*Topic, bool) {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	t, ok := s.m.topics[id]
	return t, ok
}

// Topics gives all topics, and those that are deleted but have partitions left,
// in no order.
func (s *Shard) Topics() (live, doomed []*Topic) {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	live = make([]*Topic, 0, len(s.m.topics))
	for _, t := range s.m.topics {
		live = append(live, t)
	}
	for _, t := range s.m.doomed {
		doomed = append(doomed, t)
	}
	return live, doomed
}

// Unsettled gives the topics that have a partition without a log, and those that
// are deleted but have partitions left, in no order: what is to be done, however
// many topics there are.
func (s *Shard) Unsettled() (unready, doomed []*Topic) {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	return slices.Collect(maps.Values(s.m.unready)), slices.Collect(maps.Values(s.m.doomed))
}

// Settings gives the settings of a scope. The map is shared: read only.
func (s *Shard) Settings(scope string) map[string]string {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	return s.m.settings[scope]
}

// PartitionCount gives the number of partitions of all topics that shard 0 has.
func (s *Shard) PartitionCount() int {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	return s.m.parts
}

// Deletions gives a topic name's deletion count.
func (s *Shard) Deletions(name rhumb.Topic) uint64 {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	return s.m.deletions[name]
}

// ClusterID gives the region's id, zero until it has one.
func (s *Shard) ClusterID() rhumb.UUID {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	return s.m.clusterID
}

// TopicIDs gives the ids of all topics that have a partition or a committed
// offset in this shard.
func (s *Shard) TopicIDs() map[rhumb.UUID]struct{} {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	out := make(map[rhumb.UUID]struct{})
	for id := range s.m.byTopic {
		out[id] = struct{}{}
	}
	for _, g := range s.m.groups {
		for o := range g.offsets {
			out[o.TopicID] = struct{}{}
		}
	}
	return out
}

// HeldTopics gives those of ids that have a partition or a committed offset in this
// shard. Its cost does not grow with the topics that are not asked for.
func (s *Shard) HeldTopics(ids map[rhumb.UUID]struct{}) map[rhumb.UUID]struct{} {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	out := make(map[rhumb.UUID]struct{})
	for id := range ids {
		if len(s.m.byTopic[id]) > 0 {
			out[id] = struct{}{}
		}
	}
	for _, g := range s.m.groups {
		for o := range g.offsets {
			if _, ok := ids[o.TopicID]; ok {
				out[o.TopicID] = struct{}{}
			}
		}
	}
	return out
}
