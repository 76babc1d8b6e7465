package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/rhumbmq/rhumb/broker/sasl"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// authState is how far a connection is with saying who it is.
//
//	           SaslHandshake            right proof
//	handshake ──────────────▶ exchange ─────────────▶ open
//	                             ▲    SaslHandshake     │
//	                             └──────────────────────┘   (KIP-368)
//
// A connection of a listener without SASL starts open. Every failure ends the
// connection, after its answer.
type authState uint8

const (
	authHandshake authState = iota
	authExchange
	authOpen
)

// auth is the login of a connection. Its reader owns it.
type auth struct {
	state    authState
	raw      bool // tokens come without a request around them (SaslHandshake 0)
	exchange *sasl.Exchange

	login     sasl.Login // zero: nobody had to log in
	mechanism string     // by which
	by        time.Time  // until when the first login has to be done; zero: it is
	expires   time.Time  // when the login does; zero: never
}

// over reports whether the time for the first login has run out.
func (a *auth) over() bool { return !a.by.IsZero() && !time.Now().Before(a.by) }

var (
	errLogin   = errors.New("login refused")
	errNoLogin = errors.New("request before login")
	errExpired = errors.New("login has expired")
)

// startAuth puts the connection into its first state. The TLS handshake is done.
func (c *conn) startAuth() error {
	if c.at.SASL != nil {
		c.auth.by = time.Now().Add(c.server.cfg.IOTimeout)
		return nil
	}
	c.auth.state = authOpen
	t, ok := c.nc.(*tls.Conn)
	if !ok || c.at.TLS.ClientAuth < tls.RequireAnyClientCert {
		return nil
	}
	certs := t.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return fmt.Errorf("%w: no client certificate", errLogin)
	}
	login, err := loginOf(certs[0])
	if err != nil {
		return err
	}
	return c.accept(login, "certificate")
}

// accept makes a proved login the connection's, if the user is there and may work
// where it wants to. A second login is the same user's in the same place.
func (c *conn) accept(login sasl.Login, mechanism string) error {
	u, ok := c.server.cfg.Accounts.User(login.User)
	switch {
	case !ok:
		return fmt.Errorf("%w: there is no user %q", errLogin, login.User)
	case !login.Space.IsZero() && !u.May(login.Space):
		return fmt.Errorf("%w: user %s has no grant for %s", errLogin, login.User, login.Space)
	case c.auth.login != sasl.Login{} && c.auth.login != login:
		return fmt.Errorf("%w: a connection stays its user's", errLogin)
	}
	c.auth.state, c.auth.exchange, c.auth.raw = authOpen, nil, false
	c.auth.login, c.auth.mechanism, c.auth.by = login, mechanism, time.Time{}
	if s := c.at.SASL; s != nil && s.Session > 0 {
		c.auth.expires = time.Now().Add(s.Session)
	}
	c.server.stats.logins.Add(1)
	c.mu.Lock()
	c.user = login.User
	c.mu.Unlock()
	return nil
}

// loggedIn gives the connection's user, "" for none. Any goroutine may ask.
func (c *conn) loggedIn() rhumb.UserName {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.user
}

// admit decides whether a request may come now, before it is read.
func (c *conn) admit(key int16, size int64) error {
	a := &c.auth
	isLogin := key == saslHandshakeKey || key == apiVersionsKey
	switch {
	case a.state == authHandshake && !isLogin, a.state == authExchange && key != saslAuthenticateKey:
		return fmt.Errorf("%w: api %d", errNoLogin, key)
	case a.state != authOpen && size > maxLoginRequest:
		return fmt.Errorf("%w: %d bytes before login, at most %d", errTooLarge, size, maxLoginRequest)
	case a.state == authOpen && !isLogin && !a.expires.IsZero() && !time.Now().Before(a.expires):
		return fmt.Errorf("%w: user %s", errExpired, a.login.User)
	}
	return nil
}

// caller gives whom the next request comes from. Each looks its user up again, so
// a grant that changes counts at once; a user who is gone ends the connection.
func (c *conn) caller() (*caller, error) {
	if c.auth.state != authOpen || c.auth.login.User == "" {
		return c.at.anonymous, nil // before login there is nothing it could ask for
	}
	u, ok := c.server.cfg.Accounts.User(c.auth.login.User)
	if !ok {
		return nil, fmt.Errorf("%w: user %s was deleted", errLogin, c.auth.login.User)
	}
	if c.who == nil || c.who.version != u.Version {
		c.who = c.server.callerOf(&u, c.auth.login.Space)
	}
	return c.who, nil
}

// take gives a client's token to the exchange. The answer is for the client; an
// error says why it is refused.
func (c *conn) take(ctx context.Context, token []byte) ([]byte, error) {
	e := c.auth.exchange
	if e.Mechanism() == sasl.Plain { // costs milliseconds of work
		select {
		case c.server.checking <- struct{}{}:
			defer func() { <-c.server.checking }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: too many logins at once", errLogin)
		}
	}
	answer, err := e.Next(token)
	if err == nil && e.Done() {
		err = c.accept(e.Login(), e.Mechanism())
	}
	if err != nil {
		c.server.stats.loginsFailed.Add(1)
		return nil, err
	}
	return answer, nil
}

// refuseLogin ends the connection after the answer that is given next.
func (c *conn) refuseLogin(err error) {
	claimed := ""
	if e := c.auth.exchange; e != nil {
		claimed = string(e.Login().User)
	}
	c.auth.state, c.auth.exchange = authExchange, nil // nothing comes any more
	c.ending = fmt.Errorf("%w: user %q: %w", errLogin, claimed, err)
}

// later holds an answer back for a while, so that guessing passwords takes time.
func (c *conn) later(answer response) reply {
	return func(ctx context.Context) response {
		timer := time.NewTimer(c.server.cfg.FailedLoginDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return answer
	}
}
