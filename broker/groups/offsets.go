package groups

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Commit stores positions if who speaks may do so; done tells how it went. It is
// handed to the store in the same step as it is judged: what a member commits is
// in the log before anything of a later generation. The error is of kind not
// found if a member speaks of a group that nobody knows.
func (c *Coordinator) Commit(k Key, ref MemberRef, commits []OffsetCommit, done func(error)) {
	var refused error
	err := c.with(k, func(g *Group, now time.Time) {
		if refused = g.CheckCommit(now, ref); refused != nil {
			if !c.exists(g) {
				refused = errNotFound(k)
			}
			return
		}
		if refused = c.roomFor(k, commits); refused != nil {
			c.stats.refused.Add(int64(len(commits)))
			return
		}
		if len(commits) > 0 {
			c.stats.commits.Add(int64(len(commits)))
			c.store.StoreOffsets(k, commits, done)
		}
	})
	switch {
	case err != nil:
		done(err)
	case refused != nil:
		done(refused)
	case len(commits) == 0:
		done(nil)
	}
}

// roomFor tells if positions may be added. What is on its way is not counted yet: that
// is bounded by the requests in flight.
func (c *Coordinator) roomFor(k Key, commits []OffsetCommit) error {
	if len(commits) == 0 {
		return nil
	}
	switch u := c.store.OffsetsUse(k, commits); {
	case u.More <= 0:
		return nil
	case u.Group+u.More > c.cfg.MaxOffsetBytes:
		return fmt.Errorf("%w: group %s would take %d bytes, at most %d", ErrOffsetsFull, k.Group, u.Group+u.More, c.cfg.MaxOffsetBytes)
	case u.All+u.More > c.cfg.OffsetMemory:
		return fmt.Errorf("%w: all groups take %d bytes, at most %d", ErrOffsetsFull, u.All, c.cfg.OffsetMemory)
	}
	return nil
}

// exists reports whether a group is known to anybody.
func (c *Coordinator) exists(g *Group) bool {
	return g.stored || g.state != Empty || len(g.pending) > 0 || len(c.store.Offsets(g.key)) > 0
}

// DeleteGroup forgets a group without members, or one whose state is damaged: its
// state and its positions. Errors are ErrNotEmpty, or of kind not found.
func (c *Coordinator) DeleteGroup(k Key, done func(error)) {
	var refused error
	err := c.with(k, func(g *Group, _ time.Time) {
		switch {
		case !c.exists(g):
			refused = errNotFound(k)
		case g.state != Empty:
			refused = ErrNotEmpty
		default:
			c.store.StoreDeleteGroup(k, done)
			g.Abandon(errNotFound(k))
		}
	})
	switch {
	case rhumb.KindOf(err) == rhumb.KindCorrupt: // nobody can be a member of it
		c.store.StoreDeleteGroup(k, done)
	case err != nil:
		done(err)
	case refused != nil:
		done(refused)
	}
}

// DeleteOffsets forgets positions of a group in topics that its members do not
// read. It gives an error for each, or one for all: ErrNotEmpty if it cannot be
// known what members read, or of kind not found. Positions that are not there are
// no error.
func (c *Coordinator) DeleteOffsets(k Key, offsets []OffsetCommit, done func(errs []error, err error)) {
	errs := make([]error, len(offsets))
	var refused error
	err := c.with(k, func(g *Group, _ time.Time) {
		if !c.exists(g) {
			refused = errNotFound(k)
			return
		}
		subscribed, known := g.subscribed()
		if g.state != Empty && !known {
			refused = ErrNotEmpty
			return
		}
		var keys []OffsetKey
		for i, o := range offsets {
			if names(subscribed, k, o.Topic) {
				errs[i] = ErrSubscribed
				continue
			}
			keys = append(keys, o.Key())
		}
		if len(keys) == 0 {
			done(errs, nil)
			return
		}
		c.store.StoreDeleteOffsets(k, keys, 0, func(err error) { done(errs, err) })
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		done(errs, err)
	}
}

// Describe shows a group; the error is of kind not found if there is none.
func (c *Coordinator) Describe(k Key) (d Description, err error) {
	found := false
	err = c.with(k, func(g *Group, _ time.Time) {
		if found = c.exists(g); found {
			d = g.Describe()
		}
	})
	if err == nil && !found {
		err = errNotFound(k)
	}
	return d, err
}

// Listed is a group in a list.
type Listed struct {
	Name  string
	State State
	Kind  string // protocol type, "" of a group that nobody ever joined
}

// List gives the groups of a namespace, sorted by name.
func (c *Coordinator) List(t rhumb.Tenant, n rhumb.Namespace) []Listed {
	var out []Listed
	for _, k := range c.keys() {
		if k.Tenant != t || k.Namespace != n {
			continue
		}
		if d, err := c.Describe(k); err == nil {
			out = append(out, Listed{k.Group, d.State, d.Kind})
		}
	}
	slices.SortFunc(out, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// keys gives all groups that are stored or in memory.
func (c *Coordinator) keys() []Key {
	keys := c.store.Groups()
	seen := make(map[Key]bool, len(keys))
	for _, k := range keys {
		seen[k] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.seats {
		if !seen[k] {
			keys = append(keys, k)
		}
	}
	return keys
}

// Sweep looks at each group once: see Run.
func (c *Coordinator) Sweep(now time.Time) {
	for _, k := range c.keys() {
		// An error means that the group is another node's, or was reported.
		_ = c.with(k, func(g *Group, _ time.Time) { c.expire(g, now) })
	}
}

// expire forgets positions of a group: of an empty one those that are older than
// the retention, counted from when it became empty; of one with members those in
// topics that no member reads (KIP-211). Whether a position is old is judged again
// when the deletion takes place, as a newer one may be on its way. A group with
// nothing left is forgotten.
func (c *Coordinator) expire(g *Group, now time.Time) {
	g.TryAgain()
	offsets := c.store.Offsets(g.key)
	if len(offsets) == 0 {
		if g.idle() && g.stored {
			c.store.StorePutGroup(g.key, nil, func(err error) { c.swept(g.key, err) })
			g.Abandon(errNotFound(g.key))
		}
		return
	}
	if c.cfg.OffsetsRetention < 0 {
		return
	}
	before := now.Add(-c.cfg.OffsetsRetention).UnixMilli()
	subscribed, known := g.subscribed()
	if g.state == Empty && g.since > before || g.state != Empty && !(known && g.state == Stable) {
		return
	}
	var old []OffsetKey
	for key, o := range offsets {
		if o.At < before && !names(subscribed, g.key, o.Topic) {
			old = append(old, key)
		}
	}
	if len(old) > 0 {
		c.log.Info("positions of a group expire", "group", g.key.Group, "tenant", g.key.Tenant, "namespace", g.key.Namespace, "count", len(old))
		c.store.StoreDeleteOffsets(g.key, old, before, func(err error) { c.swept(g.key, err) })
	}
}

func (c *Coordinator) swept(k Key, err error) {
	if err != nil {
		c.log.Warn("forgetting positions failed and is tried again", "group", k.Group, "err", err)
	}
}
