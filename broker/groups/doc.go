// Package groups coordinates classic consumer groups: who is a member, which
// generation, who leads, what is assigned, and who may commit positions. It knows
// no wire format. What members say of partitions is bytes to it.
//
// # States
//
//	          Join                    all came, or time is up
//	Empty ─────────▶ PreparingRebalance ─────────▶ CompletingRebalance
//	  ▲                 ▲   │       ▲                  │        │
//	  │ nobody came     │   │       └── Join, Leave, ──┘        │ Sync of the
//	  └─────────────────┼───┘           silence                 │ leader, stored
//	                    └───────────── Stable ◀─────────────────┘
//	                     Join, Leave, silence
//
// A generation begins when a join phase ends. [Group] is the machine: no clock, no
// disk, no goroutine; a model of a page and random schedules try it.
//
// # What survives
//
// One write per completed rebalance holds generation, members and assignments; a
// member is told its assignment after that write. So a generation whose assignment
// anybody knows is never forgotten. Three more things are written: that a group
// became empty, that a static member's place went to another process, and that
// there is nothing left of a group. A heartbeat writes nothing.
//
// A group is loaded when somebody asks for it, and by the first sweep; sessions
// begin anew. If a rebalance was under way the group goes on from the generation
// before: its members still have what was assigned there, those that joined later
// join again, and what was on its way (another member, a leader's new mind) starts
// the next one.
//
// Positions are the region's rows, by topic id. A commit is judged and handed to
// the shard in one step, under the group's lock, as the writes above are: so the
// shard's order is the group's order, and no commit of a former generation comes
// after one of a later.
//
// # Memory
//
// A group is in memory while it has members, is being asked for, or waits for a
// write. What members gave counts against MaxGroupBytes and Memory, a member id
// that was given out as well.
//
// # Goroutines
//
//   - Coordinator.Run: woken by its interval; sweeps.
//   - one per write of a group's state that ends: it goes on with the group.
//
// Each group with members has a timer, set for the earliest thing that can happen;
// a heartbeat does not move it.
//
// # Lock order
//
// seat.mu, then Coordinator.mu, which is a leaf. The store is called with seat.mu
// held; it must not call back before it returns, except for the answers of commits
// and deletions, which take no lock here.
package groups
