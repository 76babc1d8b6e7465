package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// AlterUserScramCredentials (API 51): sets and takes back passwords (KIP-554).
// Version 0, flexible. The client sends the salted password, never the password.
//
// All that a request says of one user happens, or nothing of it. A user who is not
// there is made, without a grant. Only administrators may.
func init() {
	register(api{key: 51, min: 0, max: 0, handle: decodes(alterUserScram)})
}

// scramChange is what a request says of one mechanism of a user.
type scramChange struct {
	number   int8
	verifier *scram.Verifier // nil: takes it back
	err      error
}

func alterUserScram(ctx context.Context, r *request, req *kmsg.AlterUserSCRAMCredentialsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	changes, names := scramChanges(req)
	refused := r.caller.checkUsers()
	for _, name := range names {
		err := refused
		if err == nil {
			err = r.conn.server.alterScram(ctx, name, changes[name])
		}
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User, out.ErrorCode, out.ErrorMessage = name, codeOf(scopeAdmin, err), text(err)
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}

// scramChanges gathers what the request says by user, in the order in which users
// come first.
func scramChanges(req *kmsg.AlterUserSCRAMCredentialsRequest) (map[string][]scramChange, []string) {
	changes := map[string][]scramChange{}
	var names []string
	add := func(name string, c scramChange) {
		if _, ok := changes[name]; !ok {
			names = append(names, name)
		}
		changes[name] = append(changes[name], c)
	}
	for i := range req.Deletions {
		add(req.Deletions[i].Name, scramChange{number: req.Deletions[i].Mechanism})
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		c := scramChange{number: u.Mechanism}
		if m := scramNumbers[u.Mechanism]; m != "" {
			v, err := scram.FromSalted(m, u.SaltedPassword, u.Salt, int(u.Iterations))
			if err != nil {
				err = withCode(codeUnacceptableCredential, err.Error())
			}
			c.verifier, c.err = &v, err
		}
		add(u.Name, c)
	}
	return changes, names
}

func (s *Server) alterScram(ctx context.Context, name string, changes []scramChange) error {
	seen := map[int8]bool{}
	for _, c := range changes {
		switch {
		case scramNumbers[c.number] == "":
			return withCode(codeUnsupportedSaslMechanism, fmt.Sprintf("mechanism %d is neither SCRAM-SHA-256 (1) nor SCRAM-SHA-512 (2)", c.number))
		case seen[c.number]:
			return withCode(codeDuplicateResource, fmt.Sprintf("user %q and %s stand more than once in the request", name, scramNumbers[c.number]))
		case c.err != nil:
			return c.err
		}
		seen[c.number] = true
	}
	user := rhumb.UserName(name)
	if err := user.Validate(); err != nil {
		return withCode(codeUnacceptableCredential, err.Error())
	}
	_, err := s.cfg.Accounts.PutUser(ctx, user, func(u *configstore.User) error {
		for _, c := range changes {
			m := scramNumbers[c.number]
			if c.verifier == nil && u.Scram.Of(m) == nil {
				return withCode(codeResourceNotFound, fmt.Sprintf("user %q has no password for %s, or is not there", name, m))
			}
			u.Scram.Set(m, c.verifier)
		}
		return nil
	})
	return err
}
