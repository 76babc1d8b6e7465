package configstore

import (
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// User is the document of one user of the mesh's Kafka listeners. It holds no
// password, and nothing that one could be read from.
type User struct {
	Meta
	// Name is in the key.
	Name rhumb.UserName `json:"-"`
	// Admin users may change users through Kafka's own tools, and reach every
	// namespace.
	Admin bool `json:"admin,omitzero"`
	// Grants are the namespaces that the user may work in. Empty: none, so the user
	// sees nothing.
	Grants []rhumb.Space `json:"grants,omitzero"`
	// Home is the granted namespace that bare names are of. Zero: the first grant.
	Home rhumb.Space `json:"home,omitzero"`
	// Scram holds the verifiers of the user's password, by mechanism. Empty: nobody
	// logs in with a password, only with a client certificate.
	Scram Scram `json:"scram,omitzero"`
}

// Scram holds the verifiers of one password, each for one mechanism.
type Scram struct {
	SHA256 *scram.Verifier `json:"sha256,omitzero"`
	SHA512 *scram.Verifier `json:"sha512,omitzero"`
}

// Of gives the verifier of a mechanism, nil if there is none.
func (s Scram) Of(m scram.Mechanism) *scram.Verifier {
	switch m {
	case scram.SHA256:
		return s.SHA256
	case scram.SHA512:
		return s.SHA512
	}
	return nil
}

// Set puts a verifier, nil for none. An unknown mechanism has no place: it does
// nothing.
func (s *Scram) Set(m scram.Mechanism, v *scram.Verifier) {
	switch m {
	case scram.SHA256:
		s.SHA256 = v
	case scram.SHA512:
		s.SHA512 = v
	}
}

// ScramMechanisms are those that a document can have verifiers of.
var ScramMechanisms = []scram.Mechanism{scram.SHA256, scram.SHA512}

// Bounds of users.
const (
	// MaxGrants bounds the grants of one user.
	MaxGrants = 256
	// MaxUsers bounds the users of a mesh.
	MaxUsers = 100_000
)

// HomeSpace gives the namespace of bare names: Home, else the first grant, else
// public/default for an admin. Zero: the user has none.
func (u *User) HomeSpace() rhumb.Space {
	switch {
	case !u.Home.IsZero():
		return u.Home
	case len(u.Grants) > 0:
		return u.Grants[0]
	case u.Admin:
		return rhumb.DefaultSpace
	}
	return rhumb.Space{}
}

// May reports whether the user may work in a namespace.
func (u *User) May(s rhumb.Space) bool { return u.Admin || slices.Contains(u.Grants, s) }

func (u *User) validate() error {
	if len(u.Grants) > MaxGrants {
		return invalid("grants", "has %d, at most %d are allowed", len(u.Grants), MaxGrants)
	}
	for i, g := range u.Grants {
		if slices.Contains(u.Grants[:i], g) {
			return invalid("grants["+strconv.Itoa(i)+"]", "%s stands twice", g)
		}
	}
	if !u.Home.IsZero() && !u.May(u.Home) {
		return invalid("home", "%s is not among the grants", u.Home)
	}
	for _, m := range ScramMechanisms {
		if v := u.Scram.Of(m); v != nil {
			if err := v.Validate(m); err != nil {
				return invalid("scram", "%v", err)
			}
		}
	}
	return nil
}
