package sasl

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/rhumbmq/rhumb/internal/scram"
)

// scramState is the exchange of RFC 5802, section 5:
//
//	client-first   n,[a=authzid],n=user,r=nonce[,extensions]
//	server-first   r=nonce+ours,s=salt,i=iterations
//	client-final   c=base64 of what came before n=user,r=nonce+ours[,extensions],p=proof
//	server-final   v=signature
type scramState struct {
	*Exchange
	m        scram.Mechanism
	nonce    string // ours
	binding  string // what c= must be
	message  string // AuthMessage so far
	verifier scram.Verifier
	real     bool // of a user who is there
}

// maxNonce bounds the client's nonce, which is sent back to it.
const maxNonce = 1024

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// first takes client-first.
func (s *scramState) first(token []byte) ([]byte, error) {
	header, bare, err := cutHeader(string(token))
	if err != nil {
		return nil, err
	}
	fields := strings.Split(bare, ",")
	name, isName := strings.CutPrefix(fields[0], "n=")
	if !isName || len(fields) < 2 {
		return nil, malformed("SCRAM begins with n= and r=") // m= included: extensions that we must know
	}
	user, ok := unescape(name)
	if !ok || user == "" {
		return nil, malformed("SCRAM user name")
	}
	if acting, has := strings.CutPrefix(strings.Split(header, ",")[1], "a="); has && acting != name {
		return nil, malformed("nobody may act for another user")
	}
	theirs, ok := strings.CutPrefix(fields[1], "r=")
	if !ok || theirs == "" || len(theirs) > maxNonce || !printable(theirs) {
		return nil, malformed("SCRAM nonce")
	}
	s.verifier, s.real = s.find(user, s.m)
	s.nonce = theirs + s.nonce
	answer := fmt.Sprintf("r=%s,s=%s,i=%d", s.nonce, base64.StdEncoding.EncodeToString(s.verifier.Salt), s.verifier.Iterations)
	s.binding = base64.StdEncoding.EncodeToString([]byte(header))
	s.message = bare + "," + answer
	s.next = s.final
	return []byte(answer), nil
}

// cutHeader takes "n,," or "n,a=name," off: no channel binding.
func cutHeader(text string) (header, bare string, err error) {
	parts := strings.SplitN(text, ",", 3)
	switch {
	case len(parts) < 3:
		return "", "", malformed("SCRAM header")
	case strings.HasPrefix(parts[0], "p="):
		return "", "", malformed("channel binding is not offered")
	case parts[0] != "n" && parts[0] != "y" || parts[1] != "" && !strings.HasPrefix(parts[1], "a="):
		return "", "", malformed("SCRAM header")
	}
	return parts[0] + "," + parts[1] + ",", parts[2], nil
}

// final takes client-final. The proof is looked at last, and what it is about is
// all that came before.
func (s *scramState) final(token []byte) ([]byte, error) {
	text := string(token)
	at := strings.LastIndex(text, ",p=")
	if at < 0 {
		return nil, malformed("SCRAM without a proof")
	}
	without := text[:at]
	fields := strings.Split(without, ",")
	// librdkafka before 2.3 writes its own part of the nonce twice. That is signed
	// like the rest, so the end is enough: what is ours is in it.
	if len(fields) < 2 || fields[0] != "c="+s.binding || !strings.HasPrefix(fields[1], "r=") || !strings.HasSuffix(fields[1][2:], s.nonce) {
		return nil, malformed("SCRAM answer to another challenge")
	}
	proof, err := base64.StdEncoding.DecodeString(text[at+len(",p="):])
	if err != nil {
		return nil, malformed("SCRAM proof")
	}
	message := s.message + "," + without
	if fits := s.verifier.CheckProof(s.m, message, proof); !fits || !s.real {
		return nil, ErrCredentials
	}
	s.finish()
	return []byte("v=" + base64.StdEncoding.EncodeToString(s.verifier.ServerSignature(s.m, message))), nil
}

// unescape reads a user name, in which =2C is a comma and =3D an equals sign.
func unescape(name string) (string, bool) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(name, "=")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		switch {
		case strings.HasPrefix(after, "2C"):
			b.WriteByte(',')
		case strings.HasPrefix(after, "3D"):
			b.WriteByte('=')
		default:
			return "", false
		}
		name = after[2:]
	}
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e })
}
