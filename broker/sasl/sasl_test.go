package sasl_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/sasl"
	"github.com/rhumbmq/rhumb/broker/sasl/sasltest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// users is who there is: by name, by mechanism.
type users map[rhumb.UserName]map[scram.Mechanism]scram.Verifier

func (u users) Verifier(name rhumb.UserName, m scram.Mechanism) (scram.Verifier, bool) {
	v, ok := u[name][m]
	return v, ok
}

func (users) Secret() []byte { return []byte("secret of the mesh") }

func (u users) add(tb testing.TB, name rhumb.UserName, password string, mechanisms ...scram.Mechanism) {
	tb.Helper()
	u[name] = map[scram.Mechanism]scram.Verifier{}
	for _, m := range mechanisms {
		v, err := scram.New(m, password, scram.MinIterations)
		if err != nil {
			tb.Fatal(err)
		}
		u[name][m] = v
	}
}

func someUsers(tb testing.TB) users {
	u := users{}
	u.add(tb, "alice", "al=ice, secret", scram.SHA256, scram.SHA512)
	u.add(tb, "bob", "bob's", scram.SHA512)
	u.add(tb, "acme/shop", "shop's", scram.SHA256, scram.SHA512)
	return u
}

func begin(tb testing.TB, u users, mechanism string) *sasl.Exchange {
	tb.Helper()
	e, err := sasl.New(mechanism, u)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// login runs a whole SCRAM exchange and gives how it ended.
func login(t *testing.T, e *sasl.Exchange, c *sasltest.Client) error {
	t.Helper()
	challenge, err := e.Next(c.First())
	if err != nil {
		return err
	}
	final, err := c.Final(challenge)
	if err != nil {
		t.Fatal(err)
	}
	last, err := e.Next(final)
	if err != nil {
		return err
	}
	return c.Check(last)
}

func TestScramLetsInWhoKnowsThePassword(t *testing.T) {
	u := someUsers(t)
	for _, c := range []struct {
		mechanism, name, password string
		want                      sasl.Login
	}{
		{sasl.ScramSHA256, "alice", "al=ice, secret", sasl.Login{User: "alice"}},
		{sasl.ScramSHA512, "alice", "al=ice, secret", sasl.Login{User: "alice"}},
		{sasl.ScramSHA512, "bob", "bob's", sasl.Login{User: "bob"}},
		{sasl.ScramSHA256, "acme/shop", "shop's", sasl.Login{User: "acme/shop"}},
		{sasl.ScramSHA256, "alice@acme/shop", "al=ice, secret", sasl.Login{User: "alice", Space: rhumb.Space{Tenant: "acme", Namespace: "shop"}}},
	} {
		e := begin(t, u, c.mechanism)
		if err := login(t, e, sasltest.New(c.mechanism, c.name, c.password)); err != nil || !e.Done() || e.Login() != c.want {
			t.Errorf("%s as %s: %v, done %v, %+v", c.name, c.mechanism, err, e.Done(), e.Login())
		}
		if _, err := e.Next(nil); err == nil {
			t.Error("the exchange goes on after its end")
		}
	}
}

// Who has a wrong password, who is not there, who has no verifier of the mechanism
// and who cannot be a user fail at the same step with the same words.
func TestStrangersLearnNothing(t *testing.T) {
	u := someUsers(t)
	for _, name := range []string{"alice", "nobody", "bob", "no such: user", "alice@nowhere", "@", "a/b/c"} {
		e := begin(t, u, sasl.ScramSHA256)
		c := sasltest.New(sasl.ScramSHA256, name, "guess")
		challenge, err := e.Next(c.First())
		if err != nil {
			t.Fatalf("%s is not challenged: %v", name, err)
		}
		if !strings.Contains(string(challenge), ",s=") {
			t.Fatalf("%s: challenge %s", name, challenge)
		}
		final, err := c.Final(challenge)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := e.Next(final); err != sasl.ErrCredentials || answer != nil || e.Done() {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		p := begin(t, u, sasl.Plain)
		if answer, err := p.Next(sasltest.Plain(name, "guess")); err != sasl.ErrCredentials || answer != nil || p.Done() {
			t.Errorf("PLAIN %s: %q, %v", name, answer, err)
		}
	}
}

func TestPlainChecksTheVerifier(t *testing.T) {
	u := someUsers(t)
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{
		"right":                  {"\x00alice\x00al=ice, secret", true},
		"acting for itself":      {"alice\x00alice\x00al=ice, secret", true},
		"only SHA-512":           {"\x00bob\x00bob's", true},
		"with a namespace":       {"\x00alice@acme/shop\x00al=ice, secret", true},
		"wrong":                  {"\x00alice\x00al=ice, secret ", false},
		"another's password":     {"\x00alice\x00bob's", false},
		"acting for another":     {"bob\x00alice\x00al=ice, secret", false},
		"empty password":         {"\x00alice\x00", false},
		"empty user":             {"\x00\x00x", false},
		"two parts":              {"alice\x00al=ice, secret", false},
		"four parts":             {"\x00alice\x00al=ice, secret\x00", false},
		"nothing":                {"", false},
		"a password without end": {"\x00alice\x00" + strings.Repeat("x", scram.MaxPassword+1), false},
	} {
		e := begin(t, u, sasl.Plain)
		if _, err := e.Next([]byte(c.token)); (err == nil) != c.ok || e.Done() != c.ok {
			t.Errorf("%s: %v, done %v", name, err, e.Done())
		}
	}
}

// Extensions that we do not know, such as Kafka's delegation tokens', are part of
// what is signed and nothing else.
func TestP160UnknownScramExtensionsAreAccepted(t *testing.T) {
	u := someUsers(t)
	for _, extensions := range []string{",tokenauth=true", ",x=1,tokenauth=true,y=", ",m"} {
		e := begin(t, u, sasl.ScramSHA256)
		c := sasltest.New(sasl.ScramSHA256, "alice", "al=ice, secret")
		c.Extensions = extensions
		if err := login(t, e, c); err != nil || !e.Done() {
			t.Errorf("%s: %v", extensions, err)
		}
	}
}

// librdkafka before 2.3 writes its part of the nonce twice.
func TestScramTakesTheClientsNonceTwice(t *testing.T) {
	e := begin(t, someUsers(t), sasl.ScramSHA512)
	c := sasltest.New(sasl.ScramSHA512, "alice", "al=ice, secret")
	c.Twice = true
	if err := login(t, e, c); err != nil || !e.Done() {
		t.Errorf("%v, done %v", err, e.Done())
	}
}

// Every change of a right exchange is refused, and leaves nobody logged in.
func TestP158OnlyARightProofCounts(t *testing.T) {
	u := someUsers(t)
	for name, change := range map[string]func(final string) string{
		"no proof":             func(f string) string { return f[:strings.Index(f, ",p=")] },
		"empty proof":          func(f string) string { return f[:strings.Index(f, ",p=")+3] },
		"not base64":           func(f string) string { return f + "!" },
		"short proof":          func(f string) string { return f[:len(f)-4] },
		"another nonce":        func(f string) string { return strings.Replace(f, ",r=f", ",r=g", 1) },
		"the client's nonce":   func(f string) string { return "c=biws,r=fyko+d2lbbFgONRv9qkxdawL" + f[strings.Index(f, ",p="):] },
		"channel binding":      func(f string) string { return strings.Replace(f, "c=biws", "c=eSws", 1) },
		"an unsigned addition": func(f string) string { return strings.Replace(f, ",p=", ",x=1,p=", 1) },
		"client-first again":   func(string) string { return "n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL" },
		"nothing":              func(string) string { return "" },
		"an error token":       func(string) string { return "e=other-error" },
		"another's proof": func(f string) string {
			at := strings.Index(f, ",p=") + 3
			proof, _ := base64.StdEncoding.DecodeString(f[at:])
			proof[0] ^= 1
			return f[:at] + base64.StdEncoding.EncodeToString(proof)
		},
	} {
		e := begin(t, u, sasl.ScramSHA256)
		c := sasltest.New(sasl.ScramSHA256, "alice", "al=ice, secret")
		challenge, err := e.Next(c.First())
		if err != nil {
			t.Fatal(err)
		}
		right, err := c.Final(challenge)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := e.Next([]byte(change(string(right)))); err == nil || answer != nil || e.Done() {
			t.Errorf("%s: %q, %v, done %v", name, answer, err, e.Done())
		}
		// What was right before is not any more: the challenge is used up.
		if _, err := e.Next(right); !errors.Is(err, sasl.ErrMalformed) || e.Done() {
			t.Errorf("%s: the exchange goes on: %v", name, err)
		}
	}
}

func TestScramRefusesOddBeginnings(t *testing.T) {
	u := someUsers(t)
	for _, first := range []string{"", "n", "n,", "n,,", "n,,n=alice", "n,,r=x,n=alice", "n,,m=x,n=alice,r=x", "p=tls-unique,,n=alice,r=x",
		"z,,n=alice,r=x", "n,b=x,n=alice,r=x", "n,a=bob,n=alice,r=x", "n,,n=,r=x", "n,,n=a=2Xb,r=x", "n,,n=alice,r=", "n,,n=alice,r=a b",
		"n,,n=alice,r=" + strings.Repeat("x", 1025), "\x00alice\x00al=ice, secret", strings.Repeat("n,,n=a,r=", sasl.MaxToken)} {
		e := begin(t, u, sasl.ScramSHA256)
		if answer, err := e.Next([]byte(first)); !errors.Is(err, sasl.ErrMalformed) || answer != nil {
			t.Errorf("%.40q: %q, %v", first, answer, err)
		}
	}
	if _, err := sasl.New("SCRAM-SHA-1", u); err == nil {
		t.Error("SCRAM-SHA-1 is offered")
	}
}

func TestLoginNames(t *testing.T) {
	space := rhumb.Space{Tenant: "acme", Namespace: "shop"}
	for name, want := range map[string]sasl.Login{
		"alice": {User: "alice"}, "acme/shop": {User: "acme/shop"}, "alice@acme/shop": {User: "alice", Space: space},
		"acme/shop@acme/shop": {User: "acme/shop", Space: space},
	} {
		if got, err := sasl.ParseLogin(name); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "@acme/shop", "alice@", "alice@acme", "alice@a/b/c", "a/b/c", "..", "a/..", "alice@./x", "Ünal", strings.Repeat("x", 65)} {
		if got, err := sasl.ParseLogin(name); err == nil {
			t.Errorf("%q reads as %+v", name, got)
		}
	}
}

// FuzzExchange sends any two tokens to each mechanism: nobody is let in, nothing
// panics, and answers stay small.
func FuzzExchange(f *testing.F) {
	u := someUsers(f)
	u["alice"] = map[scram.Mechanism]scram.Verifier{scram.SHA256: scram.Decoy(scram.SHA256, []byte("x"), "alice")}
	c := sasltest.New(sasl.ScramSHA256, "alice", "x")
	f.Add(uint8(0), c.First(), []byte("c=biws,r=x,p=AAAA"))
	f.Add(uint8(1), []byte("n,a=alice,n=alice,r=x,tokenauth=true"), []byte("c=,r=,p="))
	f.Add(uint8(2), sasltest.Plain("alice@acme/shop", "x"), []byte{})
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte) {
		mechanism := sasl.Mechanisms()[int(which)%3]
		if mechanism == sasl.Plain && strings.Count(string(first), "\x00") == 2 {
			first = []byte("\x00") // each password costs milliseconds
		}
		e := begin(t, u, mechanism)
		for _, token := range [][]byte{first, second} {
			answer, err := e.Next(token)
			if e.Done() || len(answer) > sasl.MaxToken || err != nil && answer != nil {
				t.Fatalf("done %v, %d bytes, %v", e.Done(), len(answer), err)
			}
		}
	})
}
