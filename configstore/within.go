package configstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Within gives a Writer for who administers some tenants and not the mesh. It changes
// namespaces of these tenants and what their topics have of their own, nothing else;
// and not what an admin of the mesh has bounded in them: limits and rates may fall,
// not grow or go. What it refuses is of kind forbidden.
func (w *Writer) Within(tenants ...rhumb.Tenant) *Writer {
	scoped := *w
	scoped.within = make(map[rhumb.Tenant]bool, len(tenants))
	for _, t := range tenants {
		scoped.within[t] = true
	}
	return &scoped
}

// mayWrite refuses documents that a Writer within tenants does not change.
func (w *Writer) mayWrite(name keyName) error {
	if w.within == nil {
		return nil
	}
	switch name.kind {
	case kindNamespace, kindTopic:
		if w.within[name.tenant()] {
			return nil
		}
		return rhumb.Errorf(rhumb.KindForbidden, "configstore: tenant %s is not yours to change", name.tenant())
	}
	return rhumb.Errorf(rhumb.KindForbidden, "configstore: only an admin of the mesh changes tenants, regions and users")
}

// forbidden makes a refusal of what only an admin of the mesh may do.
func forbidden(field, format string, args ...any) error {
	return &rhumb.Error{Kind: rhumb.KindForbidden, Err: &FieldError{Field: field, Reason: fmt.Sprintf(format, args...) + ": only an admin of the mesh may do that"}}
}

// keepsBounds refuses a namespace which lifts what bounds the one before it. nil:
// there was none. Both are valid.
func (n *Namespace) keepsBounds(old *Namespace) error {
	if old == nil {
		return nil
	}
	most, rates := old.PartitionLimit(), ratesOf(old.Topology)
	switch {
	case n.Deleted && (most > 0 || rates.most > 0):
		return forbidden("deleted", "deletes a namespace with limits or a rate, which would be gone with it")
	case n.Deleted:
		return nil
	case most > 0 && (n.PartitionLimit() == 0 || n.PartitionLimit() > most):
		return forbidden("limits.partitions", "is more than the %d that it was", most)
	}
	return rates.keptBy(n.Topology, true)
}

// rates are how fast the edges of a topology may go, in bytes per second; 0: no limit.
type rates struct {
	edges map[ends]int64
	most  int64 // the highest that stands in it, also without an edge; 0: none does
}

type ends struct{ from, to rhumb.RegionName }

// ratesOf gives those of a valid topology, or of none.
func ratesOf(t *Topology) rates {
	r := rates{edges: map[ends]int64{}}
	if t == nil {
		return r
	}
	r.most = t.Rate.bytes()
	for _, e := range t.compile() {
		r.edges[ends{e.From, e.To}] = e.Rate
		r.most = max(r.most, e.Rate)
	}
	return r
}

// keptBy refuses a topology with edges that are faster. Where a rate stands, an edge
// that is new needs one, too, of at most the highest; and with some, the new topology
// must say one, also if it has no edges: what comes after it would know of none.
func (r rates) keptBy(t *Topology, some bool) error {
	if r.most == 0 {
		return nil
	}
	next := ratesOf(t)
	if some && next.most == 0 {
		return forbidden("topology.rate", "is left out, and was %d bytes per second", r.most)
	}
	for e, rate := range next.edges {
		most, there := r.edges[e]
		if !there {
			most = r.most
		}
		if most > 0 && (rate == 0 || rate > most) {
			return forbidden("topology", "lets the edge %s -> %s go faster than %d bytes per second", e.from, e.to, most)
		}
	}
	if next.most > r.most {
		return forbidden("topology.rate", "is more than %d bytes per second", r.most)
	}
	return nil
}

// keepsTopicBounds refuses a topology of a topic's own whose edges are faster than
// those of its namespace, or than those that the topic had.
func (w *Writer) keepsTopicBounds(ctx context.Context, t, old *Topic) error {
	space, err := getAs[Namespace](ctx, w.store, NamespaceKey(t.Topic.Tenant, t.Topic.Namespace))
	if errors.Is(err, ErrNotFound) {
		space = &Namespace{}
	} else if err != nil {
		return err
	}
	return topicKeepsRates(space, t, old)
}

func topicKeepsRates(space *Namespace, t, old *Topic) error {
	after := space.Topology
	if t.Topology != nil {
		after = t.Topology
		if err := ratesOf(space.Topology).keptBy(after, false); err != nil {
			return err
		}
	}
	if old == nil || old.Topology == nil {
		return nil
	}
	return ratesOf(old.Topology).keptBy(after, true)
}

// mayPlan refuses a plan that a Writer within tenants must not make. Errors name
// fields of the file.
func (w *Writer) mayPlan(now, next *picture, f *TopologyFile, prune bool) error {
	if w.within == nil {
		return nil
	}
	if prune {
		return rhumb.Errorf(rhumb.KindForbidden, "configstore: only an admin of the mesh prunes: what a file does not name may be another tenant's")
	}
	var r refusals
	for _, t := range sortedValues(f.Tenants, func(x, y FileTenant) int { return cmp.Compare(x.Name, y.Name) }) {
		name := t.Name
		before, there := now.tenants[name]
		after := next.tenants[name]
		switch {
		case !w.within[name]:
			r.add(forbidden(tenantPath(name), "is not yours"))
			continue
		case !there, len(fieldChanges(documentFields(true, &before), documentFields(true, &after))) > 0:
			r.add(forbidden(tenantPath(name), "changes what the tenant itself is (allowed_regions, admin_roles)"))
		}
		for _, n := range sortedValues(t.Namespaces, func(x, y FileNamespace) int { return cmp.Compare(x.Name, y.Name) }) {
			at := namespaceName{n.Tenant, n.Name}
			was, there := now.namespaces[at]
			will := next.namespaces[at]
			old := &was
			if !there {
				old = nil
			}
			r.add(under(namespacePath(n.Tenant, n.Name), will.keepsBounds(old)))
			for _, topic := range sortedValues(n.Topics, func(x, y Topic) int { return compareKeys(&x, &y) }) {
				had, topicWill := now.topics[topic.Topic], next.topics[topic.Topic]
				r.add(under(topicPath(topic.Topic), topicKeepsRates(&will, &topicWill, &had)))
			}
		}
	}
	return r.err()
}
