// Package admintest is the in-memory twin of what the admin API needs of a
// region: topics with logs that tests fill, copy between regions, trim and
// damage. It keeps no rule of replication: planting what must not happen is what
// it is for.
package admintest

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/version"
)

// Region is an in-memory region. All methods may run at the same time.
type Region struct {
	Identity admin.Identity

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	topics   map[rhumb.Topic]*topic
	nextID   rhumb.PartitionID
	links    []admin.Link
	paths    []admin.OriginPaths
	regions  []admin.RegionEntry
	edges    []admin.Edge
	health   admin.Health
	users    broker.Accounts
	diverged []admin.Diverged
	drained  *admin.Drain
	store    *embedded.Memory
}

type topic struct {
	admin.Topic
	logs   []*Log
	making bool // its partitions are not ready
}

// New makes an empty region. Ids are made of its number, so that output is the
// same in each run.
func New(name rhumb.RegionName, number rhumb.RegionNumber) *Region {
	store := embedded.NewMemory()
	view, err := configstore.OpenView(context.Background(), configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}, CreateMesh: true})
	if err != nil {
		panic(err) // a store in memory has no reason to fail
	}
	return &Region{
		store: store,
		users: broker.Accounts{View: view, By: "region " + string(name)},
		Identity: admin.Identity{Name: name, Number: number, Node: int32(number) * 1000,
			Mesh: rhumb.UUID{1}, Cluster: rhumb.UUID{2, byte(number)}, Data: rhumb.UUID{3, byte(number)}},
		changed: make(chan struct{}),
		topics:  map[rhumb.Topic]*topic{},
		health:  admin.Health{Live: true, Ready: true},
	}
}

// Backup copies the documents of the region's configuration store; restore takes
// the store back to them, and the region looks at it.
func (r *Region) Backup() (restore func()) {
	docs := r.store.Snapshot()
	return func() {
		r.store.Rollback(docs)
		_ = r.users.View.Refresh(context.Background()) // its status says what it found
	}
}

// StoreDown has the configuration store answer no more.
func (r *Region) StoreDown() { r.store.SetDown(true) }

// drain gives what SetDrain set.
func (r *Region) drain() *admin.Drain { return locked(r, func() *admin.Drain { return r.drained }) }

// SetDrain sets what the region has still to send.
func (r *Region) SetDrain(d *admin.Drain) { r.change(func() { r.drained = d }) }

// Config gives the configuration of an admin server for this region.
func (r *Region) Config() admin.Config {
	return admin.Config{Identity: r.Identity, Topics: r, Logs: r, Data: r, Users: r.users,
		Documents: broker.Documents{View: r.users.View, By: r.users.By}, ConfigStore: r.users.View, Members: broker.Documents{View: r.users.View, By: r.users.By}, Drain: r.drain, Divergence: r, LinkControl: r, Logger: slog.New(slog.DiscardHandler),
		Version: version.Info{Version: "v0.0.0-test", Commit: "0123456789abcdef", Go: "go1", Platform: "test/test"},
		Links:   func() []admin.Link { return locked(r, func() []admin.Link { return r.links }) },
		Paths:   func() []admin.OriginPaths { return locked(r, func() []admin.OriginPaths { return r.paths }) },
		Regions: func() []admin.RegionEntry { return locked(r, func() []admin.RegionEntry { return r.regions }) },
		Edges:   func() []admin.Edge { return locked(r, func() []admin.Edge { return r.edges }) },
		Health:  func() admin.Health { return locked(r, func() admin.Health { return r.health }) }}
}

func locked[T any](r *Region, get func() T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return get()
}

// change runs fn under the lock and wakes who waits.
func (r *Region) change(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn()
	close(r.changed)
	r.changed = make(chan struct{})
}

// SetLinks sets what the API shows as links.
func (r *Region) SetLinks(links ...admin.Link) { r.change(func() { r.links = links }) }

// SetPaths sets what the API shows as paths.
func (r *Region) SetPaths(paths ...admin.OriginPaths) { r.change(func() { r.paths = paths }) }

// SetHealth sets the node's health.
func (r *Region) SetHealth(h admin.Health) { r.change(func() { r.health = h }) }

// SetMesh sets the regions and edges that this region knows.
func (r *Region) SetMesh(regions []admin.RegionEntry, edges []admin.Edge) {
	r.change(func() { r.regions, r.edges = regions, edges })
}

// ForgetRegion takes a region out of those that this one knows, as removing it does.
func (r *Region) ForgetRegion(name rhumb.RegionName) {
	r.change(func() {
		r.regions = slices.DeleteFunc(slices.Clone(r.regions), func(e admin.RegionEntry) bool { return e.Name == name })
	})
}

// Topics gives all topics.
func (r *Region) Topics() []admin.Topic {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []admin.Topic
	for _, t := range r.topics {
		all = append(all, t.snapshot())
	}
	return all
}

// Topic gives one topic.
func (r *Region) Topic(name rhumb.Topic) (admin.Topic, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[name]
	if t == nil {
		return admin.Topic{}, false
	}
	return t.snapshot(), true
}

func (t *topic) snapshot() admin.Topic {
	out := t.Topic
	out.Partitions = nil
	for _, l := range t.logs {
		out.Partitions = append(out.Partitions, admin.Partition{Ref: l.ref, Life: l.state.Life, Ready: !t.making})
	}
	return out
}

// SetReady has the partitions of a topic be ready, or still in the making.
func (r *Region) SetReady(name rhumb.Topic, ready bool) {
	r.change(func() { r.topics[name].making = !ready })
}

// newLog makes an empty log; the caller holds the lock.
func (r *Region) newLog() *Log {
	r.nextID++
	life := rhumb.Life{byte(r.Identity.Number), 0xaa, byte(r.nextID)}
	return &Log{region: r, ref: rhumb.PartitionRef{Shard: 1, ID: r.nextID}, state: admin.State{Life: life, LeaderEpoch: 1, OwnLast: rhumb.NoOffset}}
}

// CreateTopic makes a topic of empty logs; lives count up from the region's number.
func (r *Region) CreateTopic(_ context.Context, name rhumb.Topic, partitions int32, configs map[string]string) (admin.Topic, error) {
	var out admin.Topic
	var err error
	r.change(func() {
		if r.topics[name] != nil {
			err = rhumb.Errorf(rhumb.KindExists, "topic %s exists already", name.Short())
			return
		}
		t := &topic{Topic: admin.Topic{Name: name, ID: rhumb.UUID{4, byte(len(r.topics) + 1)}, Configs: configs,
			CreatedAt: 1_700_000_000_000}}
		for range max(partitions, 1) {
			t.logs = append(t.logs, r.newLog())
		}
		r.topics[name] = t
		out = t.snapshot()
	})
	return out, err
}

// DeleteTopic forgets a topic.
func (r *Region) DeleteTopic(_ context.Context, name rhumb.Topic, _ string, _ bool) error {
	r.change(func() { delete(r.topics, name) })
	return nil
}

// GrowTopic adds empty logs to a topic.
func (r *Region) GrowTopic(_ context.Context, name rhumb.Topic, partitions int32) error {
	r.change(func() {
		for t := r.topics[name]; len(t.logs) < int(partitions); {
			t.logs = append(t.logs, r.newLog())
		}
	})
	return nil
}

// Settings lists a topic's own settings, and one more that is not its own.
func (r *Region) Settings(name rhumb.Topic) (admin.TopicSettings, error) {
	t, _ := r.Topic(name)
	out := admin.TopicSettings{Mesh: true, Version: 3}
	for _, key := range slices.Sorted(maps.Keys(t.Configs)) {
		out.Settings = append(out.Settings, admin.Setting{Name: key, Value: t.Configs[key], Source: "topic", Effect: true})
	}
	out.Settings = append(out.Settings, admin.Setting{Name: "segment.ms", Value: "604800000", Source: "default", Doc: "Kept."})
	return out, nil
}

// AlterSettings changes a topic's own settings.
func (r *Region) AlterSettings(_ context.Context, name rhumb.Topic, set map[string]string, unset []string) error {
	r.change(func() {
		t := r.topics[name]
		t.Configs = maps.Clone(t.Configs)
		if t.Configs == nil {
			t.Configs = map[string]string{}
		}
		maps.Copy(t.Configs, set)
		for _, key := range unset {
			delete(t.Configs, key)
		}
	})
	return nil
}

// Log gives a partition's log for filling; it must exist.
func (r *Region) Log(name string, partition int) *Log {
	t, err := rhumb.ParseTopic(name)
	if err != nil {
		panic(err) // a fault of the test
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topics[t].logs[partition]
}

// Origins gives the lives of other logs that a partition accounts for.
func (r *Region) Origins(name string, partition int) []admin.Origin {
	st, _ := r.State(r.Log(name, partition).ref)
	return st.Origins
}

func (r *Region) find(ref rhumb.PartitionRef) *Log {
	for _, t := range r.topics {
		for _, l := range t.logs {
			if l.ref == ref {
				return l
			}
		}
	}
	return nil
}

// State gives a partition's figures.
func (r *Region) State(ref rhumb.PartitionRef) (admin.State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.find(ref)
	if l == nil {
		return admin.State{}, false
	}
	st := l.state
	st.Origins = slices.Clone(st.Origins)
	return st, true
}

// Gaps gives a partition's gap records.
func (r *Region) Gaps(ref rhumb.PartitionRef) []admin.Gap {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.find(ref); l != nil {
		return slices.Clone(l.gaps)
	}
	return nil
}

// Read gives whole batches from an offset on.
func (r *Region) Read(ref rhumb.PartitionRef, from rhumb.Offset, room admin.ReadRoom) ([]admin.Batch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.find(ref)
	if l == nil {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "no such partition")
	}
	if from < l.state.LogStart || from > l.state.End {
		return nil, rhumb.Errorf(rhumb.KindOutOfRange, "offset %d", from)
	}
	var out []admin.Batch
	size := 0
	for _, b := range l.batches {
		if b.lastLocal() < from {
			continue
		}
		if len(out) == 0 && room.First > 0 && len(b.Bytes) > room.First {
			return nil, &admin.LargeBatchError{Base: b.Base, Size: len(b.Bytes)}
		}
		if size += len(b.Bytes); len(out) > 0 && size > room.Bytes {
			break
		}
		out = append(out, b.Batch)
	}
	return out, nil
}

// Seek gives where the first batch lies of an origin life that ends at or after from.
func (r *Region) Seek(ref rhumb.PartitionRef, region rhumb.RegionNumber, life rhumb.Life, from rhumb.Offset) (rhumb.Offset, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.find(ref); l != nil {
		for _, b := range l.batches {
			if b.Region == region && b.Life == life && b.Last >= from && b.lastLocal() >= l.state.LogStart {
				return b.Base, true, nil
			}
		}
	}
	return 0, false, nil
}

// Produce appends a batch of the log's own life.
func (r *Region) Produce(_ context.Context, name rhumb.Topic, partition int32, batch []byte) (rhumb.Offset, error) {
	h, err := codec.CheckBatch(batch)
	if err != nil {
		return 0, err
	}
	var base rhumb.Offset
	r.change(func() { base = r.topics[name].logs[partition].own(batch, h) })
	return base, nil
}

// Await waits until the log's end lies above offset.
func (r *Region) Await(ctx context.Context, ref rhumb.PartitionRef, offset rhumb.Offset) {
	for {
		r.mu.Lock()
		l, changed := r.find(ref), r.changed
		done := l == nil || l.state.Flushed > offset
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// Link gives a plain flowing link to a peer, for output that does not change.
func Link(peer *Region) admin.Link {
	return admin.Link{Peer: peer.Identity.Name, PeerNumber: peer.Identity.Number, State: "flowing", Address: "192.0.2.1:7650",
		Version: "v0.0.0-test", Since: time.UnixMilli(1_700_000_060_000), Connection: time.UnixMilli(1_700_000_000_000), RTT: 80 * time.Millisecond}
}
