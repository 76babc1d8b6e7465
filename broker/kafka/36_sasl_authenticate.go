package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/sasl"
)

// SaslAuthenticate (API 36): one token of a login, and the server's answer.
//
// Versions 0 to 2:
//   - 1: how long the login lasts
//   - 2: flexible
//
// A failed login is answered after a while, with words that do not tell a wrong
// password from a wrong name, and ends the connection.
const saslAuthenticateKey int16 = 36

func init() {
	register(api{key: saslAuthenticateKey, min: 0, max: 2, handle: saslAuthenticate})
}

// maxLoginRequest bounds a request of a connection that is not logged in.
const maxLoginRequest = sasl.MaxToken + 1<<10

const authenticateWithLifetime = 1

func saslAuthenticate(ctx context.Context, r *request) (reply, error) {
	req, err := decode[kmsg.SASLAuthenticateRequest](r)
	if err != nil {
		return nil, err
	}
	c := r.conn
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	resp.SASLAuthBytes = []byte{}
	if c.auth.state != authExchange {
		resp.ErrorCode, resp.ErrorMessage = codeIllegalSaslState, ptr("no login is under way: SaslHandshake comes first")
		return ready(resp), nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.server.cfg.IOTimeout)
	defer cancel()
	answer, err := c.take(ctx, req.SASLAuthBytes)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeSaslAuthenticationFailed, ptr(toldOf(err))
		c.refuseLogin(err)
		return c.later(response{bufs: net.Buffers{resp.AppendTo(nil)}}), nil
	}
	resp.SASLAuthBytes = answer
	if c.auth.state == authOpen && r.version >= authenticateWithLifetime {
		resp.SessionLifetimeMillis = c.at.SASL.Session.Milliseconds()
	}
	return ready(resp), nil
}

// toldOf is what a client is told of a failed login. Who has proved who he is gets
// the reason; others learn nothing.
func toldOf(err error) string {
	switch {
	case errors.Is(err, errLogin):
		return err.Error()
	case errors.Is(err, sasl.ErrMalformed):
		return sasl.ErrMalformed.Error()
	}
	return sasl.ErrCredentials.Error()
}

// rawToken stands for the API of a token that came without a request.
var rawToken = &api{key: saslAuthenticateKey, handle: saslRaw}

// readToken reads a raw token: its length, then the token.
func (c *conn) readToken() (*request, error) {
	until := time.Now().Add(c.server.cfg.IOTimeout)
	if err := c.setReadDeadline(c.server.cfg.IOTimeout); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(c.in, length[:]); err != nil {
		return nil, err
	}
	n := int64(int32(binary.BigEndian.Uint32(length[:])))
	if n < 0 || n > sasl.MaxToken {
		return nil, fmt.Errorf("%w: token of %d bytes", errMalformed, n)
	}
	r := &request{conn: c, api: rawToken, raw: true, arrived: time.Now(), caller: c.at.anonymous}
	var err error
	if r.body, err = c.readBody(r, n, until); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// saslRaw answers a raw token with a raw one. A failure has no form here: the
// connection ends.
func saslRaw(ctx context.Context, r *request) (reply, error) {
	c := r.conn
	ctx, cancel := context.WithTimeout(ctx, c.server.cfg.IOTimeout)
	defer cancel()
	answer, err := c.take(ctx, r.body)
	if err != nil {
		c.refuseLogin(err)
		return c.later(response{silent: true}), nil
	}
	return func(context.Context) response { return response{bufs: net.Buffers{answer}} }, nil
}
