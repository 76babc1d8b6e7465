package broker

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Names is what the mesh knows of topics by their names: how often each was
// deleted, and the settings that are the same in all regions.
type Names interface {
	// Travels reports whether the topic's namespace flows to or from this region.
	Travels(rhumb.Topic) bool
	// Scope says how far a topic's deletion reaches if nobody says otherwise, and
	// whether links may bring the topic back that is deleted here alone.
	Scope(rhumb.Topic) (scope configstore.Scope, shared bool)
	// DeleteLife tells the mesh that the topic that was born under a count is
	// deleted, and gives the count above it. Kind unavailable if the configuration
	// store is down.
	DeleteLife(ctx context.Context, t rhumb.Topic, born uint64) (uint64, error)
	// Document gives the topic's document as far as it is known here.
	Document(rhumb.Topic) configstore.Topic
	// Latest brings what is known here of a topic up to date, if the store answers
	// soon. What it cannot find out is no error: a region works without the store.
	Latest(context.Context, rhumb.Topic)
	// Change changes the topic's document by compare-and-set. Kind unavailable if the
	// configuration store is down.
	Change(ctx context.Context, t rhumb.Topic, edit func(*configstore.Topic) error) (configstore.Topic, error)
	// Subscribe has fn called after each change. fn does not block.
	Subscribe(fn func()) (cancel func())
}

// latestWait is how long a client's request waits for the configuration store where
// it goes on without. Where it cannot, [configstore.Writer] bounds the wait.
const latestWait = 2 * time.Second

var _ Names = Mesh{}

// Travels implements [Names].
func (m Mesh) Travels(t rhumb.Topic) bool { return m.View.Flows(t, m.Self) }

// Scope implements [Names]. A topic of a namespace that has a topology may be in
// other regions, whatever flows now.
func (m Mesh) Scope(t rhumb.Topic) (scope configstore.Scope, shared bool) {
	ns, _ := m.View.Namespace(t.Tenant, t.Namespace)
	if !m.Travels(t) {
		return configstore.ScopeRegion, ns.Topology != nil
	}
	return ns.Deletes(), true
}

// DeleteLife implements [Names].
func (m Mesh) DeleteLife(ctx context.Context, t rhumb.Topic, born uint64) (uint64, error) {
	count, err := m.writer().DeleteLife(ctx, t, born)
	return count, needsStore(err, "deleting a topic in the whole mesh")
}

// Document implements [Names].
func (m Mesh) Document(t rhumb.Topic) configstore.Topic {
	doc, _ := m.View.TopicDoc(t)
	return doc
}

// Latest implements [Names].
func (m Mesh) Latest(ctx context.Context, t rhumb.Topic) {
	if m.View.Status().State != configstore.StateCurrent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, latestWait)
	defer cancel()
	if v, err := m.View.TopicVersion(ctx, t); err == nil && v > m.Document(t).Version {
		_ = m.View.Refresh(ctx) // the view's status has the error
	}
}

// Change implements [Names].
func (m Mesh) Change(ctx context.Context, t rhumb.Topic, edit func(*configstore.Topic) error) (configstore.Topic, error) {
	doc, err := m.writer().PutTopic(ctx, t, edit)
	return doc, needsStore(err, "changing what a topic is in all regions")
}

// Subscribe implements [Names].
func (m Mesh) Subscribe(fn func()) (cancel func()) { return m.View.Subscribe(fn) }

func (m Mesh) writer() *configstore.Writer { return m.View.Writer("region " + string(m.Self)) }

// needsStore says of an error of the store, as far as it may pass, what could not
// be done and when to try again.
func needsStore(err error, what string) error {
	switch {
	case errors.Is(err, configstore.ErrMaybeStored):
		return rhumb.Errorf(rhumb.KindTimeout, "%s needs the configuration store: %w", what, err)
	case errors.Is(err, context.DeadlineExceeded):
		return rhumb.Errorf(rhumb.KindTimeout, "%s needs the configuration store, which did not answer in the time of the request: %w", what, err)
	}
	switch rhumb.KindOf(err) {
	case rhumb.KindUnavailable, rhumb.KindTimeout:
		return rhumb.Errorf(rhumb.KindUnavailable, "%s needs the configuration store, which does not answer; nothing was changed here, try again when it does: %w", what, err)
	}
	return err
}

// document gives what the mesh says of a topic that is here, false if it says
// nothing of this life of it.
func (b *Broker) document(t *TopicInfo) (configstore.Topic, bool) {
	if b.cfg.Names == nil {
		return configstore.Topic{}, false
	}
	doc := b.cfg.Names.Document(t.Topic)
	return doc, doc.Version > 0 && doc.Deletions == t.Deletions
}

// ofMesh reports whether a topic's settings are the mesh's: those of a topic that is
// in several regions are, and stay it once they were.
func (b *Broker) ofMesh(t *TopicInfo) bool {
	if b.cfg.Names == nil {
		return false
	}
	doc, known := b.document(t)
	return known && doc.Configs != nil || b.cfg.Names.Travels(t.Topic) && doc.Deletions == t.Deletions
}

// TopicInMesh reports whether a topic's own settings are the mesh's, the same in all
// regions, and gives the version of its document, 0 if it has none.
func (b *Broker) TopicInMesh(t *TopicInfo) (version uint64, ofMesh bool) {
	doc, _ := b.document(t)
	return doc.Version, b.ofMesh(t)
}

// alterInMesh changes a topic's settings in the mesh's document and then here; the
// other regions follow. The first change of a topic starts from what this region has.
func (b *Broker) alterInMesh(ctx context.Context, t *TopicInfo, change func(map[string]string) (map[string]string, error)) error {
	doc, err := b.cfg.Names.Change(ctx, t.Topic, func(d *configstore.Topic) error {
		have, ok := b.region.Topic(t.Topic)
		if !ok || d.Deletions != have.Deletions {
			return rhumb.Errorf(rhumb.KindNotFound, "The topic '%s' does not exist.", t.Topic.Short())
		}
		if d.Configs == nil {
			d.Configs = have.Configs
		}
		after, err := change(d.Configs)
		if err != nil {
			return err
		}
		d.Configs = noted(after)
		return nil
	})
	if err != nil {
		return err
	}
	return b.takeConfigs(ctx, t.Topic, doc.Configs)
}

// noted gives settings that a document holds, also if there are none: that is
// another thing than that nobody ever set one.
func noted(configs map[string]string) map[string]string {
	if configs == nil {
		return map[string]string{}
	}
	return configs
}

// takeConfigs gives a topic of this region the mesh's settings.
func (b *Broker) takeConfigs(ctx context.Context, t rhumb.Topic, configs map[string]string) error {
	_, err := b.region.AlterTopicConfigs(ctx, t, func(map[string]string) (map[string]string, error) { return maps.Clone(configs), nil })
	return err
}

// publish makes what this region has of a topic's settings the mesh's, unless the
// mesh has some: the first region that tells wins.
func (b *Broker) publish(ctx context.Context, t *TopicInfo) error {
	_, err := b.cfg.Names.Change(ctx, t.Topic, func(d *configstore.Topic) error {
		if d.Configs == nil && d.Deletions == t.Deletions {
			d.Configs = maps.Clone(t.Configs)
		}
		return nil
	})
	return err
}

// freshen looks what the mesh says of a topic that is about to be made: one that was
// deleted in another region a moment ago is deleted here first, so that it is not
// taken for what is made now, and what is made now is not deleted with it.
func (b *Broker) freshen(ctx context.Context, t rhumb.Topic) error {
	if b.cfg.Names == nil || !b.cfg.Names.Travels(t) {
		return nil
	}
	b.cfg.Names.Latest(ctx, t)
	have, ok := b.region.Topic(t)
	if !ok {
		return nil
	}
	_, err := b.deletedInMesh(ctx, &have)
	return err
}

// asInMesh gives what is about to be made the deletion count that its name has,
// and what the mesh says of a topic of that count.
func (b *Broker) asInMesh(spec TopicSpec) TopicSpec {
	spec.Deletions = max(spec.Deletions, b.region.Deletions(spec.Topic))
	if b.cfg.Names == nil {
		return spec
	}
	doc := b.cfg.Names.Document(spec.Topic)
	spec.Deletions = max(spec.Deletions, doc.Deletions)
	if doc.Deletions == spec.Deletions {
		spec.Partitions = max(spec.Partitions, doc.Partitions)
		if doc.Configs != nil {
			spec.Configs = maps.Clone(doc.Configs)
		}
	}
	return spec
}
