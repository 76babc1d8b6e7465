package scram

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"testing"
)

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example of RFC 7677, section 3: user "user", password "pencil".
func TestRFC7677Example(t *testing.T) {
	salt := decode(t, "W22ZaJ0SNY7soEsUEjb6gQ==")
	v, err := FromSalted(SHA256, salted(SHA256, "pencil", salt, 4096), salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	auth := "n=user,r=rOprNGfwEbeRWgbNEkqO," +
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096," +
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	proof := decode(t, "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
	if !v.CheckProof(SHA256, auth, proof) {
		t.Error("the proof is refused")
	}
	if got := v.ServerSignature(SHA256, auth); !bytes.Equal(got, decode(t, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")) {
		t.Errorf("signature %x", got)
	}
	for i := range proof {
		proof[i] ^= 1
		if v.CheckProof(SHA256, auth, proof) {
			t.Fatalf("accepted with byte %d changed", i)
		}
		proof[i] ^= 1
	}
	if v.CheckProof(SHA256, auth+"x", proof) || v.CheckProof(SHA256, auth, nil) || v.CheckProof(SHA256, auth, proof[:31]) {
		t.Error("a wrong proof is accepted")
	}
}

func TestVerifierKnowsItsPasswordOnly(t *testing.T) {
	for _, m := range []Mechanism{SHA256, SHA512} {
		v, err := New(m, "pässword", MinIterations)
		if err != nil || v.Validate(m) != nil {
			t.Fatal(err, v.Validate(m))
		}
		again, _ := New(m, "pässword", MinIterations)
		if bytes.Equal(v.Salt, again.Salt) || bytes.Equal(v.StoredKey, again.StoredKey) {
			t.Error("two verifiers of a password are alike")
		}
		if !v.CheckPassword(m, "pässword") || v.CheckPassword(m, "password") || v.CheckPassword(m, "") {
			t.Errorf("%s: passwords are mixed up", m)
		}
	}
}

func TestBoundsAreKept(t *testing.T) {
	long := string(make([]byte, MaxPassword+1))
	for name, make := range map[string]func() (Verifier, error){
		"no password":        func() (Verifier, error) { return New(SHA256, "", 0) },
		"a long one":         func() (Verifier, error) { return New(SHA256, long, 0) },
		"too few iterations": func() (Verifier, error) { return New(SHA256, "x", MinIterations-1) },
		"too many":           func() (Verifier, error) { return New(SHA256, "x", MaxIterations+1) },
		"another mechanism":  func() (Verifier, error) { return New("SCRAM-SHA-1", "x", 0) },
		"no salt":            func() (Verifier, error) { return FromSalted(SHA256, make32(), nil, 4096) },
		"a short password":   func() (Verifier, error) { return FromSalted(SHA512, make32(), []byte("salt"), 4096) },
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if (Verifier{Salt: []byte("s"), Iterations: 4096, StoredKey: make32()}).Validate(SHA256) == nil {
		t.Error("a verifier without server key is taken")
	}
}

func make32() []byte { return make([]byte, sha256.Size) }

// A decoy is as a real verifier looks, always the same for a user, another for
// each user and secret, and no proof fits it that can be made from what it shows.
func TestDecoyLooksReal(t *testing.T) {
	d := Decoy(SHA256, []byte("secret"), "nobody")
	if err := d.Validate(SHA256); err != nil || len(d.Salt) != SaltSize || d.Iterations != DefaultIterations {
		t.Fatal(err, d)
	}
	same := func(a, b Verifier) bool { return subtle.ConstantTimeCompare(a.Salt, b.Salt) == 1 }
	if !same(d, Decoy(SHA256, []byte("secret"), "nobody")) {
		t.Error("asked twice, it shows two salts")
	}
	for _, other := range []Verifier{Decoy(SHA256, []byte("secret"), "noone"), Decoy(SHA256, []byte("other"), "nobody"), Decoy(SHA512, []byte("secret"), "nobody")} {
		if same(d, other) {
			t.Error("two decoys show one salt")
		}
	}
	if d.CheckPassword(SHA256, "") || d.CheckPassword(SHA256, "nobody") {
		t.Error("a password fits")
	}
}
