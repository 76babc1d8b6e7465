package storage

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// Compaction is how a partition is compacted, and what limits it.
type Compaction struct {
	compact.Policy
	// Limit is the end of what may be touched: what a majority has flushed.
	Limit rhumb.Offset
	// Held are the lives whose records edges still have to carry.
	Held []Held
}

// Source is an origin without an offset: whose records they are.
type Source = index.Source

// Held says that edges have not carried a life's records behind an offset yet. Of
// these compaction takes only what a newer one of the same life supersedes.
type Held struct {
	Source
	After rhumb.Offset // at the origin
	Here  rhumb.Offset // in this log: up to it all of the life was carried
}

// SetCompaction says how a partition is to be compacted from now on; nil ends it.
// It is also the call that makes the compactor look: make it from time to time.
func (sh *Shard) SetCompaction(p rhumb.PartitionID, c *Compaction) {
	sh.mu.Lock()
	if c == nil {
		delete(sh.policies, p)
	} else {
		sh.policies[p] = *c
	}
	sh.mu.Unlock()
	if c != nil {
		sh.store.compacting.wake()
	}
}

// Compacted is the offset below which records may be missing because compaction took
// them, here or where this log came from.
func (sh *Shard) Compacted(p rhumb.PartitionID) rhumb.Offset {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if ix := sh.parts[p]; ix != nil {
		return ix.Holes()
	}
	return 0
}

// CompactionStats are figures of all compaction since the store opened, in bytes of
// batches with envelopes.
type CompactionStats struct {
	Passes  uint64 // of one partition each
	Read    uint64 // to learn keys, and again to copy
	Dirty   uint64 // of what was read, what no pass had seen before
	Written uint64
	Removed uint64 // records
}

// CompactionStats gives the figures now.
func (s *Store) CompactionStats() CompactionStats {
	c := &s.compacting
	return CompactionStats{c.passes.Load(), c.read.Load(), c.dirty.Load(), c.written.Load(), c.removed.Load()}
}

// compacting is the compactor's.
type compacting struct {
	kick    chan struct{} // capacity 1: a pass may be due
	emptied chan struct{} // capacity 1: a file may be worth to be rewritten

	// Owned by the compactor's goroutine.
	keys     *compact.Keys
	expander *codec.Expander
	thinner  codec.Thinner

	passes, read, dirty, written, removed atomic.Uint64
	reclaimed, rewritten                  atomic.Uint64 // see ReclaimStats
}

const (
	// compactExpand bounds a batch that is looked into: a larger one stays as it is.
	compactExpand = 128 << 20
	// compactRecords bounds the records of such a batch: more of them than this do not
	// fit into the table of keys at its default size either.
	compactRecords = 200_000
	// compactWindow is the most that a zstd stream may refer back to.
	compactWindow = 8 << 20
)

func (c *compacting) init(budget int64) {
	c.kick, c.emptied = make(chan struct{}, 1), make(chan struct{}, 1)
	c.keys = compact.NewKeys(budget)
	c.expander = codec.NewExpander(codec.Limits{Bytes: compactExpand, Window: compactWindow})
}

func (c *compacting) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// errPostponed says that a pass has to be made again later: the log changed under it.
var errPostponed = errors.New("storage: compaction is postponed")

// compactLoop compacts what is due, and rewrites files of which little is left, until
// ctx ends. The two never run beside each other: both replace parts.
func (s *Store) compactLoop(ctx context.Context) {
	var retry <-chan time.Time // for what could not be finished; it outlasts looks at sparse files
	for due := true; ; {
		var sparse <-chan time.Time
		var more bool
		var err error
		if due {
			retry = nil
			more, err = s.compactAll(ctx)
			s.compacting.keys.Reset()
		}
		if err == nil {
			var next time.Time
			if next, err = s.reclaim(ctx); !next.IsZero() {
				sparse = time.After(time.Until(next))
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errPostponed) || more && err == nil:
			retry = time.After(compactPause)
		case err != nil:
			if s.cfg.Events.SettleError != nil {
				s.cfg.Events.SettleError(err)
			}
			retry = time.After(settleRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.compacting.kick:
			due = true
		case <-retry:
			due = true
		case <-s.compacting.emptied:
			due = false
		case <-sparse:
			due = false
		}
	}
}

// target is a partition that is worth a pass.
type target struct {
	sh     *Shard
	id     rhumb.PartitionID
	policy Compaction
	state  compact.State
	view   index.View
	parts  []*index.Part // as far as the pass may go
}

// compactAll makes a pass over each partition that is due. more says that some were
// not finished.
func (s *Store) compactAll(ctx context.Context) (more bool, err error) {
	if s.space.failure() != nil {
		return false, nil
	}
	due, err := s.dueTargets(time.Now())
	if err != nil || len(due) == 0 {
		return false, err
	}
	w := &rewriter{s: s, failed: map[index.Key]bool{}}
	defer w.discard()
	for i := range due {
		p := &pass{s: s, ctx: ctx, target: due[i], w: w}
		done, perr := p.run()
		more = more || !done
		switch {
		case perr == nil:
		case errors.Is(perr, index.ErrGone), errors.Is(perr, errRetry):
			return true, errPostponed // retention took files away
		default:
			return true, perr
		}
	}
	return more, w.finish(ctx)
}

// dueTargets gives the partitions that are worth a pass, in the order of their keys.
func (s *Store) dueTargets(now time.Time) (due []target, err error) {
	for _, sh := range s.shards {
		sh.mu.RLock()
		list := make([]target, 0, len(sh.policies))
		for id, c := range sh.policies {
			if p := sh.parts[id]; p != nil {
				list = append(list, target{sh: sh, id: id, policy: c, state: sh.compaction(id).State, view: p.View()})
			}
		}
		sh.mu.RUnlock()
		slices.SortFunc(list, func(a, b target) int { return cmp.Compare(a.id, b.id) })
		for i := range list {
			t := &list[i]
			load, err := t.load(now)
			if errors.Is(err, index.ErrGone) {
				continue // looked at again
			}
			if err != nil {
				return nil, err
			}
			sh.endOverdue(t, now)
			if len(t.parts) > 0 && t.policy.Due(&t.state, load, now) {
				due = append(due, *t)
			}
		}
	}
	return due, nil
}

// endOverdue has the log begin a new file if the active one holds a record that a pass
// should have seen by now: only files that are closed and settled are looked at.
func (sh *Shard) endOverdue(t *target, now time.Time) {
	r := t.view.Unsettled()
	if r == nil || t.policy.MaxLag <= 0 || r.RetentionTime() > now.Add(-t.policy.MaxLag).UnixMilli() {
		return
	}
	file := r.File
	if file == 0 {
		_, loc, _ := sh.entries.lookup(r.Raft)
		file = loc.File
	}
	if file != 0 {
		sh.store.log.EndFile(file)
	}
}

// load finds the parts that a pass may touch, and what they hold.
func (t *target) load(now time.Time) (l compact.Load, err error) {
	l.Carried = math.MaxInt64
	for _, h := range t.policy.Held {
		l.Carried = min(l.Carried, h.Here)
	}
	young := now.Add(-t.policy.MinLag).UnixMilli()
	for _, p := range t.view.Parts() {
		if p.Last >= t.policy.Limit || t.policy.MinLag > 0 && p.RetentionTime > young {
			break
		}
		t.parts = append(t.parts, p)
		switch {
		case p.Last < t.state.Cleaned:
			l.Clean += int64(p.Bytes)
			continue
		case p.Base >= t.state.Cleaned:
			l.Dirty += int64(p.Bytes)
		default:
			below, err := p.BytesBelow(t.state.Cleaned)
			if err != nil {
				return l, err
			}
			l.Clean, l.Dirty = l.Clean+below, l.Dirty+int64(p.Bytes)-below
		}
		if l.Oldest == 0 {
			l.Oldest = p.RetentionTime
		}
	}
	return l, nil
}

// compaction gives how far a partition is compacted; the caller holds mu.
func (sh *Shard) compaction(id rhumb.PartitionID) statedb.Compaction {
	if c := sh.compactions[id]; c != nil {
		return *c
	}
	return statedb.Compaction{State: compact.NewState()}
}

// loadParts gives partitions their settled parts. What a compacted partition has below
// Covered is in the files that its row names; what log files have of it there does not
// count any more.
func (sh *Shard) loadParts(tables []*index.Table) error {
	byFile := map[uint64]*index.Table{}
	for _, t := range tables {
		byFile[t.File] = t
	}
	add := func(p *index.Part) {
		ix := sh.parts[p.Key.Partition]
		if ix != nil && p.Last >= ix.Start() && ix.AddPart(p) {
			sh.store.files.hold(p)
		}
	}
	err := sh.store.db.Compactions(sh.id, func(id rhumb.PartitionID, c statedb.Compaction) error {
		for _, f := range c.Files {
			sh.store.segments.named(f)
		}
		if sh.parts[id] == nil {
			return nil // dropped while a pass ended
		}
		sh.compactions[id] = &c
		sh.parts[id].SetHoles(c.Holes)
		for _, f := range c.Files {
			if t := byFile[f]; t != nil { // else a log start has passed it
				if p := t.Part(index.Key{Shard: sh.id, Partition: id}); p != nil {
					add(p)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tables {
		if isSegment(t.File) {
			continue
		}
		for _, p := range t.Dir.Parts {
			if c := sh.compactions[p.Key.Partition]; p.Key.Shard == sh.id && (c == nil || p.Base >= c.Covered && t.File > c.Void) {
				add(p)
			}
		}
	}
	return nil
}
