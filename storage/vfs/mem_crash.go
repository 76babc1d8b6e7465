package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sectorSize is what a disk writes in one piece: a torn write keeps or loses
// whole sectors.
const sectorSize = 512

// Unsynced says what a crash does to changes that nothing made safe.
type Unsynced uint8

// Fates of unsynced changes.
const (
	// UnsyncedMixed decides for each change by seed: kept, lost, or torn by
	// sectors; so a later change may survive an earlier one.
	UnsyncedMixed Unsynced = iota
	// UnsyncedLost loses all of them.
	UnsyncedLost
	// UnsyncedKept keeps all of them, as when only the process dies.
	UnsyncedKept
)

// CrashOptions says what kind of crash to imagine.
type CrashOptions struct {
	Seed     uint64
	Unsynced Unsynced
}

// CrashClone gives what a power loss at this moment would leave, as a file
// system of its own without hook, capacity, locks or handles. What was made safe
// is always there. The original goes on undisturbed.
func (m *Mem) CrashClone(opt CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crash{rng: rand.New(rand.NewPCG(opt.Seed, opt.Seed^0x9e3779b97f4a7c15)), unsynced: opt.Unsynced, done: map[*node]*node{}}
	clone := NewMem(MemConfig{})
	clone.clock = m.clock
	names := m.survivingNames(c)
	clone.root = c.clone(m.root, names)
	for _, n := range c.done {
		clone.used += n.now.size
	}
	return clone
}

type crash struct {
	rng      *rand.Rand
	unsynced Unsynced
	done     map[*node]*node
}

// keeps decides about a change that cannot be torn.
func (c *crash) keeps() bool {
	switch c.unsynced {
	case UnsyncedKept:
		return true
	case UnsyncedLost:
		return false
	}
	return c.rng.IntN(2) == 0
}

// survivingNames gives the names that differ from the safe ones: nil for a name
// that is gone.
func (m *Mem) survivingNames(c *crash) map[*node]map[string]*node {
	names := map[*node]map[string]*node{}
	keep := make([]bool, len(m.moves))
	for i := range keep {
		keep[i] = c.keeps()
	}
	withCauses(m.moves, keep)
	for j, mv := range m.moves {
		if !keep[j] {
			continue
		}
		for i, dir := range mv.dirs {
			if dir == nil {
				continue
			}
			if names[dir] == nil {
				names[dir] = map[string]*node{}
			}
			names[dir][mv.names[i]] = mv.nodes[i]
		}
	}
	return names
}

// clone copies a tree. A folder reached twice (its move lost on one side) is
// copied once and appears under both names.
func (c *crash) clone(n *node, names map[*node]map[string]*node) *node {
	if copied := c.done[n]; copied != nil {
		copied.links++
		return copied
	}
	copied := &node{modified: n.modified, links: 1}
	c.done[n] = copied
	if !n.isDir() {
		copied.safe = c.content(n)
		copied.now = copied.safe.share()
		return copied
	}
	copied.names, copied.safeNames = map[string]*node{}, map[string]*node{}
	for _, name := range sortedNames(n.safeNames, names[n]) {
		child := n.safeNames[name]
		if moved, ok := names[n][name]; ok {
			child = moved
		}
		if child != nil {
			child = c.clone(child, names)
			copied.names[name], copied.safeNames[name] = child, child
		}
	}
	return copied
}

// content gives what is left of a file.
func (c *crash) content(n *node) image {
	im := n.safe.share()
	for i := range n.pending {
		ch := &n.pending[i]
		switch {
		case ch.safe:
			ch.apply(&im)
		case ch.data == nil || c.unsynced != UnsyncedMixed:
			if c.keeps() {
				ch.apply(&im)
			}
		default:
			c.tear(&im, ch)
		}
	}
	return im
}

// tear applies a write whole, not at all, a beginning of it, or some sectors.
func (c *crash) tear(im *image, ch *change) {
	kind := c.rng.IntN(4)
	end := ch.off + int64(len(ch.data))
	prefix := ch.off + c.rng.Int64N(int64(len(ch.data))+1)
	for at := ch.off; at < end; {
		next := min((at/sectorSize+1)*sectorSize, end)
		var keep bool
		switch kind {
		case 0:
			keep = true
		case 1:
			keep = false
		case 2:
			keep = next <= prefix
		default:
			keep = c.rng.IntN(2) == 0
		}
		if keep {
			im.write(at, ch.data[at-ch.off:next-ch.off])
		}
		at = next
	}
	if c.rng.IntN(4) == 0 {
		im.size = max(im.size, end) // the size got there, the data did not
	}
}

// sortedNames gives the names of both maps in order, so that a seed always
// means the same crash.
func sortedNames(a, b map[string]*node) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
