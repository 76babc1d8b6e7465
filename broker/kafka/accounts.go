package kafka

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker/sasl"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// Accounts are the users who can log in. Methods answer from memory, but for
// PutUser.
type Accounts interface {
	User(rhumb.UserName) (configstore.User, bool)
	Users() []configstore.User
	// Secret is what the salts of users who are not there follow from.
	Secret() []byte
	// PutUser creates or changes a user. What edit returns is returned.
	PutUser(ctx context.Context, name rhumb.UserName, edit func(*configstore.User) error) (configstore.User, error)
	// Subscribe calls fn after each change. fn does not block.
	Subscribe(fn func()) (cancel func())
}

// SASL says how clients of a listener log in.
type SASL struct {
	// Mechanisms that are offered, of package sasl.
	Mechanisms []string
	// Session is how long a login lasts: a client that does not log in again in
	// time is closed at its next request (KIP-368). Zero: for ever.
	Session time.Duration
}

// Validate checks that the mechanisms are built.
func (s SASL) Validate() error {
	if len(s.Mechanisms) == 0 {
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: SASL without a mechanism")
	}
	for _, m := range s.Mechanisms {
		if !slices.Contains(sasl.Mechanisms(), m) {
			return rhumb.Errorf(rhumb.KindInvalid, "kafka: SASL mechanism %q is none of %v", m, sasl.Mechanisms())
		}
	}
	if s.Session < 0 {
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: SASL session of %v", s.Session)
	}
	return nil
}

// verifiers shows an exchange what it needs of the accounts.
type verifiers struct{ Accounts }

// Verifier implements sasl.Users.
func (v verifiers) Verifier(name rhumb.UserName, m scram.Mechanism) (scram.Verifier, bool) {
	u, ok := v.User(name)
	if !ok || u.Scram.Of(m) == nil {
		return scram.Verifier{}, false
	}
	return *u.Scram.Of(m), true
}

// callerOf makes the caller of a user's connection. The space is the one that the
// client asked for, zero for the user's own.
func (s *Server) callerOf(u *configstore.User, space rhumb.Space) *caller {
	c := &caller{server: s, name: u.Name, home: space, grants: u.Grants, all: u.Admin, admin: u.Admin, version: u.Version}
	if space.IsZero() {
		c.home = u.HomeSpace()
	}
	if !u.May(c.home) {
		c.home = rhumb.Space{} // the grant was taken back
	}
	return c
}

// loginOf reads who the holder of a verified client certificate is.
func loginOf(cert *x509.Certificate) (sasl.Login, error) {
	login, err := sasl.ParseLogin(certs.UserOf(cert))
	if err != nil {
		return login, fmt.Errorf("%w: certificate of %q: %w", errLogin, cert.Subject.CommonName, err)
	}
	return login, nil
}

// followAccounts ends connections of users who were deleted, until the server is
// closed. A connection that is in use notices by itself; this is for those that
// wait.
func (s *Server) followAccounts() {
	changed := make(chan struct{}, 1) // one change or many are the same
	defer s.cfg.Accounts.Subscribe(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	for {
		select {
		case <-s.done:
			return
		case <-changed:
		}
		for _, c := range s.connections() {
			if name := c.loggedIn(); name != "" {
				if _, ok := s.cfg.Accounts.User(name); !ok {
					c.abort(fmt.Errorf("%w: user %s was deleted", errLogin, name))
				}
			}
		}
	}
}
