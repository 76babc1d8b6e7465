package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/sasl"
)

// SaslHandshake (API 17): the client chooses how to log in.
//
// Versions 0 and 1:
//   - 0: raw tokens follow, each with its length before it and no request around it
//   - 1: the tokens come in SaslAuthenticate
//
// On a connection that is logged in, version 1 begins a new login of the same user
// by the same mechanism (KIP-368). A listener without SASL answers that it makes
// no sense here, and goes on.
const saslHandshakeKey int16 = 17

func init() {
	register(api{key: saslHandshakeKey, min: 0, max: 1, handle: saslHandshake})
}

func saslHandshake(_ context.Context, r *request) (reply, error) {
	req, err := decode[kmsg.SASLHandshakeRequest](r)
	if err != nil {
		return nil, err
	}
	c := r.conn
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	if c.at.SASL == nil {
		resp.ErrorCode = codeIllegalSaslState
		return ready(resp), nil
	}
	resp.SupportedMechanisms = c.at.SASL.Mechanisms
	again := c.auth.state == authOpen
	switch {
	case !slices.Contains(c.at.SASL.Mechanisms, req.Mechanism):
		resp.ErrorCode = codeUnsupportedSaslMechanism
		c.refuseLogin(fmt.Errorf("mechanism %.32q is not offered", req.Mechanism))
	case again && (r.version == 0 || req.Mechanism != c.auth.mechanism):
		resp.ErrorCode = codeIllegalSaslState
		c.refuseLogin(fmt.Errorf("a new login by %.32q, version %d, after one by %s", req.Mechanism, r.version, c.auth.mechanism))
	}
	if resp.ErrorCode != codeNone {
		return c.later(response{bufs: net.Buffers{resp.AppendTo(nil)}}), nil
	}
	if c.auth.exchange, err = sasl.New(req.Mechanism, verifiers{c.server.cfg.Accounts}); err != nil {
		return nil, err
	}
	c.auth.state, c.auth.raw = authExchange, r.version == 0
	return ready(resp), nil
}
