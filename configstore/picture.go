package configstore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Problem says what of the store is not in force, and why.
type Problem struct {
	Key    string
	Reason string
}

// picture is what a View shows: decoded documents and the edges that follow from
// them. It is never changed once published; apply makes the next one.
type picture struct {
	mesh       Mesh
	regions    map[rhumb.RegionName]Region // tombstones too
	tenants    map[rhumb.Tenant]Tenant     // the others without tombstones
	namespaces map[namespaceName]Namespace
	topics     map[rhumb.Topic]Topic
	users      map[rhumb.UserName]User

	// Derived by link.
	sorted  []Region // registered, by number
	owners  map[rhumb.RegionNumber]Owner
	edges   []Edge
	active  map[namespaceName]rhumb.RegionName // of namespaces with roles
	dropped []Problem                          // what the documents say of regions that it cannot be said of
}

type namespaceName struct {
	tenant rhumb.Tenant
	name   rhumb.Namespace
}

func newPicture() *picture {
	return &picture{
		regions: map[rhumb.RegionName]Region{}, tenants: map[rhumb.Tenant]Tenant{},
		namespaces: map[namespaceName]Namespace{}, topics: map[rhumb.Topic]Topic{}, users: map[rhumb.UserName]User{},
	}
}

// clone gives a picture that put may change.
func (p *picture) clone() *picture {
	return &picture{
		mesh: p.mesh, regions: maps.Clone(p.regions), tenants: maps.Clone(p.tenants),
		namespaces: maps.Clone(p.namespaces), topics: maps.Clone(p.topics), users: maps.Clone(p.users),
	}
}

// put takes one document, or refuses it and changes nothing. A key of a kind
// that this version does not know is kept by the View and means nothing here.
func (p *picture) put(d Document) error {
	name, err := parseKey(d.Key)
	if err != nil {
		return err
	}
	switch name.kind {
	case kindMesh:
		m, err := checked[Mesh](d, func(m *Mesh) error { return m.validate(nil) })
		if err != nil {
			return err
		}
		p.mesh = m
	case kindRegion:
		r, err := checked[Region](d, func(r *Region) error { return r.validate(nil) })
		if err != nil {
			return err
		}
		p.regions[r.Name] = r
	case kindTenant:
		t, err := checked[Tenant](d, (*Tenant).validate)
		if err != nil {
			return err
		}
		putOrRemove(p.tenants, t.Name, t, t.Deleted)
	case kindNamespace:
		n, err := checked[Namespace](d, (*Namespace).validate)
		if err != nil {
			return err
		}
		putOrRemove(p.namespaces, namespaceName{n.Tenant, n.Name}, n, n.Deleted)
	case kindTopic:
		t, err := checked[Topic](d, func(t *Topic) error { return t.validate(nil) })
		if err != nil {
			return err
		}
		p.topics[t.Topic] = t
	case kindUser:
		u, err := checked[User](d, (*User).validate)
		if err != nil {
			return err
		}
		putOrRemove(p.users, u.Name, u, u.Deleted)
	}
	return nil
}

func checked[T any, P pointerTo[T]](d Document, validate func(*T) error) (T, error) {
	v, _, err := decode[T, P](d)
	if err != nil {
		return v, err
	}
	return v, inDocument(d.Key, validate(&v))
}

func putOrRemove[K comparable, V any](m map[K]V, key K, v V, remove bool) {
	if remove {
		delete(m, key)
		return
	}
	m[key] = v
}

// link derives regions by number and edges. An edge that the regions and tenants
// of this picture do not allow is dropped with a problem, whatever the namespace
// says (I4): its neighbours stay (G50).
func (p *picture) link() {
	live := make(map[rhumb.RegionName]Region, len(p.regions))
	p.owners = make(map[rhumb.RegionNumber]Owner, len(p.regions))
	p.active = map[namespaceName]rhumb.RegionName{}
	for _, r := range sortedValues(p.regions, func(a, b Region) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	}) {
		if owner, taken := p.owners[r.Number]; taken {
			p.dropped = append(p.dropped, Problem{RegionKey(r.Name), "its number belongs to region " + string(owner.Name)})
			continue
		}
		for _, o := range r.owners() {
			if _, taken := p.owners[o.Number]; !taken {
				p.owners[o.Number] = o
			}
		}
		if !r.Deleted {
			live[r.Name] = r
			p.sorted = append(p.sorted, r)
		}
	}
	for _, n := range sortedValues(p.namespaces, func(a, b Namespace) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	}) {
		edges, err := Compile(&n)
		p.linkEdges(NamespaceKey(n.Tenant, n.Name), n.Tenant, edges, live, err)
		if active := n.Active(); active != "" {
			p.active[namespaceName{n.Tenant, n.Name}] = active
		}
	}
	p.linkTopics(live)
	slices.SortFunc(p.edges, compareEdges)
}

// linkTopics adds the edges of topics with a topology of their own, whose
// namespace is there.
func (p *picture) linkTopics(live map[rhumb.RegionName]Region) {
	var own []Topic
	for _, t := range p.topics {
		if _, there := p.namespaces[namespaceName{t.Topic.Tenant, t.Topic.Namespace}]; there && t.Topology != nil {
			own = append(own, t)
		}
	}
	slices.SortFunc(own, func(a, b Topic) int { return compareKeys(&a, &b) })
	for _, t := range own {
		edges, err := CompileTopic(&t)
		p.linkEdges(TopicKey(t.Topic), t.Topic.Tenant, edges, live, err)
	}
}

// linkEdges adds the edges of a document, as far as its tenant and the registered
// regions allow them.
func (p *picture) linkEdges(key string, tenant rhumb.Tenant, edges []Edge, live map[rhumb.RegionName]Region, err error) {
	if err != nil { // put refuses such documents
		p.dropped = append(p.dropped, Problem{key, err.Error()})
		return
	}
	a := allowances{Regions: live}
	if t, ok := p.tenants[tenant]; ok {
		a.Tenant = &t
	}
	told := map[string]bool{}
	for _, e := range edges {
		why := cmp.Or(a.refusal(e.From), a.refusal(e.To))
		if why == "" {
			p.edges = append(p.edges, e)
		} else if !told[why] {
			told[why] = true
			p.dropped = append(p.dropped, Problem{key, "some edges are left out: " + why})
		}
	}
}

func sortedValues[K comparable, V any](m map[K]V, compare func(a, b V) int) []V {
	return slices.SortedFunc(maps.Values(m), compare)
}
