package sasl

import (
	"fmt"
	"strings"

	"github.com/rhumbmq/rhumb/internal/scram"
)

// plain takes the one message of RFC 4616: authzid NUL user NUL password.
func (e *Exchange) plain(token []byte) ([]byte, error) {
	parts := strings.Split(string(token), "\x00")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%w: PLAIN has three parts, not %d", ErrMalformed, len(parts))
	}
	acting, user, password := parts[0], parts[1], parts[2]
	switch {
	case user == "" || password == "" || len(password) > scram.MaxPassword:
		return nil, fmt.Errorf("%w: PLAIN needs a user and a password of at most %d bytes", ErrMalformed, scram.MaxPassword)
	case acting != "" && acting != user:
		return nil, fmt.Errorf("%w: nobody may act for another user", ErrMalformed)
	}
	m := scram.SHA256
	v, known := e.find(user, m)
	if !known {
		if other, has := e.users.Verifier(e.login.User, scram.SHA512); has {
			v, m, known = other, scram.SHA512, true
		}
	}
	if fits := v.CheckPassword(m, password); !fits || !known {
		return nil, ErrCredentials
	}
	e.finish()
	return []byte{}, nil
}
