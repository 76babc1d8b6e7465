package rhumb

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// RegionName is the operator's name of a region, such as "us".
type RegionName string

// RegionNumber identifies a region for ever: 1 to 32767, given once by the
// configuration store and never used again. Zero means no region.
type RegionNumber uint16

// MaxRegionNumber is the largest region number: producer ids carry it in their
// high 15 bits and must stay positive.
const MaxRegionNumber RegionNumber = 1<<15 - 1

// Tenant is the first part of a topic's name.
type Tenant string

// Namespace is the second part of a topic's name: the unit of policy.
type Namespace string

// TopicName is the last part of a topic's name, without its tenant and namespace.
type TopicName string

// IsURL reports whether a text that should name a directory names something on the
// network instead: it begins with a scheme, as https://host or consul://host does. Made
// as a directory it would be one called "https:".
func IsURL(text string) bool {
	scheme, rest, found := strings.Cut(text, ":")
	return found && len(scheme) > 1 && strings.HasPrefix(rest, "/") && !strings.ContainsFunc(scheme, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '+' && r != '-' && r != '.'
	})
}

// DefaultTenant and DefaultNamespace are what a bare Kafka topic name means.
const (
	DefaultTenant    Tenant    = "public"
	DefaultNamespace Namespace = "default"
)

// Topic names a topic completely. It is comparable and is used as a map key.
type Topic struct {
	Tenant    Tenant
	Namespace Namespace
	Name      TopicName
}

const persistentScheme = "persistent://"

// String gives the full name, persistent://tenant/namespace/topic.
func (t Topic) String() string {
	return persistentScheme + string(t.Tenant) + "/" + string(t.Namespace) + "/" + string(t.Name)
}

// Short gives the bare name for topics of public/default, the full name for others.
func (t Topic) Short() string {
	if t.Tenant == DefaultTenant && t.Namespace == DefaultNamespace {
		return string(t.Name)
	}
	return t.String()
}

var (
	regionPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	suffixPattern = regexp.MustCompile(`-partition-[0-9]+$`)
)

// Names of so many bytes are legal.
const (
	maxScope = 64
	maxTopic = 249
)

// legal reports whether a name is 1 to most of [A-Za-z0-9._-], and not "." or "..". It
// is asked of each topic in each request, where a regular expression was a twentieth of
// all work.
func legal(s string, most int) bool {
	if s == "" || len(s) > most || s == "." || s == ".." {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// isPartition reports whether a name ends in -partition-<n>.
func isPartition(s string) bool {
	if last := s[len(s)-1]; last < '0' || last > '9' { // most do not even end in a digit
		return false
	}
	return suffixPattern.MatchString(s)
}

// Validate reports whether the name is legal: [a-z][a-z0-9-]{0,31}.
func (n RegionName) Validate() error {
	if !regionPattern.MatchString(string(n)) {
		return Errorf(KindInvalid, "region name %q must match [a-z][a-z0-9-]{0,31}", string(n))
	}
	return nil
}

// Validate reports whether the number can belong to a region.
func (n RegionNumber) Validate() error {
	if n == 0 || n > MaxRegionNumber {
		return Errorf(KindInvalid, "region number %d must be 1 to %d", n, MaxRegionNumber)
	}
	return nil
}

// Validate reports whether the name is legal: [A-Za-z0-9._-]{1,64}.
func (t Tenant) Validate() error { return validateScope("tenant", string(t)) }

// Validate reports whether the name is legal: [A-Za-z0-9._-]{1,64}.
func (n Namespace) Validate() error { return validateScope("namespace", string(n)) }

func validateScope(what, s string) error {
	if !legal(s, maxScope) {
		return Errorf(KindInvalid, "%s %q must match [A-Za-z0-9._-]{1,64} and not be \".\" or \"..\"", what, s)
	}
	return nil
}

// Validate reports whether the name is legal in Kafka (at most 249 characters
// of [A-Za-z0-9._-], not "." or "..") and does not end in -partition-<n>, which
// native clients take for a partition of a topic.
func (n TopicName) Validate() error {
	s := string(n)
	switch {
	case !legal(s, maxTopic):
		return Errorf(KindInvalid, "topic %q must be 1 to 249 of [A-Za-z0-9._-] and not \".\" or \"..\"", s)
	case isPartition(s):
		return Errorf(KindInvalid, "topic %q must not end in -partition-<n>", s)
	}
	return nil
}

// Validate checks all three parts of the name.
func (t Topic) Validate() error {
	if err := t.Tenant.Validate(); err != nil {
		return err
	}
	if err := t.Namespace.Validate(); err != nil {
		return err
	}
	return t.Name.Validate()
}

// ParseTopic reads a bare name (public/default), tenant/namespace/topic or
// persistent://tenant/namespace/topic, and validates it.
func ParseTopic(s string) (Topic, error) {
	rest, full := strings.CutPrefix(s, persistentScheme)
	t := Topic{Tenant: DefaultTenant, Namespace: DefaultNamespace, Name: TopicName(s)}
	if parts := strings.Split(rest, "/"); full || len(parts) > 1 {
		if len(parts) != 3 {
			return Topic{}, Errorf(KindInvalid, "topic %q: want persistent://tenant/namespace/topic", s)
		}
		t = Topic{Tenant(parts[0]), Namespace(parts[1]), TopicName(parts[2])}
	}
	if err := t.Validate(); err != nil {
		return Topic{}, err
	}
	return t, nil
}

// Partition is one partition of a topic.
type Partition struct {
	Topic Topic
	Index int32
}

// String gives the native name of the partition.
func (p Partition) String() string {
	return p.Topic.String() + "-partition-" + strconv.Itoa(int(p.Index))
}

// UUID is a random 128-bit id: of a mesh, a data directory, a Kafka topic.
type UUID [16]byte

// NewUUID makes a random (version 4) id.
func NewUUID() UUID {
	var u UUID
	rand.Read(u[:]) // never fails: crypto/rand aborts the process instead
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// IsZero reports whether the id is unset.
func (u UUID) IsZero() bool { return u == UUID{} }

// String gives the usual 8-4-4-4-12 form.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// MarshalText gives the same form as String.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads the form of String.
func (u *UUID) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(strings.ReplaceAll(string(b), "-", ""))
	if err != nil || len(raw) != len(u) {
		return Errorf(KindInvalid, "uuid %q must be 32 hexadecimal digits", string(b))
	}
	copy(u[:], raw)
	return nil
}
