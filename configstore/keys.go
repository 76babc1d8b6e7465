package configstore

import (
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Prefix is the root of all documents of this format.
const Prefix = "rhumb/v1/"

// Key prefixes of the kinds of documents, for [Store.List].
const (
	MeshKey          = Prefix + "mesh"
	RegionsPrefix    = Prefix + "regions/"
	TenantsPrefix    = Prefix + "tenants/"
	NamespacesPrefix = Prefix + "namespaces/"
	TopicsPrefix     = Prefix + "topics/"
	UsersPrefix      = Prefix + "users/"
)

// RegionKey gives the key of a region's document.
func RegionKey(name rhumb.RegionName) string { return RegionsPrefix + string(name) }

// TenantKey gives the key of a tenant's document.
func TenantKey(t rhumb.Tenant) string { return TenantsPrefix + string(t) }

// NamespaceKey gives the key of a namespace's document.
func NamespaceKey(t rhumb.Tenant, ns rhumb.Namespace) string {
	return NamespacesPrefix + string(t) + "/" + string(ns)
}

// TopicKey gives the key of a topic's document.
func TopicKey(t rhumb.Topic) string {
	return TopicsPrefix + string(t.Tenant) + "/" + string(t.Namespace) + "/" + string(t.Name)
}

// UserKey gives the key of a user's document. A user that is named after a
// namespace has a key of two elements.
func UserKey(name rhumb.UserName) string { return UsersPrefix + string(name) }

// docKind tells documents apart by their place in the tree.
type docKind uint8

const (
	kindUnknown docKind = iota
	kindMesh
	kindRegion
	kindTenant
	kindNamespace
	kindTopic
	kindUser
)

// keyName is a parsed key: its kind and the one to three names in it.
type keyName struct {
	kind  docKind
	parts [3]string
}

func (k keyName) region() rhumb.RegionName   { return rhumb.RegionName(k.parts[0]) }
func (k keyName) tenant() rhumb.Tenant       { return rhumb.Tenant(k.parts[0]) }
func (k keyName) namespace() rhumb.Namespace { return rhumb.Namespace(k.parts[1]) }

func (k keyName) user() rhumb.UserName {
	return rhumb.UserName(strings.TrimSuffix(k.parts[0]+"/"+k.parts[1], "/"))
}

func (k keyName) topic() rhumb.Topic {
	return rhumb.Topic{Tenant: k.tenant(), Namespace: k.namespace(), Name: rhumb.TopicName(k.parts[2])}
}

var keyKinds = []struct {
	prefix string
	kind   docKind
	names  int
	orMore int // names at most, where that differs
}{
	{RegionsPrefix, kindRegion, 1, 0},
	{TenantsPrefix, kindTenant, 1, 0},
	{NamespacesPrefix, kindNamespace, 2, 0},
	{TopicsPrefix, kindTopic, 3, 0},
	{UsersPrefix, kindUser, 1, 2},
}

// parseKey reads a key. A key of a kind that this version does not know is of
// kindUnknown without an error: a newer version may have written it.
func parseKey(key string) (keyName, error) {
	if key == MeshKey {
		return keyName{kind: kindMesh}, nil
	}
	for _, k := range keyKinds {
		rest, ok := strings.CutPrefix(key, k.prefix)
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		if len(parts) < k.names || len(parts) > max(k.names, k.orMore) {
			return keyName{}, rhumb.Errorf(rhumb.KindInvalid, "configstore: key %q: want %d names after %s", key, k.names, k.prefix)
		}
		n := keyName{kind: k.kind}
		copy(n.parts[:], parts)
		if err := n.validate(); err != nil {
			return keyName{}, rhumb.Errorf(rhumb.KindInvalid, "configstore: key %q: %w", key, err)
		}
		return n, nil
	}
	return keyName{}, CheckKey(key)
}

func (k keyName) validate() error {
	switch k.kind {
	case kindRegion:
		return k.region().Validate()
	case kindTenant:
		return k.tenant().Validate()
	case kindNamespace:
		if err := k.tenant().Validate(); err != nil {
			return err
		}
		return k.namespace().Validate()
	case kindTopic:
		return k.topic().Validate()
	case kindUser:
		return k.user().Validate()
	}
	return nil
}

// MaxKeyBytes bounds a key: the longest legal one is a topic's, with names of
// 64, 64 and 249 bytes.
const MaxKeyBytes = 512

// CheckKey reports whether a backend may store a document under the key: it lies
// under [Prefix], and its elements are of [A-Za-z0-9._-], not empty, "." or "..".
func CheckKey(key string) error {
	rest, ok := strings.CutPrefix(key, Prefix)
	if !ok || len(key) > MaxKeyBytes {
		return rhumb.Errorf(rhumb.KindInvalid, "configstore: key %q must start with %s and have at most %d bytes", key, Prefix, MaxKeyBytes)
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, illegalInKey) {
			return rhumb.Errorf(rhumb.KindInvalid, "configstore: key %q: element %q must be of [A-Za-z0-9._-]", key, part)
		}
	}
	return nil
}

func illegalInKey(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}
