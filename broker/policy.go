package broker

import (
	"context"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// retryFollow is how long a deletion that failed waits for its next try.
const retryFollow = time.Second

// Policy decides what the mesh's documents allow in this region.
type Policy interface {
	// CheckTopic gives an error of kind forbidden or not found if no such topic
	// may exist in this region.
	CheckTopic(rhumb.Topic) error
}

// Deletions is the mesh's count of deletions of each topic.
type Deletions interface {
	// CountDeletion tells the mesh of a deletion, if the topic's deletion concerns
	// it, and gives the deletion count that is above born. Kind unavailable if the
	// configuration store is down.
	CountDeletion(ctx context.Context, t rhumb.Topic, born uint64) (uint64, error)
	// Deletions gives the deletion count that the mesh knows of a topic.
	Deletions(rhumb.Topic) uint64
	// Subscribe has fn called after each change. fn does not block.
	Subscribe(fn func()) (cancel func())
}

// Mesh is the Policy and the Deletions of a region that follows a configuration store.
type Mesh struct {
	View *configstore.View
	Self rhumb.RegionName
}

var (
	_ Policy    = Mesh{}
	_ Deletions = Mesh{}
)

// CheckTopic implements [Policy]: tenant and namespace must exist, and the tenant
// must be allowed in this region. public/default exists everywhere.
func (m Mesh) CheckTopic(t rhumb.Topic) error {
	tenant, ok := m.View.Tenant(t.Tenant)
	if ok && !tenant.Allows(m.Self) {
		return rhumb.Errorf(rhumb.KindForbidden, "tenant %s is not allowed in region %s", t.Tenant, m.Self)
	}
	if t.Tenant == rhumb.DefaultTenant && t.Namespace == rhumb.DefaultNamespace {
		return nil
	}
	if _, has := m.View.Namespace(t.Tenant, t.Namespace); !ok || !has {
		return rhumb.Errorf(rhumb.KindNotFound, "namespace %s/%s does not exist", t.Tenant, t.Namespace)
	}
	return nil
}

// CountDeletion implements [Deletions]. A topic of a namespace that flows to or from
// this region, and whose deletions reach the mesh, is deleted in the store first,
// so that no neighbour's backlog fills it again.
func (m Mesh) CountDeletion(ctx context.Context, t rhumb.Topic, born uint64) (uint64, error) {
	ns, _ := m.View.Namespace(t.Tenant, t.Namespace)
	flows := slices.ContainsFunc(m.View.Edges(), func(e configstore.Edge) bool {
		return e.Tenant == t.Tenant && e.Namespace == t.Namespace && (e.From == m.Self || e.To == m.Self)
	})
	if !flows || ns.Deletes() != configstore.ScopeMesh {
		return max(born, m.Deletions(t)) + 1, nil
	}
	w := m.View.Writer("region " + string(m.Self))
	for {
		// A deletion of this region alone may have brought its count above the mesh's.
		count, err := w.CountDeletion(ctx, t)
		if err != nil || count > born {
			return count, err
		}
	}
}

// Deletions implements [Deletions].
func (m Mesh) Deletions(t rhumb.Topic) uint64 {
	doc, _ := m.View.TopicDoc(t)
	return doc.Deletions
}

// Subscribe implements [Deletions].
func (m Mesh) Subscribe(fn func()) (cancel func()) { return m.View.Subscribe(fn) }

// CatchUp deletes topics that the mesh has deleted while this region was away. It
// returns when none is left, or with the error of ctx: what fails is tried again.
// Call it when the region is ready and before clients come, so that no topic that is
// gone takes a write.
func (b *Broker) CatchUp(ctx context.Context) error {
	for {
		err := b.deleteDeleted(ctx)
		if err == nil {
			return nil
		}
		b.log.Warn("deletion of a topic is tried again", "err", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryFollow):
		}
	}
}

// Follow deletes topics that the mesh has deleted, until ctx ends: now, after each
// change of the mesh's counts, and soon after each change of the region's topics,
// since one may have been made under a count that was just passed. What fails is
// tried again. Call it when the region is ready.
func (b *Broker) Follow(ctx context.Context) error {
	counted, made := newFlag(), newFlag()
	defer b.cfg.Deletions.Subscribe(counted.set)()
	defer b.region.Subscribe(made.set)()
	for {
		var retry <-chan time.Time
		if err := b.deleteDeleted(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("deletion of a topic is tried again", "err", err)
			retry = time.After(retryFollow)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-counted:
		case <-retry:
		case <-made:
			// Thousands of topics may be made one after the other; do not look at
			// all of them for each.
			select {
			case <-ctx.Done():
				return nil
			case <-counted:
			case <-time.After(retryFollow):
			}
		}
	}
}

// flag tells that something happened, once or often.
type flag chan struct{}

func newFlag() flag { return make(flag, 1) } // one change or many are the same

func (f flag) set() {
	select {
	case f <- struct{}{}:
	default:
	}
}

func (b *Broker) deleteDeleted(ctx context.Context) error {
	for _, t := range b.region.Topics() {
		if count := b.cfg.Deletions.Deletions(t.Topic); count > t.Deletions {
			if err := b.region.DeleteTopic(ctx, t.Topic, count); err != nil {
				return err
			}
			b.log.Info("topic deleted by the mesh", "topic", t.Topic.String(), "deletions", count)
		}
	}
	return nil
}
