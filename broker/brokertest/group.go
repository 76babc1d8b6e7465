package brokertest

import (
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/broker"
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
