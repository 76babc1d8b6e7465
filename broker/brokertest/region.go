package brokertest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Region implements [broker.Region] in memory.
type Region struct {
	id rhumb.UUID

	mu        sync.Mutex
	topics    map[rhumb.Topic]broker.TopicInfo
	deletions map[rhumb.Topic]uint64
	settings  map[string]map[string]string
	parts     map[rhumb.PartitionRef]*partition
	groups    map[broker.GroupKey]*group
	nextPart  rhumb.PartitionID
	nextID    int64
	epoch     int32
	hook      func(rhumb.PartitionRef, broker.AppendRequest) error
	held      []func()
	holding   bool
	told      map[*func()]struct{} // who subscribed
}

var _ broker.Region = (*Region)(nil)

// New makes an empty region.
func New() *Region {
	return &Region{
		id:        rhumb.NewUUID(),
		topics:    map[rhumb.Topic]broker.TopicInfo{},
		deletions: map[rhumb.Topic]uint64{},
		settings:  map[string]map[string]string{},
		parts:     map[rhumb.PartitionRef]*partition{},
		groups:    map[broker.GroupKey]*group{},
		nextID:    1 << 48,
		epoch:     1,
		told:      map[*func()]struct{}{},
	}
}

// Subscribe implements broker.Catalog. fn is called with the region's lock held.
func (r *Region) Subscribe(fn func()) (cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[&fn] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.told, &fn)
	}
}

// changed tells the subscribers; the caller holds the lock.
func (r *Region) changed() {
	for fn := range r.told {
		(*fn)()
	}
}

// Topic implements broker.Catalog.
func (r *Region) Topic(t rhumb.Topic) (broker.TopicInfo, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, ok := r.topics[t]
	return info, ok
}

// TopicByID implements broker.Catalog.
func (r *Region) TopicByID(id rhumb.UUID) (broker.TopicInfo, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, info := range r.topics {
		if info.ID == id {
			return info, true
		}
	}
	return broker.TopicInfo{}, false
}

// TopicsSince knows of no history: all are to be looked at.
func (r *Region) TopicsSince(region.TopicsMark) region.TopicChanges {
	return region.TopicChanges{Whole: true}
}

// Topics implements broker.Catalog.
func (r *Region) Topics() []broker.TopicInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.topics))
}

// CreateTopic implements broker.Catalog.
func (r *Region) CreateTopic(_ context.Context, spec broker.TopicSpec) (broker.TopicInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.topics[spec.Topic]; ok {
		return broker.TopicInfo{}, rhumb.Errorf(rhumb.KindExists, "topic %s exists", spec.Topic.Short())
	}
	info := broker.TopicInfo{Topic: spec.Topic, ID: rhumb.NewUUID(), Configs: maps.Clone(spec.Configs),
		Deletions: max(spec.Deletions, r.deletions[spec.Topic])}
	r.grow(&info, spec.Partitions)
	r.topics[spec.Topic] = info
	r.changed()
	return info, nil
}

// grow adds partitions up to n in a list of its own, as infos are shared.
func (r *Region) grow(info *broker.TopicInfo, n int32) {
	info.Partitions = slices.Clone(info.Partitions)
	for i := int32(len(info.Partitions)); i < n; i++ {
		r.nextPart++
		ref := rhumb.PartitionRef{Shard: rhumb.ShardID(1 + i%4), ID: r.nextPart}
		r.parts[ref] = &partition{producers: map[int64]*producer{}, waiters: map[*broker.Waiter]rhumb.PartitionRef{}}
		info.Partitions = append(info.Partitions, broker.PartitionInfo{Index: i, Ref: ref, Ready: true})
	}
}

// GrowTopic implements broker.Catalog.
func (r *Region) GrowTopic(_ context.Context, t rhumb.Topic, n int32) (broker.TopicInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, ok := r.topics[t]
	if !ok {
		return info, rhumb.Errorf(rhumb.KindNotFound, "topic %s does not exist", t.Short())
	}
	r.grow(&info, n)
	r.topics[t] = info
	r.changed()
	return info, nil
}

// Deletions implements broker.Catalog.
func (r *Region) Deletions(t rhumb.Topic) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deletions[t]
}

// DeleteTopic implements broker.Catalog.
func (r *Region) DeleteTopic(_ context.Context, t rhumb.Topic, deletions uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deletions[t] = max(r.deletions[t], deletions)
	info, ok := r.topics[t]
	if !ok || info.Deletions >= deletions {
		return rhumb.Errorf(rhumb.KindNotFound, "topic %s does not exist", t.Short())
	}
	delete(r.topics, t)
	for _, p := range info.Partitions {
		r.parts[p.Ref].wake()
		delete(r.parts, p.Ref)
	}
	r.changed()
	return nil
}

// Lacking implements broker.Catalog: there are no other regions.
func (r *Region) Lacking(broker.TopicInfo) ([]rhumb.RegionName, error) { return nil, nil }

// DeleteHere implements broker.Catalog. What is marked is not remembered.
func (r *Region) DeleteHere(_ context.Context, t rhumb.Topic, _ bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	info := r.topics[t]
	delete(r.topics, t)
	for _, p := range info.Partitions {
		r.parts[p.Ref].wake()
		delete(r.parts, p.Ref)
	}
	r.changed()
	return nil
}

// ProducerID implements broker.Region.
func (r *Region) ProducerID(context.Context) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nextID++
	return r.nextID, nil
}

// ClusterID implements broker.Region.
func (r *Region) ClusterID() rhumb.UUID { return r.id }

// OnAppend makes each append first ask the hook, nil for none. Its error is the
// append's answer.
func (r *Region) OnAppend(hook func(rhumb.PartitionRef, broker.AppendRequest) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

// Hold keeps the answers of appends back, though they are stored, until Free.
func (r *Region) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding = true
}

// Free gives the answers that Hold kept back, in the order of the appends.
func (r *Region) Free() {
	r.mu.Lock()
	held := r.held
	r.held, r.holding = nil, false
	r.mu.Unlock()
	for _, answer := range held {
		answer()
	}
}

// NextEpoch begins a new leader epoch in all partitions.
func (r *Region) NextEpoch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
}
