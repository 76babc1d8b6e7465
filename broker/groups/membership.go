package groups

import (
	"github.com/rhumbmq/rhumb/internal/mutant"
	"slices"
	"time"
)

// Heartbeat keeps a member's session. ErrRebalancing asks the member to join
// again; while the leader assigns there is nothing that a member could do.
func (g *Group) Heartbeat(now time.Time, ref MemberRef) error {
	m, err := g.current(ref)
	if err != nil {
		return err
	}
	g.touch(m, now) // later than before: the timer may stay
	if g.state == PreparingRebalance {
		return ErrRebalancing
	}
	return nil
}

// Leave removes members: by member id, or by instance id alone, as admin tools do
// (KIP-345). It gives an error for each.
func (g *Group) Leave(now time.Time, members []MemberRef) []error {
	errs := make([]error, len(members))
	left := false
	for i, ref := range members {
		if g.isPending(ref.ID) && ref.Instance == "" {
			g.dropPending(ref.ID)
			continue
		}
		if ref.ID == "" && ref.Instance != "" {
			if m := g.roster.byInstance[ref.Instance]; m != nil {
				ref.ID = m.id
			}
		}
		m, err := g.check(ref.ID, ref.Instance)
		if err != nil {
			errs[i] = err
			continue
		}
		if m.instance != "" && mutant.On(mutant.LeftStays) {
			continue
		}
		g.drop(m, ErrUnknownMember)
		left = true
	}
	if left {
		g.rosterShrank(now)
	}
	g.progress(now)
	return errs
}

// CheckCommit reports whether who speaks may move the group's positions. Without
// a generation one may as long as nobody is a member: consumers that assign
// partitions themselves, and admin tools.
func (g *Group) CheckCommit(now time.Time, ref MemberRef) error {
	if ref.Generation < 0 && g.state == Empty {
		return nil
	}
	if ref.Generation < 0 && ref.ID == "" && ref.Instance == "" {
		return ErrUnknownMember
	}
	m, err := g.current(ref)
	switch {
	case err != nil:
		return err
	case g.state == CompletingRebalance:
		return ErrRebalancing
	}
	g.touch(m, now)
	return nil
}

// Description is what admin tools are shown of a group.
type Description struct {
	State    State
	Kind     string // protocol type
	Protocol string // of a stable group
	Members  []DescribedMember
}

// DescribedMember is one member in a Description. Metadata and Assignment are
// those of a stable group. The bytes are shared: read only.
type DescribedMember struct {
	ID, Instance, ClientID, Host string
	Metadata, Assignment         []byte
}

// Describe shows the group.
func (g *Group) Describe() Description {
	d := Description{State: g.state, Kind: g.kind}
	stable := g.state == Stable
	if stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.roster.list {
		out := DescribedMember{ID: m.id, Instance: m.instance, ClientID: m.clientID, Host: m.host}
		if stable {
			out.Metadata, out.Assignment = m.metadata(g.protocol), m.assignment
		}
		d.Members = append(d.Members, out)
	}
	return d
}

// subscribed gives the names of topics that members are subscribed to; ok is
// false if that cannot be known.
func (g *Group) subscribed() (names []string, ok bool) {
	if g.kind != kindConsumer {
		return nil, false
	}
	for _, m := range g.roster.list {
		for _, p := range m.protocols {
			topics, err := parseSubscription(p.Metadata)
			if err != nil {
				return nil, false
			}
			names = append(names, topics...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), true
}
