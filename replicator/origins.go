package replicator

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/paths"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// origins holds what this region, as a destination, knows of the paths of origin
// lives. There is a choice for a life only if the policy has more than one path for
// it, and only once one was offered.
type origins struct {
	mu      sync.Mutex
	self    Identity
	scopeOf func(rhumb.Topic) scope
	edges   map[scope][]configstore.Edge
	numbers map[rhumb.RegionNumber]rhumb.RegionName
	gone    map[rhumb.RegionNumber]bool
	links   map[rhumb.RegionName]*link
	routes  map[routeKey][]reach // by policy, filled as asked; forgotten with each change
	choices map[originKey]*choice
	strange map[rhumb.PartitionRef]*strangers
}

// originKey names an origin life of a partition of this region.
type originKey struct {
	ref    rhumb.PartitionRef
	origin rhumb.RegionNumber
	life   rhumb.Life
}

type routeKey struct {
	scope  scope
	origin rhumb.RegionNumber
}

// reach is a path by policy alone.
type reach struct {
	link *link
	hops int
	gets bool
}

// choice is one life's, with the session that brings it.
type choice struct {
	paths.Choice
	topic   rhumb.Topic
	index   int32
	session *receiver // nil if none is open
}

func (o *origins) init(self Identity, scopeOf func(rhumb.Topic) scope) {
	o.self, o.scopeOf, o.choices = self, scopeOf, map[originKey]*choice{}
	o.strange = map[rhumb.PartitionRef]*strangers{}
}

// originPolicy is what the policy says of paths.
type originPolicy struct {
	edges   []configstore.Edge
	regions []configstore.Region
	gone    map[rhumb.RegionNumber]bool // regions that were removed
	links   []*link
}

// setPolicy takes over what paths there are, and forgets choices of partitions that
// are gone.
func (o *origins) setPolicy(p originPolicy, base map[rhumb.PartitionRef]*source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = p.gone
	o.edges, o.routes = map[scope][]configstore.Edge{}, map[routeKey][]reach{}
	for _, e := range p.edges {
		s := scope{e.Tenant, e.Namespace, e.Topic}
		o.edges[s] = append(o.edges[s], e)
	}
	o.numbers, o.links = map[rhumb.RegionNumber]rhumb.RegionName{}, map[rhumb.RegionName]*link{}
	for i := range p.regions {
		o.numbers[p.regions[i].Number] = p.regions[i].Name
	}
	for _, l := range p.links {
		o.links[l.name] = l
	}
	for key := range o.choices {
		if base[key.ref] == nil {
			delete(o.choices, key)
		}
	}
	for ref := range o.strange {
		if base[ref] == nil {
			delete(o.strange, ref)
		}
	}
}

// reaches gives the paths of an origin to this region, by policy. The caller holds mu.
func (o *origins) reaches(s scope, origin rhumb.RegionNumber) []reach {
	key := routeKey{s, origin}
	if r, known := o.routes[key]; known {
		return r
	}
	from := o.numbers[origin] // empty: declared gone
	far := distances(o.edges[s], from, o.self.Name)
	var all []reach
	for _, e := range o.edges[s] {
		l := o.links[e.From]
		if e.To != o.self.Name || l == nil {
			continue
		}
		r := reach{link: l, hops: paths.Far}
		if d, ok := far[e.From]; ok {
			r.hops, r.gets = d+1, d > 0
		}
		if from == "" {
			r.gets = o.hears(s, e.From, origin)
		}
		if e.From == from || e.Brings(o.gone[origin]) || origin == o.self.Number {
			all = append(all, r)
		}
	}
	o.routes[key] = all
	return all
}

// hears reports whether a region may get records of an origin that has no region from
// others than this one. The caller holds mu.
func (o *origins) hears(s scope, name rhumb.RegionName, origin rhumb.RegionNumber) bool {
	return slices.ContainsFunc(o.edges[s], func(e configstore.Edge) bool {
		return e.To == name && e.From != o.self.Name && e.Brings(o.gone[origin])
	})
}

// distances gives how many edges lie between an origin and each region that gets its
// records without one that is left out.
func distances(edges []configstore.Edge, from, without rhumb.RegionName) map[rhumb.RegionName]int {
	far := map[rhumb.RegionName]int{}
	if from == "" || from == without {
		return far
	}
	far[from] = 0
	for at := []rhumb.RegionName{from}; len(at) > 0; at = at[1:] {
		for _, e := range edges {
			if _, known := far[e.To]; known || e.From != at[0] || e.To == without || e.From != from && !e.Forward {
				continue
			}
			far[e.To] = far[e.From] + 1
			at = append(at, e.To)
		}
	}
	return far
}

// offer decides whether a session is taken. It gives the session that ends because
// of it, and why it is refused.
func (o *origins) offer(r *receiver, mark rhumb.Offset, now time.Time) (take bool, leave *receiver, why string) {
	l, open := r.lane.in.conn.link, &r.open
	o.mu.Lock()
	defer o.mu.Unlock()
	if key := (originKey{r.ref, open.Region, open.Life}); open.Head <= 0 && o.choices[key] == nil {
		return true, nil, "" // there is nothing of it yet: an empty topic costs nothing here
	}
	c := o.choice(r, mark)
	if c == nil {
		return true, nil, ""
	}
	before := c.session
	d := c.Offer(now, l.name, open.Head, mark)
	if !d.Take {
		return false, nil, d.Why
	}
	c.session = r
	if d.Leave != "" {
		leave = before
	}
	return true, leave, ""
}

// choice finds or makes the choice of a session's life; nil if there is nothing to
// choose. The caller holds mu.
func (o *origins) choice(r *receiver, mark rhumb.Offset) *choice {
	topic := r.open.Partition.Topic
	all := o.reaches(o.scopeOf(topic), r.open.Region)
	if len(all) < 2 {
		return nil
	}
	key := originKey{r.ref, r.open.Region, r.open.Life}
	c := o.choices[key]
	if c == nil {
		c = &choice{topic: topic, index: r.open.Partition.Index}
		o.choices[key] = c
		if mark == rhumb.NoOffset {
			o.meet(key, r.lane.in.conn.m)
		}
	}
	c.Update(routesNow(all))
	return c
}

// strangers are lives with a choice of which the partition had nothing when they were
// offered, oldest first. A peer may offer any number of them.
type strangers struct {
	keys []originKey
	most int // how many there may be before it is looked whom to forget
}

// maxStrangers is how many a partition keeps that are not being brought. What is forgotten
// of one is what a restart forgets.
const maxStrangers = 64

// meet notes a stranger, and forgets the oldest of those without a session that are too
// many. The caller holds mu.
func (o *origins) meet(key originKey, m *Manager) {
	s := o.strange[key.ref]
	if s == nil {
		s = &strangers{most: maxStrangers}
		o.strange[key.ref] = s
	}
	if s.keys = append(s.keys, key); len(s.keys) <= s.most {
		return
	}
	s.keys = slices.DeleteFunc(s.keys, func(k originKey) bool {
		return o.choices[k] == nil || m.markHere(k.ref, k.origin, k.life) != rhumb.NoOffset
	})
	over := len(s.keys) - maxStrangers/2
	s.keys = slices.DeleteFunc(s.keys, func(k originKey) bool {
		if over <= 0 || k == key || o.choices[k].session != nil {
			return false
		}
		over--
		delete(o.choices, k)
		return true
	})
	s.most = max(maxStrangers, 2*len(s.keys)) // the others are being brought
}

// routesNow adds to paths of the policy what links know of them.
func routesNow(all []reach) []paths.Route {
	routes := make([]paths.Route, 0, len(all))
	for _, a := range all {
		at, up := a.link.upSince()
		routes = append(routes, paths.Route{Peer: a.link.name, Hops: a.hops, Gets: a.gets, Up: up, At: at})
	}
	return routes
}

// floor decides whether a gap, or a start, that a session tells of is final.
func (o *origins) floor(r *receiver, to rhumb.Offset, mark rhumb.Offset, now time.Time) (final bool, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.choice(r, mark)
	if c == nil {
		return true, ""
	}
	return c.Floor(now, r.lane.in.conn.link.name, to, mark)
}

// left forgets a session that is over.
func (o *origins) left(r *receiver) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.choices[originKey{r.ref, r.open.Region, r.open.Life}]; c != nil && c.session == r {
		c.session = nil
	}
}

// report lists the choices, by topic.
func (o *origins) report(m *Manager, now time.Time) []OriginStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]OriginStatus, 0, len(o.choices))
	for key, c := range o.choices {
		c.Update(routesNow(o.reaches(o.scopeOf(c.topic), key.origin)))
		c.See(m.markHere(key.ref, key.origin, key.life))
		s := OriginStatus{Topic: c.topic, Partition: c.index, Origin: key.origin, OriginName: o.numbers[key.origin], Life: key.life,
			Waits: c.Waits(now), Moved: PathMove(c.Moved())}
		for _, p := range c.Paths() {
			s.Paths = append(s.Paths, pathStatus(p, now))
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b OriginStatus) int {
		return cmp.Or(cmp.Compare(a.Topic.String(), b.Topic.String()), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Life.String(), b.Life.String()))
	})
	return out
}

func pathStatus(p paths.Path, now time.Time) PathStatus {
	s := PathStatus{Peer: p.Peer, State: PathStandby, Hops: p.Hops, End: rhumb.NoOffset, Floor: p.Floor, Since: p.At}
	if p.Asked {
		s.End = p.Head - 1
	}
	if p.Hops >= paths.Far {
		s.Hops = 0
	}
	switch {
	case !p.Up:
		s.State = PathDown
	case p.Used:
		s.State = PathUsed
	case now.Before(p.Rest):
		s.State = PathStalled
	}
	return s
}

// markHere gives this region's watermark of a life, as it is applied.
func (m *Manager) markHere(ref rhumb.PartitionRef, origin rhumb.RegionNumber, life rhumb.Life) rhumb.Offset {
	st, ok := m.cfg.Region.Glance(ref)
	if !ok {
		return math.MaxInt64
	}
	w, ok := markOf(&st, origin, life)
	if !ok {
		return rhumb.NoOffset
	}
	return w.Offset
}

// elsewhere is the result of a message that was not given to the region, since the
// life is to come over another path.
func elsewhere(why string) linkResult { return linkResult{Err: &elsewhereError{why}} }

type elsewhereError struct{ why string }

func (e *elsewhereError) Error() string { return e.why }

// codeElsewhere tells such a result from those of the region.
func codeElsewhere(err error) (wire.Code, string) {
	if e, ok := err.(*elsewhereError); ok {
		return wire.CodeElsewhere, e.why
	}
	return wire.CodeNone, ""
}

// leave ends a session since its life comes over another path.
func (r *receiver) leave(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machine.Close(wire.CodeElsewhere, why)
	r.perform()
}

// skip gives a skip to the region, unless it leaves out what another path may still
// have.
func (r *receiver) skip(s linkSkip, answered func(linkResult)) {
	m := r.lane.in.conn.m
	// What its origin's operator skips is skipped, whoever has it.
	skipped := s.Reason == rhumb.ReasonSkipped && s.Region == r.lane.in.conn.link.number ||
		s.Reason == rhumb.ReasonDiverged // so is what its operator leaves of a copy that differs
	if dedup.RaisesFloor(s.Reason) && !skipped {
		if final, why := m.origins.floor(r, s.To, m.markHere(r.ref, s.Region, s.Life), time.Now()); !final {
			answered(elsewhere(why))
			return
		}
	}
	m.cfg.Region.SkipLink(r.ref, s, answered)
}
