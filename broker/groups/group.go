package groups

import (
	"fmt"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"math"
	"slices"
	"time"
)

// State is where a group stands; doc.go draws the ways between them.
type State uint8

// The states, named as Kafka names them.
const (
	Empty               State = iota // no members
	PreparingRebalance               // waits for members to join
	CompletingRebalance              // waits for the leader's assignment
	Stable                           // each member has its assignment
	Dead                             // deleted; never seen from outside
)

var stateNames = [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}

// String gives Kafka's name of the state.
func (s State) String() string { return stateNames[s] }

// Group is one classic consumer group: a state machine without clock, disk or
// goroutine. Its methods take the time and are called one after the other.
// Answers are functions; they are called at most once, from within a method,
// and must not block or call back. What must survive is handed out by TakeWrite.
type Group struct {
	cfg *Config
	key Key

	state      State
	generation int32
	kind       string // protocol type; "" while nobody ever joined
	protocol   string // chosen for the generation
	leader     string // member id
	since      int64  // ms since 1970: when it became Empty
	roster     roster
	pending    map[string]time.Time // member ids that were given out, and their ends
	bytes      int64                // of the members, taken from the node's budget

	// Of PreparingRebalance.
	joinEnd  time.Time     // members that did not come until then are out
	initial  bool          // the group was empty: wait, though all have come
	newcomer bool          // somebody came since the wait began
	waitLeft time.Duration // how much longer the initial wait may become

	// Of CompletingRebalance, and of Stable until all have their assignment.
	syncEnd time.Time // zero: nobody is awaited
	// staged is what the leader brought, by member id, until it is stored; nil if
	// it has not. stagedSize is what of bytes it takes.
	staged     map[string][]byte
	stagedSize int64

	// ghosts are instance ids that the stored state may hold though their members
	// are gone: a new process must not be told its id while that is so.
	ghosts  map[string]bool
	write   writing
	restart bool // deadlines changed: the timer must be set anew
	stored  bool // the store has state of this group
}

// writing is what waits to be stored. One write is under way at a time.
type writing struct {
	wanted bool
	after  []func(now time.Time, err error) // for the next one
	taken  []func(now time.Time, err error) // for the one under way
	busy   bool
	ghosts map[string]bool // those that the write under way lays to rest
	owed   bool            // the last one failed, and nobody will ask again
}

// NewGroup makes an empty group.
func NewGroup(key Key, cfg *Config) *Group {
	return &Group{cfg: cfg, key: key, roster: newRoster(), pending: map[string]time.Time{}, ghosts: map[string]bool{}}
}

// State gives the group's state.
func (g *Group) State() State { return g.state }

// Generation gives the group's generation, 0 before the first.
func (g *Group) Generation() int32 { return g.generation }

// check finds the member that a request is from. An instance id wins over a
// member id: who does not have the newest one is fenced.
func (g *Group) check(id, instance string) (*member, error) {
	if instance != "" {
		switch m := g.roster.byInstance[instance]; {
		case m == nil:
			return nil, ErrUnknownMember
		case m.id != id && !mutant.On(mutant.InstanceUnfenced):
			return nil, ErrFencedInstance
		default:
			return m, nil
		}
	}
	if m := g.roster.byID[id]; m != nil {
		return m, nil
	}
	return nil, ErrUnknownMember
}

// touch lets a member's session begin anew.
func (g *Group) touch(m *member, now time.Time) {
	m.deadline = now.Add(m.session)
	if m.fresh {
		m.deadline = now.Add(newMemberWait)
	}
}

// take counts n more bytes for the group.
func (g *Group) take(n int64) error {
	if n > 0 && g.bytes+n > g.cfg.MaxGroupBytes {
		return fmt.Errorf("%w: %d bytes of members, at most %d", ErrFull, g.bytes+n, g.cfg.MaxGroupBytes)
	}
	if n > 0 && !g.cfg.memory.take(n) {
		return errNoMemory(g.key)
	}
	if n < 0 {
		g.cfg.memory.give(-n)
	}
	g.bytes += n
	return nil
}

// drop removes a member and answers what it waits for.
func (g *Group) drop(m *member, err error) {
	g.roster.remove(m)
	g.bytes -= m.size()
	if !mutant.On(mutant.MemoryLeak) {
		g.cfg.memory.give(m.size())
	}
	if g.leader == m.id {
		g.leader = ""
	}
	if m.instance != "" && !m.fresh {
		g.ghosts[m.instance] = true
	}
	if !mutant.On(mutant.DropUnanswered) {
		m.answerJoin(JoinAnswer{Err: err, Generation: NoGeneration})
	}
	m.answerSync(SyncAnswer{Err: err})
	g.restart = true
}

// limit is the largest rebalance timeout of the members.
func (g *Group) limit() time.Duration {
	limit := leastRebalance
	for _, m := range g.roster.list {
		limit = max(limit, m.limit)
	}
	return limit
}

// supports reports whether a member with these protocols could be in the group;
// self, if it is a member already, does not count.
func (g *Group) supports(kind string, protocols []Protocol, self *member) bool {
	if kind == "" || len(protocols) == 0 {
		return false
	}
	alone := true
	common := slices.Clone(protocols)
	for _, m := range g.roster.list {
		if m == self {
			continue
		}
		alone = false
		common = slices.DeleteFunc(common, func(p Protocol) bool { return !m.likes(p.Name) })
	}
	return alone || g.kind == kind && len(common) > 0
}

// pick chooses the protocol of a generation: of those that all members have, the
// one that most of them like best; among equals, the one whose first vote came
// first.
func (g *Group) pick() string {
	var best string
	votes := map[string]int{}
	var order []string
	for _, m := range g.roster.list {
		for _, p := range m.protocols {
			if g.common(p.Name) {
				if votes[p.Name]++; votes[p.Name] == 1 {
					order = append(order, p.Name)
				}
				break
			}
		}
	}
	for _, p := range order {
		if best == "" || votes[p] > votes[best] {
			best = p
		}
	}
	return best
}

func (g *Group) common(protocol string) bool {
	return !slices.ContainsFunc(g.roster.list, func(m *member) bool { return !m.likes(protocol) })
}

func (g *Group) nextGeneration() {
	if g.generation == math.MaxInt32 {
		g.generation = 0
	}
	g.generation++
}

// Next gives when Tick has something to do, zero for never.
func (g *Group) Next() time.Time {
	var next time.Time
	earliest := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	switch g.state {
	case PreparingRebalance:
		earliest(g.joinEnd)
	case CompletingRebalance, Stable:
		if !g.syncEnd.IsZero() {
			earliest(g.syncEnd)
		}
	}
	for _, m := range g.roster.list {
		if !m.waits() {
			earliest(m.deadline)
		}
	}
	for _, end := range g.pending {
		earliest(end)
	}
	return next
}

// Tick does what time brings: sessions and phases end.
func (g *Group) Tick(now time.Time) {
	g.restart = true
	for id, end := range g.pending {
		if !end.After(now) {
			g.dropPending(id)
		}
	}
	var gone []*member
	for _, m := range g.roster.list {
		if !m.waits() && !m.deadline.After(now) {
			gone = append(gone, m)
		}
	}
	for _, m := range gone {
		g.drop(m, ErrUnknownMember)
	}
	if len(gone) > 0 {
		g.rosterShrank(now)
	}
	if (g.state == CompletingRebalance || g.state == Stable) && !g.syncEnd.IsZero() && !g.syncEnd.After(now) {
		g.endSync(now)
	}
	g.progress(now)
}

// Abandon answers all that wait: the group goes on elsewhere, or never.
func (g *Group) Abandon(err error) {
	for _, m := range g.roster.list {
		m.answerJoin(JoinAnswer{Err: err, Member: m.id, Generation: NoGeneration})
		m.answerSync(SyncAnswer{Err: err})
	}
	for _, after := range append(g.write.taken, g.write.after...) {
		after(time.Time{}, err)
	}
	g.write = writing{}
	g.cfg.memory.give(g.bytes)
	g.bytes, g.state = 0, Dead
}

// idle reports whether nothing would be lost if the group were loaded again.
func (g *Group) idle() bool {
	return g.state == Empty && len(g.pending) == 0 && !g.write.wanted && !g.write.busy && !g.write.owed
}
