package groups

import (
	"slices"
	"time"
)

// Protocol is one way of assigning that a member knows, with the bytes that its
// leader wants to see. They are never read or changed here, but for the topics
// that a consumer subscribes to.
type Protocol struct {
	Name     string
	Metadata []byte
}

// member is one member of a group.
type member struct {
	id       string
	instance string // group.instance.id, "" for a dynamic member
	clientID string
	host     string
	session  time.Duration
	limit    time.Duration // rebalance timeout
	// protocols, the one it likes best first.
	protocols  []Protocol
	assignment []byte

	// deadline is when its session ends, unless it waits for an answer.
	deadline time.Time
	// fresh: its first JoinGroup is not answered yet. It may wait newMemberWait.
	fresh bool
	// owes: it was told of the generation and has not sent SyncGroup yet.
	owes bool
	join func(JoinAnswer) // waits for the end of the join phase
	sync func(SyncAnswer) // waits for its assignment
}

// waits reports whether silence of the member is our doing.
func (m *member) waits() bool { return m.join != nil && !m.fresh || m.sync != nil }

// size is what the member counts against budgets.
func (m *member) size() int64 {
	n := memberOverhead + int64(len(m.id)+len(m.instance)+len(m.clientID)+len(m.host)+len(m.assignment))
	for _, p := range m.protocols {
		n += int64(len(p.Name)+len(p.Metadata)) + 48
	}
	return n
}

func (m *member) likes(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

// metadata gives the member's bytes for a protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// same reports whether protocols are those that the member has.
func (m *member) same(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// roster holds the members in the order in which they came. The index by
// instance id changes with it, in these methods only.
//
//	list[i] = byID[list[i].id];  byInstance = { m.instance → m | m.instance ≠ "" }
type roster struct {
	list       []*member
	byID       map[string]*member
	byInstance map[string]*member
}

func newRoster() roster {
	return roster{byID: map[string]*member{}, byInstance: map[string]*member{}}
}

func (r *roster) len() int { return len(r.list) }

func (r *roster) add(m *member) {
	r.list = append(r.list, m)
	r.byID[m.id] = m
	if m.instance != "" {
		r.byInstance[m.instance] = m
	}
}

func (r *roster) remove(m *member) {
	delete(r.byID, m.id)
	if m.instance != "" {
		delete(r.byInstance, m.instance)
	}
	if i := slices.Index(r.list, m); i >= 0 {
		r.list = slices.Delete(r.list, i, i+1)
	}
}

// rename gives a member another id.
func (r *roster) rename(m *member, id string) {
	delete(r.byID, m.id)
	m.id = id
	r.byID[id] = m
}
