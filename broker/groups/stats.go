package groups

import (
	"sync/atomic"
	"time"
)

// stats counts what happened since the start.
type stats struct {
	commits atomic.Int64 // positions
	refused atomic.Int64 // positions over a limit
	joins   waits
	syncs   waits
}

// waits counts answers and how long they took.
type waits struct {
	count atomic.Int64
	nanos atomic.Int64
}

// timed has a reply say how long it took.
func timed[A any](w *waits, reply func(A)) func(A) {
	began := time.Now()
	return func(a A) {
		w.count.Add(1)
		w.nanos.Add(int64(time.Since(began)))
		reply(a)
	}
}

// Figures are those of a node's groups.
type Figures struct {
	// States counts the groups that this node coordinates by their state.
	States map[State]int
	// Members are those of all groups.
	Members int
	// Memory is what members take, OffsetMemory what committed positions take, in
	// bytes; Offsets is how many of these there are.
	Memory, OffsetMemory, Offsets int64
	// Rebalances counts those that ended in a new generation, Commits positions that
	// were handed to the log, CommitsRefused those that were over a limit; since the
	// start.
	Rebalances, Commits, CommitsRefused int64
	// Joins and Syncs count the answers to members that came into a group or asked for
	// their assignment, JoinTime and SyncTime how long they took in all. An answer to a
	// join takes as long as the others need to come.
	Joins, Syncs       int64
	JoinTime, SyncTime time.Duration
}

// Figures gives the figures now.
func (c *Coordinator) Figures() Figures {
	f := Figures{States: map[State]int{Empty: 0, PreparingRebalance: 0, CompletingRebalance: 0, Stable: 0},
		Memory: c.Memory(), Rebalances: c.cfg.rebalances.Load(), Commits: c.stats.commits.Load(), CommitsRefused: c.stats.refused.Load(),
		Joins: c.stats.joins.count.Load(), JoinTime: time.Duration(c.stats.joins.nanos.Load()),
		Syncs: c.stats.syncs.count.Load(), SyncTime: time.Duration(c.stats.syncs.nanos.Load())}
	use := c.store.OffsetsUse(Key{}, nil)
	f.Offsets, f.OffsetMemory = use.Count, use.All
	for _, k := range c.keys() {
		if _, ours := c.store.Coordinates(k); !ours {
			continue
		}
		state, members := c.look(k)
		f.States[state]++
		f.Members += members
	}
	return f
}

// look tells of a group without loading it: one that is not in memory has no members,
// since the first sweep loads those that have.
func (c *Coordinator) look(k Key) (state State, members int) {
	c.mu.Lock()
	s := c.seats[k]
	c.mu.Unlock()
	if s == nil {
		return Empty, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == nil || s.group.state == Dead {
		return Empty, 0
	}
	return s.group.state, s.group.roster.len()
}
