package sasl

import (
	"crypto/rand"
	"errors"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// Names of mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = string(scram.SHA256)
	ScramSHA512 = string(scram.SHA512)
)

// Mechanisms lists all that are built, the strongest first.
func Mechanisms() []string { return []string{ScramSHA512, ScramSHA256, Plain} }

// MaxToken bounds a client's token in bytes.
const MaxToken = 16 << 10

// Errors of an exchange. The first is all that a client is told of a failed proof.
var (
	ErrCredentials = errors.New("authentication failed: wrong user name or password")
	ErrMalformed   = errors.New("authentication failed: malformed message")
)

// Users finds what is kept of a user's password for a mechanism.
type Users interface {
	// Verifier gives the verifier of a user, false if there is no such user or none
	// of that mechanism.
	Verifier(user rhumb.UserName, m scram.Mechanism) (scram.Verifier, bool)
	// Secret seeds the decoys of users who are not there. It is the same on all
	// nodes and known to nobody else.
	Secret() []byte
}

// Login is what a client said of itself. It is to be believed only when the
// exchange is done.
type Login struct {
	// User is who it is.
	User rhumb.UserName
	// Space is the namespace that it asked for, zero if it did not.
	Space rhumb.Space
}

// ParseLogin reads the name that a client gives: a user, or user@tenant/namespace.
func ParseLogin(name string) (Login, error) {
	var l Login
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		space, err := rhumb.ParseSpace(name[at+1:])
		if err != nil {
			return l, err
		}
		l.Space, name = space, name[:at]
	}
	l.User = rhumb.UserName(name)
	return l, l.User.Validate()
}

// Exchange is one authentication. Its methods are not for concurrent use.
type Exchange struct {
	mechanism string
	users     Users
	next      func(token []byte) (answer []byte, err error) // nil at the end
	login     Login
	done      bool
}

// New begins an exchange of one of [Mechanisms].
func New(mechanism string, users Users) (*Exchange, error) {
	e := &Exchange{mechanism: mechanism, users: users}
	switch mechanism {
	case Plain:
		e.next = e.plain
	case ScramSHA256, ScramSHA512:
		e.next = (&scramState{Exchange: e, m: scram.Mechanism(mechanism), nonce: rand.Text()}).first
	default:
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "mechanism %q is none of %s", mechanism, strings.Join(Mechanisms(), ", "))
	}
	return e, nil
}

// Next takes the client's next token and gives the answer to send. An error ends
// the exchange: it is [ErrCredentials] or wraps [ErrMalformed].
func (e *Exchange) Next(token []byte) ([]byte, error) {
	step := e.next
	e.next = nil
	if step == nil || len(token) > MaxToken {
		return nil, ErrMalformed
	}
	return step(token)
}

// Done reports whether the client has proved who it is.
func (e *Exchange) Done() bool { return e.done }

// Mechanism names the mechanism.
func (e *Exchange) Mechanism() string { return e.mechanism }

// Login gives who the client is, or before the end claims to be.
func (e *Exchange) Login() Login { return e.login }

// finish is the only way to done.
func (e *Exchange) finish() { e.done, e.next = true, nil }

// find gives a user's verifier, or a decoy that nothing fits. Names that no user
// can have get decoys too.
func (e *Exchange) find(name string, m scram.Mechanism) (v scram.Verifier, real bool) {
	login, err := ParseLogin(name)
	if err == nil {
		e.login = login
		if v, real = e.users.Verifier(login.User, m); real {
			return v, true
		}
		name = string(login.User)
	}
	return scram.Decoy(m, e.users.Secret(), name), false
}
