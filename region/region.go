package region

import (
	"context"
	"errors"
	"log/slog"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region/shard"
	"github.com/rhumbmq/rhumb/storage"
)

// Region is one node's part of a region: its shards, and the topics, groups and
// producer ids that live in them.
type Region struct {
	// Fixed at construction.
	cfg    Config
	log    *slog.Logger
	shards []*shard.Shard // by id; 0 is the region's own
	budget *shard.Budget
	static map[string]string // settings of nodes by the configuration
	scope  string            // of settings of this node
	work   chan struct{}     // capacity 1: the reconciler has something to do
	ready  chan struct{}     // closed when the region may be used
	ended  chan struct{}     // closed when Run has returned or will never be called

	mu          sync.Mutex
	failed      map[rhumb.ShardID]error
	subscribers map[*subscriber]struct{}
	started     bool
	cancel      context.CancelFunc // of Run
	endOnce     sync.Once

	awaited awaited // topics that somebody waits for

	ids   producerIDs
	lives atomic.Uint64 // grows with each change of the lives of logs

	backlog   backlog
	shippedFn atomic.Pointer[func() map[rhumb.PartitionRef]Shipped] // see SetShipped
}

type subscriber struct{ fn func() }

// Open recovers the region's state from the store, which must be open and need
// not run yet. Nothing moves until Run.
func Open(cfg Config) (*Region, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	r := &Region{
		cfg: cfg, log: cfg.Logger.With("component", "region", "region", string(cfg.Name)),
		budget: shard.NewBudget(cfg.InFlight), work: make(chan struct{}, 1), ready: make(chan struct{}), ended: make(chan struct{}),
		failed: make(map[rhumb.ShardID]error), subscribers: make(map[*subscriber]struct{}),
		static: cfg.staticSettings(), scope: strconv.Itoa(int(cfg.NodeID)),
	}
	r.backlog.began = time.Now()
	for id := range rhumb.ShardID(cfg.Shards + 1) {
		s, err := r.openShard(id)
		if err != nil {
			return nil, err
		}
		r.shards = append(r.shards, s)
	}
	return r, nil
}

// nodeID is the Raft id of the only node of a region.
const nodeID = 1

func (r *Region) openShard(id rhumb.ShardID) (*shard.Shard, error) {
	changed := r.topicsChanged
	if id != 0 {
		changed = func() { r.lives.Add(1); r.topicsChanged() }
	}
	return shard.Open(shard.Config{
		ID: id, Region: r.cfg.Number, Node: nodeID, Voters: []uint64{nodeID}, Storage: shard.OnDisk(r.cfg.Store.Shard(id)),
		Synced: r.cfg.Durability == storage.DurabilityFsync, Budget: r.budget, Logger: r.cfg.Logger,
		Refuse: r.cfg.Store.Writable, Changed: changed,
	})
}

// Run works until ctx ends or a shard fails, joins all its goroutines, and
// returns the failure, if any. It is called once.
func (r *Region) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	if r.started {
		r.mu.Unlock()
		return errors.New("region: Run was called twice, or after Close")
	}
	r.started, r.cancel = true, cancel
	r.mu.Unlock()
	defer r.end()

	var wg sync.WaitGroup
	loop := func(name string, fn func(context.Context)) {
		wg.Go(func() { pprof.Do(ctx, pprof.Labels("loop", name), fn) })
	}
	for _, s := range r.shards {
		loop("shard-"+strconv.Itoa(int(s.ID())), func(ctx context.Context) {
			if err := s.Run(ctx); err != nil {
				r.shardFailed(s.ID(), err)
				cancel()
			}
		})
	}
	loop("region-reconcile", r.reconcile)
	loop("region-retention", r.retain)
	loop("region-compaction", r.compact)
	if slices.ContainsFunc(r.shards, func(s *shard.Shard) bool { return !s.Single() }) {
		loop("region-tick", r.tick)
	}
	wg.Wait()
	return r.failure()
}

// tickInterval is how often groups of more than one voter are ticked: a leader
// is missed after ten of them.
const tickInterval = 100 * time.Millisecond

// tick ticks the groups of more than one voter. Those of one need no clock.
func (r *Region) tick(ctx context.Context) {
	t := time.NewTicker(tickInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, s := range r.shards {
			if !s.Single() {
				s.Tick()
			}
		}
	}
}

func (r *Region) end() { r.endOnce.Do(func() { close(r.ended) }) }

// Close stops Run and waits for it. It leaves the store open.
func (r *Region) Close() error {
	r.mu.Lock()
	if !r.started {
		r.started = true
		r.end()
	}
	if r.cancel != nil {
		r.cancel()
	}
	r.mu.Unlock()
	<-r.ended
	return r.failure()
}

func (r *Region) shardFailed(id rhumb.ShardID, err error) {
	r.mu.Lock()
	r.failed[id] = err
	r.mu.Unlock()
}

func (r *Region) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []error
	for _, err := range r.failed {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// WaitReady waits until the region can be used: every shard has its leader, and
// the region its id.
func (r *Region) WaitReady(ctx context.Context) error {
	select {
	case <-r.ready:
		return nil
	case <-r.ended:
		return rhumb.Errorf(rhumb.KindUnavailable, "region %s is stopped", r.cfg.Name)
	case <-ctx.Done():
		return rhumb.Errorf(rhumb.KindTimeout, "region %s is not ready: %w", r.cfg.Name, context.Cause(ctx))
	}
}

// Name gives the region's name.
func (r *Region) Name() rhumb.RegionName { return r.cfg.Name }

// Number gives the region's number.
func (r *Region) Number() rhumb.RegionNumber { return r.cfg.Number }

// ClusterID gives the region's id: made once, kept in shard 0. It is zero until
// the region is ready for the first time.
func (r *Region) ClusterID() rhumb.UUID { return r.shards[0].ClusterID() }

// Health tells how the region's part on this node is.
func (r *Region) Health() Health {
	h := Health{Store: r.cfg.Store.Writable(), Shards: len(r.shards), Failed: make(map[rhumb.ShardID]error), InFlight: r.budget.Used()}
	for _, s := range r.shards {
		if s.Leading() {
			h.Leading++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, err := range r.failed {
		h.Failed[id] = err
	}
	return h
}

// shard finds the shard of a partition, nil if the reference makes no sense.
func (r *Region) shard(id rhumb.ShardID) *shard.Shard {
	if int64(id) >= int64(len(r.shards)) {
		return nil
	}
	return r.shards[id]
}
