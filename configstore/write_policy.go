package configstore

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// PutTenant creates or changes a tenant. It refuses to take a region away that
// one of the tenant's namespaces names. A region that was removed it may go on
// allowing.
func (w *Writer) PutTenant(ctx context.Context, name rhumb.Tenant, edit func(*Tenant) error) (Tenant, error) {
	return apply(ctx, w, change[Tenant]{key: TenantKey(name), edit: edit, check: func(ctx context.Context, t, old *Tenant) error {
		if err := t.validate(); err != nil {
			return err
		}
		return w.checkTenant(ctx, t, old)
	}})
}

func (w *Writer) checkTenant(ctx context.Context, t, old *Tenant) error {
	regions, err := w.regions(ctx)
	if err != nil {
		return err
	}
	var wrong refusals
	for i, r := range t.AllowedRegions {
		if _, ok := regions[r]; !ok && !(old != nil && slices.Contains(old.AllowedRegions, r)) {
			wrong.add(invalid("allowed_regions["+strconv.Itoa(i)+"]", "region %q is not registered%s", string(r), nearestRegion(r, regions)))
		}
	}
	if err := wrong.err(); err != nil {
		return err
	}
	if err := w.checkTenantTopics(ctx, t); err != nil {
		return err
	}
	spaces, err := listAs[Namespace](ctx, w.store, NamespacesPrefix+string(t.Name)+"/")
	if err != nil {
		return err
	}
	for _, ns := range spaces {
		if ns.Deleted {
			continue
		}
		if t.Deleted {
			return invalid("deleted", "namespace %s/%s is still there: delete the tenant's namespaces first, with 'rhumb namespace delete'", ns.Tenant, ns.Name)
		}
		for _, p := range ns.places() {
			if !t.Allows(p.region) {
				return invalid("allowed_regions", "namespace %s/%s names region %q", ns.Tenant, ns.Name, string(p.region))
			}
		}
	}
	return nil
}

// checkTenantTopics refuses to take a region away that a topic names.
func (w *Writer) checkTenantTopics(ctx context.Context, t *Tenant) error {
	if t.AllowedRegions == nil || t.Deleted {
		return nil
	}
	topics, err := listAs[Topic](ctx, w.store, TopicsPrefix+string(t.Name)+"/")
	if err != nil {
		return err
	}
	for _, topic := range topics {
		for _, p := range topic.Topology.places() {
			if !t.Allows(p.region) {
				return invalid("allowed_regions", "topic %s names region %q", pathOf(topic.Topic), string(p.region))
			}
		}
	}
	return nil
}

// PutNamespace creates or changes a namespace. Its topology may name only regions
// that are registered and that its tenant, which must exist, allows; a region that
// was removed it may go on naming where it does. Its generation grows when its active
// region changes.
func (w *Writer) PutNamespace(ctx context.Context, t rhumb.Tenant, ns rhumb.Namespace, edit func(*Namespace) error) (Namespace, error) {
	return apply(ctx, w, change[Namespace]{key: NamespaceKey(t, ns), edit: func(n *Namespace) error {
		active, generation := n.Active(), n.Generation
		if n.Version == 0 {
			var err error
			if generation, err = w.buriedGeneration(ctx, NamespaceKey(t, ns)); err != nil {
				return err
			}
		}
		if err := edit(n); err != nil {
			return err
		}
		return n.settleGeneration(active, generation)
	}, check: func(ctx context.Context, n, old *Namespace) error {
		if err := n.validate(); err != nil {
			return err
		}
		if w.within != nil {
			if err := n.keepsBounds(old); err != nil {
				return err
			}
		}
		if n.Deleted {
			return nil
		}
		return w.checkNamespace(ctx, n, old)
	}})
}

// buriedGeneration gives the generation of a namespace that was deleted, zero if
// there was none. If the tombstone changes after it, the put has a conflict.
func (w *Writer) buriedGeneration(ctx context.Context, key string) (uint64, error) {
	d, err := w.store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, _, err := decode[Namespace](d)
	return n.Generation, err
}

// settleGeneration gives an edited namespace its generation, from the active
// region and the generation that it had.
func (n *Namespace) settleGeneration(active rhumb.RegionName, had uint64) error {
	next := had
	if n.Active() != active {
		next++
	}
	if given := n.Generation; given != 0 && given != had && given != next {
		return invalid("generation", "is the store's to count: it is %d, not %d; leave it out", had, given)
	}
	n.Generation = next
	return nil
}

func (w *Writer) checkNamespace(ctx context.Context, n, old *Namespace) error {
	a, err := w.allowances(ctx, n.Tenant)
	if err != nil {
		return err
	}
	var had []place
	if old != nil {
		had = old.places()
	}
	return a.checkPlaces(n.Tenant, n.places(), had)
}

// allowances gives what the store knows of regions and of a tenant.
func (w *Writer) allowances(ctx context.Context, name rhumb.Tenant) (a allowances, err error) {
	if a.Regions, err = w.regions(ctx); err != nil {
		return a, err
	}
	if a.Tenant, err = getAs[Tenant](ctx, w.store, TenantKey(name)); errors.Is(err, ErrNotFound) {
		a.like, err = w.likeTenant(ctx, name)
	}
	return a, err
}

// likeTenant gives the tenants that may have been meant, as the end of a refusal: none to
// who may only know of some.
func (w *Writer) likeTenant(ctx context.Context, name rhumb.Tenant) (string, error) {
	if w.within != nil {
		return "", nil
	}
	all, err := listAs[Tenant](ctx, w.store, TenantsPrefix)
	all = slices.DeleteFunc(all, func(t Tenant) bool { return t.Deleted })
	return nearest.Hint(string(name), all, func(t *Tenant) string { return string(t.Name) }), err
}

// PutTopic creates or changes what a topic has of its own. The deletion count
// only grows ([Writer.CountDeletion]); partitions do not shrink; a new topology names
// only regions that are registered and that the tenant, which must exist, allows.
func (w *Writer) PutTopic(ctx context.Context, topic rhumb.Topic, edit func(*Topic) error) (Topic, error) {
	return apply(ctx, w, change[Topic]{key: TopicKey(topic), edit: edit, check: func(ctx context.Context, t, old *Topic) error {
		if err := t.validate(old); err != nil {
			return err
		}
		if w.within != nil {
			if err := w.keepsTopicBounds(ctx, t, old); err != nil {
				return err
			}
		}
		if t.Topology == nil || old != nil && reflect.DeepEqual(t.Topology, old.Topology) {
			return nil
		}
		a, err := w.allowances(ctx, topic.Tenant)
		if err != nil {
			return err
		}
		var had []place
		if old != nil {
			had = old.Topology.places()
		}
		return a.checkPlaces(topic.Tenant, t.Topology.places(), had)
	}})
}

// CountDeletion deletes a topic in the whole mesh: it raises the deletion count
// by one, forgets what the topic had of its own except policy (one that was kept
// local stays local when it is made again), and gives the new count. Lives that were born under a lower count are deleted by every region that sees it.
func (w *Writer) CountDeletion(ctx context.Context, topic rhumb.Topic) (uint64, error) {
	t, err := w.PutTopic(ctx, topic, func(t *Topic) error {
		*t = Topic{Meta: t.Meta, Topic: t.Topic, Deletions: t.Deletions + 1, Topology: t.Topology, Retention: t.Retention}
		return nil
	})
	return t.Deletions, err
}

// DeleteTenant writes a tenant's tombstone. It is refused while a namespace of
// the tenant exists.
func (w *Writer) DeleteTenant(ctx context.Context, name rhumb.Tenant) error {
	_, err := w.PutTenant(ctx, name, func(t *Tenant) error { return bury(&t.Meta, TenantKey(name)) })
	return err
}

// DeleteNamespace writes a namespace's tombstone: its edges end. No message is
// deleted by it, in any region.
func (w *Writer) DeleteNamespace(ctx context.Context, t rhumb.Tenant, ns rhumb.Namespace) error {
	_, err := w.PutNamespace(ctx, t, ns, func(n *Namespace) error { return bury(&n.Meta, NamespaceKey(t, ns)) })
	return err
}

// bury makes a tombstone of a document that is there.
func bury(m *Meta, key string) error {
	if m.Version == 0 {
		return NotFound(key)
	}
	m.Deleted = true
	return nil
}

// regions gives the registered regions.
func (w *Writer) regions(ctx context.Context) (map[rhumb.RegionName]Region, error) {
	all, err := listAs[Region](ctx, w.store, RegionsPrefix)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r Region) bool { return r.Deleted })
	out := make(map[rhumb.RegionName]Region, len(all))
	for _, r := range all {
		out[r.Name] = r
	}
	return out, nil
}
