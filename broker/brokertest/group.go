package brokertest

import (
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/region"
)

// group is what is stored of a consumer group.
type group struct {
	state   []byte
	offsets map[broker.OffsetKey]broker.OffsetCommit
}

// change runs fn on a group, which is forgotten if nothing is left of it.
func (r *Region) change(k broker.GroupKey, fn func(g *group)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[k]
	if g == nil {
		g = &group{offsets: map[broker.OffsetKey]broker.OffsetCommit{}}
		r.groups[k] = g
	}
	if fn(g); len(g.state) == 0 && len(g.offsets) == 0 {
		delete(r.groups, k)
	}
}

// Coordinates implements groups.Store: this node coordinates all groups.
func (r *Region) Coordinates(broker.GroupKey) (uint64, bool) { return 1, true }

// StoreOffsets implements groups.Store.
func (r *Region) StoreOffsets(k broker.GroupKey, commits []broker.OffsetCommit, done func(error)) {
	r.change(k, func(g *group) {
		for _, c := range commits {
			g.offsets[c.Key()] = c
		}
	})
	done(nil)
}

// OffsetsUse implements groups.Store: each position takes 300 bytes.
func (r *Region) OffsetsUse(k broker.GroupKey, commits []broker.OffsetCommit) (u region.OffsetsUse) {
	const each = 300
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.groups {
		u.Count += int64(len(g.offsets))
	}
	u.All = u.Count * each
	mine := r.groups[k]
	if mine != nil {
		u.Group = int64(len(mine.offsets)) * each
	}
	for _, c := range commits {
		if mine == nil || mine.offsets[c.Key()] == (broker.OffsetCommit{}) {
			u.More += each
		}
	}
	return u
}

// StoreDeleteOffsets implements groups.Store.
func (r *Region) StoreDeleteOffsets(k broker.GroupKey, offsets []broker.OffsetKey, before int64, done func(error)) {
	r.change(k, func(g *group) {
		for _, o := range offsets {
			if before == 0 || g.offsets[o].At < before {
				delete(g.offsets, o)
			}
		}
	})
	done(nil)
}

// StorePutGroup implements groups.Store.
func (r *Region) StorePutGroup(k broker.GroupKey, state []byte, done func(error)) {
	r.change(k, func(g *group) { g.state = slices.Clone(state) })
	done(nil)
}

// StoreDeleteGroup implements groups.Store.
func (r *Region) StoreDeleteGroup(k broker.GroupKey, done func(error)) {
	r.change(k, func(g *group) { *g = group{} })
	done(nil)
}

// Group implements groups.Store.
func (r *Region) Group(k broker.GroupKey) (state []byte) {
	r.change(k, func(g *group) { state = slices.Clone(g.state) })
	return state
}

// Groups implements groups.Store.
func (r *Region) Groups() []broker.GroupKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.groups))
}

// Offsets implements groups.Store.
func (r *Region) Offsets(k broker.GroupKey) (offsets map[broker.OffsetKey]broker.OffsetCommit) {
	r.change(k, func(g *group) { offsets = maps.Clone(g.offsets) })
	return offsets
}
