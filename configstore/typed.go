package configstore

import (
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// typed is what the six kinds of documents have in common: *Mesh, *Region,
// *Tenant, *Namespace, *Topic and *User.
type typed interface {
	meta() *Meta
	named(keyName) // takes the names that are in the key
}

func (m *Meta) meta() *Meta { return m }

func (*Mesh) named(keyName)       {}
func (r *Region) named(k keyName) { r.Name = k.region() }
func (t *Tenant) named(k keyName) { t.Name = k.tenant() }
func (t *Topic) named(k keyName)  { t.Topic = k.topic() }
func (u *User) named(k keyName)   { u.Name = k.user() }
func (n *Namespace) named(k keyName) {
	n.Tenant, n.Name = k.tenant(), k.namespace()
}

// pointerTo says that P is *T and a typed document.
type pointerTo[T any] interface {
	*T
	typed
}

// decode reads a document into its Go type. Fields that it does not know come
// back as paths; those of features that this version lacks are refused.
func decode[T any, P pointerTo[T]](d Document) (T, []string, error) {
	var v T
	name, err := parseKey(d.Key)
	if err != nil {
		return v, nil, err
	}
	o, err := parseObject(d.JSON)
	if err != nil {
		return v, nil, rhumb.Errorf(rhumb.KindCorrupt, "configstore: document %s: %w", d.Key, err)
	}
	unknown, err := o.into(&v, shapeOf[T]())
	if err != nil {
		return v, nil, inDocument(d.Key, err)
	}
	P(&v).named(name)
	P(&v).meta().settleCaller()
	for _, path := range unknown {
		if why, ok := unbuiltFields[name.kind][withoutIndexes(path)]; ok && !d.Deleted {
			return v, nil, inDocument(d.Key, unbuilt(path, why))
		}
	}
	return v, unknown, nil
}

// encode makes the next version of a document: what v says of the fields that
// its type knows, what the old version says of all others.
func encode[T any, P pointerTo[T]](v P, old *Document, by string, at time.Time) (Document, error) {
	m := v.meta()
	m.Version, m.UpdatedAt, m.UpdatedBy = 1, at.UTC().Truncate(time.Millisecond), by
	kept := object{}
	if old != nil {
		m.Version = old.Version + 1
		var err error
		if kept, err = parseObject(old.JSON); err != nil {
			return Document{}, rhumb.Errorf(rhumb.KindCorrupt, "configstore: document %s: %w", old.Key, err)
		}
		if old.Deleted && !m.Deleted {
			kept = object{} // a new document under an old name starts afresh
		}
	}
	if m.UpdatedCaller.Name != "" {
		m.UpdatedCaller.Version = m.Version
	}
	fresh, err := objectOf(v)
	if err != nil {
		return Document{}, err
	}
	return documentOf(keyOf(v), merge(kept, fresh, shapeOf[T]()))
}

// keyOf gives the key of a typed document.
func keyOf(v typed) string {
	switch v := v.(type) {
	case *Region:
		return RegionKey(v.Name)
	case *Tenant:
		return TenantKey(v.Name)
	case *Namespace:
		return NamespaceKey(v.Tenant, v.Name)
	case *Topic:
		return TopicKey(v.Topic)
	case *User:
		return UserKey(v.Name)
	}
	return MeshKey
}

// unbuiltFields are fields of the design that this version lacks, each with the
// reason that a refusal gives.
var unbuiltFields = map[docKind]map[string]string{
	kindRegion: {
		"paused": "pausing a region is not supported by this version",
	},
	kindNamespace: {
		"edges":                    "belongs into topology: write topology.edges",
		"topology.rate_limit":      "is written topology.rate",
		"retention.hold_for_links": "is not supported by this version: retention does not wait for links",
		"ttl":                      "is not supported by this version: use retention.ms",
		"backlog_quota":            "is not supported by this version",
		"subscription_replication": "subscriptions do not travel between regions in this version",
		"compaction":               "is not supported by this version",
		"transactions":             "are not supported by this version",
		"confirm":                  "waiting for other regions is not supported by this version",
		"max_lag":                  "is not supported by this version",
		"roles":                    "are not supported by this version",
		"schema":                   "schemas are not supported by this version",
		"replicate_subscriptions":  "subscriptions do not travel between regions in this version",
		"fence_after":              "failover is not supported by this version",
		"drain_timeout":            "failover is not supported by this version",
	},
	kindTopic: {
		"regions": "settings per region are the namespace's in this version",
		"dedup":   "is the namespace's in this version",
		"ttl":     "is not supported by this version: use retention",
		"confirm": "waiting for other regions is not supported by this version",
	},
}

func compareKeys(a, b typed) int { return strings.Compare(keyOf(a), keyOf(b)) }
