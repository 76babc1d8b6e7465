package rhumb

import (
	"regexp"
	"strings"
)

// Space is a namespace with its tenant: what a client works in. The zero Space is
// none.
type Space struct {
	Tenant    Tenant
	Namespace Namespace
}

// DefaultSpace is where clients are whom nobody told otherwise.
var DefaultSpace = Space{DefaultTenant, DefaultNamespace}

// Space gives the namespace that a topic is in.
func (t Topic) Space() Space { return Space{t.Tenant, t.Namespace} }

// IsZero reports whether there is none.
func (s Space) IsZero() bool { return s == Space{} }

// String gives tenant/namespace.
func (s Space) String() string { return string(s.Tenant) + "/" + string(s.Namespace) }

// Validate checks both parts of the name.
func (s Space) Validate() error {
	if err := s.Tenant.Validate(); err != nil {
		return err
	}
	return s.Namespace.Validate()
}

// ParseSpace reads and validates the form of String.
func ParseSpace(text string) (Space, error) {
	tenant, namespace, ok := strings.Cut(text, "/")
	s := Space{Tenant(tenant), Namespace(namespace)}
	if !ok {
		return Space{}, Errorf(KindInvalid, "namespace %q: want tenant/namespace", text)
	}
	if err := s.Validate(); err != nil {
		return Space{}, err
	}
	return s, nil
}

// MarshalText gives the form of String.
func (s Space) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form of String.
func (s *Space) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSpace(string(b))
	return err
}

// ParseTopic reads a topic's name as a client of the namespace writes it: a bare
// name is the namespace's, tenant/namespace/topic and
// persistent://tenant/namespace/topic name another one.
func (s Space) ParseTopic(name string) (Topic, error) {
	t, err := ParseTopic(name)
	if err == nil && !strings.Contains(name, "/") {
		t.Tenant, t.Namespace = s.Tenant, s.Namespace
	}
	return t, err
}

// NameOf gives a topic's name for a client of the namespace: bare for the
// namespace's own topics, full for others.
func (s Space) NameOf(t Topic) string {
	if t.Space() == s {
		return string(t.Name)
	}
	return t.String()
}

// UserName names a user: [A-Za-z0-9._-]{1,64}, or two of these with a slash
// between, as a user that is named after its namespace.
type UserName string

var userPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}(/[A-Za-z0-9._-]{1,64})?$`)

// Validate reports whether the name is legal.
func (n UserName) Validate() error {
	legal := userPattern.MatchString(string(n))
	for part := range strings.SplitSeq(string(n), "/") {
		legal = legal && part != "." && part != ".."
	}
	if !legal {
		return Errorf(KindInvalid, "user name %q must match [A-Za-z0-9._-]{1,64}, or be two of these with a slash between", string(n))
	}
	return nil
}
