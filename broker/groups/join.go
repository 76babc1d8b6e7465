package groups

import (
	"bytes"
	"fmt"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"time"
)

// NoGeneration is the generation of who is not a member.
const NoGeneration int32 = -1

// JoinRequest asks to be a member of the next generation.
type JoinRequest struct {
	Member   string // "" for who was none yet
	Instance string // group.instance.id, "" for a dynamic member
	ClientID string
	Host     string
	Session  time.Duration
	Limit    time.Duration // rebalance timeout
	Kind     string        // protocol type
	// Protocols, the one that the member likes best first.
	Protocols []Protocol
	// NeedsID: who has no member id is given one and has to come again with it,
	// so that a client that gives up leaves nothing behind (KIP-394).
	NeedsID bool
	// SkipsAssignment: the client understands that a leader has nothing to
	// assign (KIP-814).
	SkipsAssignment bool
}

// JoinAnswer tells a member of its generation.
type JoinAnswer struct {
	Err        error // with ErrMemberID, Member holds the id
	Generation int32
	Kind       string
	Protocol   string
	Leader     string // member id
	Member     string // the member's own id
	Skip       bool   // the leader keeps its hands off: assignments stand
	Members    []JoinedMember
}

// JoinedMember is what the leader is told of a member.
type JoinedMember struct {
	ID, Instance string
	Metadata     []byte
}

func (m *member) answerJoin(a JoinAnswer) {
	if reply := m.join; reply != nil {
		m.join = nil
		reply(a)
	}
}

// Join begins or repeats a member's way into the next generation. The answer
// comes when the join phase ends.
func (g *Group) Join(now time.Time, req JoinRequest, reply func(JoinAnswer)) {
	if err := g.join(now, &req, reply); err != nil {
		member := req.Member
		if err == ErrMemberID {
			member = g.newPending(now, &req)
			if member == "" {
				err = fmt.Errorf("%w: too many members on their way in", ErrFull)
			}
		}
		reply(JoinAnswer{Err: err, Member: member, Generation: NoGeneration})
	}
	g.progress(now)
}

// join gives an error if it has not taken the reply over.
func (g *Group) join(now time.Time, req *JoinRequest, reply func(JoinAnswer)) error {
	if err := g.checkJoin(req); err != nil {
		return err
	}
	var self *member
	switch {
	case req.Member == "" && req.Instance != "":
		self = g.roster.byInstance[req.Instance]
	case req.Member != "" && !g.isPending(req.Member):
		var err error
		if self, err = g.check(req.Member, req.Instance); err != nil {
			return err
		}
	}
	if !g.supports(req.Kind, req.Protocols, self) {
		return ErrProtocol
	}
	switch {
	case self == nil && req.Member == "" && req.Instance == "" && req.NeedsID:
		return ErrMemberID
	case self == nil:
		return g.welcome(now, req, reply)
	case req.Member == "":
		return g.replace(now, self, req, reply)
	}
	return g.rejoin(now, self, req, reply)
}

func (g *Group) checkJoin(req *JoinRequest) error {
	switch {
	case req.Session < g.cfg.MinSession || req.Session > g.cfg.MaxSession:
		return fmt.Errorf("%w: %v is not between %v and %v", ErrSessionTimeout, req.Session, g.cfg.MinSession, g.cfg.MaxSession)
	case len(req.Protocols) > maxProtocols:
		return fmt.Errorf("%w: %d protocols, at most %d", ErrFull, len(req.Protocols), maxProtocols)
	case len(req.Instance) > maxInstanceID:
		return fmt.Errorf("%w: instance id of %d bytes, at most %d", ErrFull, len(req.Instance), maxInstanceID)
	}
	req.Limit = min(max(req.Limit, leastRebalance), maxRebalance)
	return nil
}

// newID makes a member id that starts as Kafka's do.
func (g *Group) newID(req *JoinRequest) string {
	prefix := req.ClientID
	if req.Instance != "" {
		prefix = req.Instance
	}
	return g.cfg.newID(prefix)
}

func (g *Group) isPending(id string) bool { _, ok := g.pending[id]; return ok }

// newPending gives out a member id, "" if there is no room for one.
func (g *Group) newPending(now time.Time, req *JoinRequest) string {
	id := g.newID(req)
	if len(g.pending) >= g.cfg.MaxMembers || g.take(pendingSize(id)) != nil {
		return ""
	}
	g.pending[id] = now.Add(req.Session)
	g.restart = true
	return id
}

// pendingSize is what a member id that was given out counts against budgets. It
// starts with the client's id, which may be long.
func pendingSize(id string) int64 { return memberOverhead + int64(len(id)) }

func (g *Group) dropPending(id string) {
	if g.isPending(id) {
		delete(g.pending, id)
		_ = g.take(-pendingSize(id)) // giving never fails
	}
}

// welcome takes a new member in.
func (g *Group) welcome(now time.Time, req *JoinRequest, reply func(JoinAnswer)) error {
	if g.roster.len() >= g.cfg.MaxMembers {
		return fmt.Errorf("%w: %d members", ErrFull, g.cfg.MaxMembers)
	}
	m := &member{id: req.Member, instance: req.Instance, clientID: req.ClientID, host: req.Host}
	if m.id == "" {
		m.id = g.newID(req)
	}
	m.setup(req)
	if err := g.take(m.size()); err != nil {
		return err
	}
	g.dropPending(m.id)
	if g.roster.len() == 0 {
		g.kind = req.Kind
	}
	g.roster.add(m)
	m.fresh = true
	g.touch(m, now)
	g.newcomer, g.restart = true, true
	g.prepare(now)
	if g.isGhost(m.instance) {
		g.whenStored(m, reply, func(now time.Time) {
			m.join = reply
			g.prepare(now)
		})
		return nil
	}
	m.join = reply
	return nil
}

// setup gives a member what its request says, in bytes of its own.
func (m *member) setup(req *JoinRequest) {
	m.session, m.limit = req.Session, req.Limit
	m.protocols = make([]Protocol, 0, len(req.Protocols))
	for _, p := range req.Protocols {
		m.protocols = append(m.protocols, Protocol{p.Name, bytes.Clone(p.Metadata)})
	}
}

// update gives a member that is in the group new protocols.
func (g *Group) update(m *member, req *JoinRequest) error {
	before := *m
	m.setup(req)
	if err := g.take(m.size() - before.size()); err != nil {
		m.session, m.limit, m.protocols = before.session, before.limit, before.protocols
		return err
	}
	if g.roster.len() == 1 {
		g.kind = req.Kind
	}
	return nil
}

// rejoin lets a member come again. A follower that says nothing new, and whoever
// lost the answer of this generation, is told where the group stands.
func (g *Group) rejoin(now time.Time, m *member, req *JoinRequest, reply func(JoinAnswer)) error {
	same := m.same(req.Protocols)
	stays := same && (g.state == CompletingRebalance || g.state == Stable && g.leader != m.id)
	if err := g.update(m, req); err != nil {
		return err
	}
	m.answerJoin(JoinAnswer{Err: ErrRebalancing, Member: m.id, Generation: NoGeneration}) // an older request of the same member
	g.touch(m, now)
	g.restart = true
	if stays {
		reply(g.joined(m))
		return nil
	}
	m.join = reply
	g.prepare(now)
	return nil
}

// replace gives a static member's place to a new process (KIP-345). The old one
// is fenced, whatever it waits for. That is stored before the new one is told its
// id: after a crash, the old id would fence the new process. A stable group stays
// as it is if the new process would not change it.
func (g *Group) replace(now time.Time, m *member, req *JoinRequest, reply func(JoinAnswer)) error {
	before := m.metadata(g.protocol)
	if err := g.update(m, req); err != nil {
		return err
	}
	changes := g.pick() != g.protocol || g.kind == kindConsumer && resubscribes(before, m.metadata(g.protocol))
	if mutant.On(mutant.OldUnanswered) {
		m.join = nil
	}
	m.answerJoin(JoinAnswer{Err: ErrFencedInstance, Member: m.id, Generation: NoGeneration})
	m.answerSync(SyncAnswer{Err: ErrFencedInstance})
	old := m.id
	g.rename(m, g.newID(req))
	m.clientID, m.host = req.ClientID, req.Host
	if g.leader == old {
		g.leader = m.id
	}
	m.fresh = false
	g.touch(m, now)
	g.restart = true
	if g.state == CompletingRebalance || g.state == Stable && changes {
		g.prepare(now)
	}
	stays := g.state == Stable
	g.whenStored(m, reply, func(now time.Time) {
		if stays && g.state == Stable {
			reply(g.replaced(m, old, req.SkipsAssignment))
			return
		}
		m.join = reply
		g.prepare(now)
	})
	return nil
}

// whenStored goes on with a static member when what the group is now has been
// stored.
func (g *Group) whenStored(m *member, reply func(JoinAnswer), then func(now time.Time)) {
	id := m.id
	stored := func(now time.Time, err error) {
		switch {
		case err == nil && g.roster.byID[id] != m: // gone, or replaced again
			err = ErrUnknownMember
		case err == nil:
			then(now)
			return
		case m.fresh && g.roster.byID[id] == m:
			g.drop(m, err)
			g.rosterShrank(now)
		}
		reply(JoinAnswer{Err: err, Generation: NoGeneration})
	}
	if mutant.On(mutant.PlaceNotStored) {
		stored(time.Now(), nil)
		stored = nil
	}
	g.want(stored)
}

// replaced tells a new process of a generation that it finds.
func (g *Group) replaced(m *member, old string, skips bool) JoinAnswer {
	a := g.joined(m)
	switch led := g.leader == m.id; {
	case led && skips:
		a.Skip = true
	case led: // it must not assign: told of the old leader it will not
		a.Leader, a.Members = old, nil
	}
	return a
}

// rename gives a member another id and counts the difference.
func (g *Group) rename(m *member, id string) {
	before := m.size()
	g.roster.rename(m, id)
	g.bytes += m.size() - before
	g.cfg.memory.force(m.size() - before)
}

// joined tells a member of the present generation.
func (g *Group) joined(m *member) JoinAnswer {
	a := JoinAnswer{Generation: g.generation, Kind: g.kind, Protocol: g.protocol, Leader: g.leader, Member: m.id}
	if mutant.On(mutant.EverybodyLeads) {
		a.Leader = m.id
	}
	if m.id == a.Leader {
		a.Members = make([]JoinedMember, 0, g.roster.len())
		for _, other := range g.roster.list {
			a.Members = append(a.Members, JoinedMember{other.id, other.instance, other.metadata(g.protocol)})
		}
	}
	return a
}

// prepare begins a rebalance, if none has begun.
func (g *Group) prepare(now time.Time) {
	switch g.state {
	case PreparingRebalance:
		return
	case CompletingRebalance:
		g.unstage()
		g.failSyncs(ErrRebalancing)
	}
	limit := g.limit()
	g.initial, g.restart = g.state == Empty, true
	g.state, g.joinEnd = PreparingRebalance, now.Add(limit)
	if g.initial {
		delay := min(g.cfg.InitialDelay, limit)
		g.joinEnd, g.waitLeft, g.newcomer = now.Add(delay), limit-delay, false
	}
}

// progress ends the join phase if it can end.
func (g *Group) progress(now time.Time) {
	if g.state != PreparingRebalance {
		return
	}
	over := !g.joinEnd.After(now)
	switch {
	case over && g.initial && g.newcomer && g.waitLeft > 0:
		delay := min(g.cfg.InitialDelay, g.waitLeft)
		g.joinEnd, g.waitLeft, g.newcomer = now.Add(delay), g.waitLeft-delay, false
		g.restart = true
	case over, !g.initial && g.complete():
		g.endJoin(now)
	}
}

// complete reports whether everybody who is awaited has come.
func (g *Group) complete() bool {
	for _, m := range g.roster.list {
		if m.join == nil {
			return false
		}
	}
	return len(g.pending) == 0
}

// endJoin makes the next generation of those that came. Dynamic members that did
// not come are out; static ones stay until their session ends.
func (g *Group) endJoin(now time.Time) {
	for _, m := range append([]*member(nil), g.roster.list...) {
		if m.join == nil && m.instance == "" {
			g.drop(m, ErrUnknownMember)
		}
	}
	g.restart = true
	led := g.leader
	if g.roster.len() > 0 && !g.elect() {
		g.joinEnd = now.Add(g.limit()) // only static members, all of them away
		return
	}
	if !(mutant.On(mutant.GenerationKept) && led == g.leader) {
		g.nextGeneration()
		g.cfg.rebalances.Add(1)
	}
	if g.roster.len() == 0 {
		g.becomeEmpty(now)
		return
	}
	g.protocol = g.pick()
	g.state, g.syncEnd = CompletingRebalance, now.Add(g.limit())
	for _, m := range g.roster.list {
		if m.join == nil {
			continue
		}
		m.fresh, m.owes = false, true
		g.touch(m, now)
		m.answerJoin(g.joined(m))
	}
}

// elect makes sure that the leader is a member that came; it stays who it was if
// it did.
func (g *Group) elect() bool {
	if m := g.roster.byID[g.leader]; m != nil && m.join != nil {
		return true
	}
	for _, m := range g.roster.list {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

func (g *Group) becomeEmpty(now time.Time) {
	g.state, g.protocol, g.leader, g.since = Empty, "", "", now.UnixMilli()
	g.want(nil)
}

// rosterShrank goes on after members have gone.
func (g *Group) rosterShrank(now time.Time) {
	if g.state == Stable || g.state == CompletingRebalance {
		g.prepare(now)
	}
	g.progress(now)
}
