package groups

import (
	"bytes"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"time"
)

// MemberRef is who speaks in a request: a member id, the instance id of a static
// member, and the generation that it believes in.
type MemberRef struct {
	ID, Instance string
	Generation   int32
}

// SyncRequest asks for a member's assignment; the leader's brings all of them.
type SyncRequest struct {
	Member MemberRef
	// Kind and Protocol are what the member believes the group runs, "" for
	// clients that do not say.
	Kind, Protocol string
	Assignments    []Assignment
}

// Assignment is the bytes that the leader wants a member to get.
type Assignment struct {
	Member string
	Bytes  []byte
}

// SyncAnswer is a member's assignment.
type SyncAnswer struct {
	Err            error
	Kind, Protocol string
	Assignment     []byte
}

// nothingAssigned is a consumer's assignment of no partitions, version 0: clients
// do not read an empty one.
var nothingAssigned = []byte{0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}

// kindConsumer is the protocol type of consumers; others say nothing about what
// their bytes mean.
const kindConsumer = "consumer"

func (m *member) answerSync(a SyncAnswer) {
	if reply := m.sync; reply != nil {
		m.sync = nil
		reply(a)
	}
}

// Sync waits for a member's assignment. It is answered when what the leader
// brought is stored.
func (g *Group) Sync(now time.Time, req SyncRequest, reply func(SyncAnswer)) {
	m, err := g.current(req.Member)
	if err == nil && (req.Kind != "" && req.Kind != g.kind || req.Protocol != "" && req.Protocol != g.protocol) {
		err = ErrProtocol
	}
	if err == nil && g.state == PreparingRebalance {
		err = ErrRebalancing
	}
	if err == nil && g.state == CompletingRebalance && m.id == g.leader && g.staged == nil {
		err = g.stage(now, req.Assignments)
	}
	if err != nil {
		reply(SyncAnswer{Err: err})
		return
	}
	g.touch(m, now)
	g.restart, m.owes = true, false
	if g.state == Stable {
		reply(g.assigned(m))
		return
	}
	m.answerSync(SyncAnswer{Err: ErrRebalancing}) // an older request of the same member
	m.sync = reply
}

// current finds the member that speaks, and checks its generation.
func (g *Group) current(ref MemberRef) (*member, error) {
	m, err := g.check(ref.ID, ref.Instance)
	if err == nil && ref.Generation != g.generation && !mutant.On(mutant.StaleGeneration) {
		err = ErrGeneration
	}
	return m, err
}

func (g *Group) assigned(m *member) SyncAnswer {
	a := SyncAnswer{Kind: g.kind, Protocol: g.protocol, Assignment: m.assignment}
	if len(a.Assignment) == 0 && g.kind == kindConsumer {
		a.Assignment = nothingAssigned
	}
	return a
}

// stage keeps what the leader brought and wants it stored. Members that it does
// not name get nothing; who is no member is ignored.
func (g *Group) stage(now time.Time, assignments []Assignment) error {
	staged := map[string][]byte{}
	var size int64
	for _, a := range assignments {
		if g.roster.byID[a.Member] != nil {
			size += int64(len(a.Bytes))
			staged[a.Member] = a.Bytes
		}
	}
	if err := g.take(size); err != nil {
		return err
	}
	for id, b := range staged {
		staged[id] = bytes.Clone(b)
	}
	g.staged = staged
	g.stagedSize = size
	generation := g.generation
	if mutant.On(mutant.SyncBeforeStored) {
		defer g.settle(now)
	}
	g.want(func(now time.Time, err error) {
		if (g.state != CompletingRebalance || g.generation != generation) && !mutant.On(mutant.StaleWrite) {
			return // another rebalance has begun meanwhile; nobody waits
		}
		if err != nil {
			g.failSyncs(err)
			g.prepare(now)
			return
		}
		g.settle(now)
	})
	return nil
}

// unstage forgets what the leader brought.
func (g *Group) unstage() {
	_ = g.take(-g.stagedSize) // giving never fails
	g.staged, g.stagedSize = nil, 0
}

// settle makes the staged assignments the group's, and tells the members.
func (g *Group) settle(now time.Time) {
	staged := g.staged
	g.unstage()
	for _, m := range g.roster.list {
		more := int64(len(staged[m.id]) - len(m.assignment))
		g.bytes += more
		g.cfg.memory.force(more)
		m.assignment = staged[m.id]
	}
	g.state, g.restart = Stable, true
	for _, m := range g.roster.list {
		if m.sync != nil {
			g.touch(m, now)
			m.answerSync(g.assigned(m))
		}
	}
}

// failSyncs tells all that wait for an assignment that none will come.
func (g *Group) failSyncs(err error) {
	for _, m := range g.roster.list {
		m.answerSync(SyncAnswer{Err: err})
		m.owes = false
	}
}

// endSync removes members that joined and never asked for their assignment, also
// those of a group that is stable without them.
func (g *Group) endSync(now time.Time) {
	var gone []*member
	for _, m := range g.roster.list {
		if m.owes {
			gone = append(gone, m)
		}
	}
	for _, m := range gone {
		g.drop(m, ErrUnknownMember)
	}
	switch {
	case len(gone) > 0:
		g.rosterShrank(now)
	case g.state == Stable:
		g.syncEnd = time.Time{}
	case g.staged == nil:
		g.prepare(now) // the leader, a static member, is away
	default:
		g.syncEnd = now.Add(g.limit()) // the disk is slow
	}
}
