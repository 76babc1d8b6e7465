package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"hash"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Mechanism is the name of a SCRAM mechanism in SASL.
type Mechanism string

// The mechanisms.
const (
	SHA256 Mechanism = "SCRAM-SHA-256"
	SHA512 Mechanism = "SCRAM-SHA-512"
)

// Bounds of a verifier. Those of the iterations are Kafka's: clients refuse less,
// and more would let strangers buy much work of the server with little of theirs.
const (
	MinIterations     = 4096
	MaxIterations     = 16384
	DefaultIterations = 8192
	MaxSalt           = 1024 // bytes
	SaltSize          = 24   // bytes of a salt that is made here
	MaxPassword       = 1024 // bytes
)

func (m Mechanism) hash() func() hash.Hash {
	switch m {
	case SHA256:
		return sha256.New
	case SHA512:
		return sha512.New
	}
	return nil
}

// Size is the length in bytes of the mechanism's keys, proofs and signatures; 0
// for one that is not known.
func (m Mechanism) Size() int {
	if h := m.hash(); h != nil {
		return h().Size()
	}
	return 0
}

// Verifier is what is kept of a password for one mechanism.
type Verifier struct {
	Salt       []byte `json:"salt"`
	Iterations int    `json:"iterations"`
	StoredKey  []byte `json:"stored_key"`
	ServerKey  []byte `json:"server_key"`
}

// New makes the verifier of a password with a salt of its own. Iterations of zero
// mean [DefaultIterations].
func New(m Mechanism, password string, iterations int) (Verifier, error) {
	if password == "" || len(password) > MaxPassword {
		return Verifier{}, rhumb.Errorf(rhumb.KindInvalid, "a password has 1 to %d bytes, not %d", MaxPassword, len(password))
	}
	if iterations == 0 {
		iterations = DefaultIterations
	}
	salt := make([]byte, SaltSize)
	rand.Read(salt) // never fails: crypto/rand aborts the process instead
	if err := check(m, salt, iterations); err != nil {
		return Verifier{}, err
	}
	return FromSalted(m, salted(m, password, salt, iterations), salt, iterations)
}

// FromSalted makes a verifier of a salted password, which is what Kafka's tools
// send instead of the password.
func FromSalted(m Mechanism, saltedPassword, salt []byte, iterations int) (Verifier, error) {
	if err := check(m, salt, iterations); err != nil {
		return Verifier{}, err
	}
	if len(saltedPassword) != m.Size() {
		return Verifier{}, rhumb.Errorf(rhumb.KindInvalid, "a salted password of %s has %d bytes, not %d", m, m.Size(), len(saltedPassword))
	}
	h := m.hash()()
	h.Write(sum(m, saltedPassword, "Client Key"))
	return Verifier{Salt: salt, Iterations: iterations, StoredKey: h.Sum(nil), ServerKey: sum(m, saltedPassword, "Server Key")}, nil
}

// Validate reports whether the verifier can be one of the mechanism.
func (v Verifier) Validate(m Mechanism) error {
	if err := check(m, v.Salt, v.Iterations); err != nil {
		return err
	}
	if len(v.StoredKey) != m.Size() || len(v.ServerKey) != m.Size() {
		return rhumb.Errorf(rhumb.KindInvalid, "keys of %s have %d bytes, not %d and %d", m, m.Size(), len(v.StoredKey), len(v.ServerKey))
	}
	return nil
}

func check(m Mechanism, salt []byte, iterations int) error {
	switch {
	case m.hash() == nil:
		return rhumb.Errorf(rhumb.KindInvalid, "mechanism %q is neither %s nor %s", string(m), SHA256, SHA512)
	case len(salt) == 0 || len(salt) > MaxSalt:
		return rhumb.Errorf(rhumb.KindInvalid, "a salt has 1 to %d bytes, not %d", MaxSalt, len(salt))
	case iterations < MinIterations || iterations > MaxIterations:
		return rhumb.Errorf(rhumb.KindInvalid, "iterations must be %d to %d, not %d", MinIterations, MaxIterations, iterations)
	}
	return nil
}

// CheckPassword reports whether the password is the one that the verifier was
// made of. It takes as long as making one.
func (v Verifier) CheckPassword(m Mechanism, password string) bool {
	h := m.hash()()
	h.Write(sum(m, salted(m, password, v.Salt, v.Iterations), "Client Key"))
	return subtle.ConstantTimeCompare(h.Sum(nil), v.StoredKey) == 1
}

// CheckProof reports whether a client that signed authMessage with the proof
// knows the password.
func (v Verifier) CheckProof(m Mechanism, authMessage string, proof []byte) bool {
	if len(proof) != m.Size() {
		return false
	}
	key := sum(m, v.StoredKey, authMessage)
	subtle.XORBytes(key, key, proof)
	h := m.hash()()
	h.Write(key)
	return subtle.ConstantTimeCompare(h.Sum(nil), v.StoredKey) == 1
}

// ServerSignature proves to the client that the server has the verifier.
func (v Verifier) ServerSignature(m Mechanism, authMessage string) []byte {
	return sum(m, v.ServerKey, authMessage)
}

// Decoy gives the verifier of a user who does not exist, so that asking for him
// looks and takes as long as asking for one who does: the same salt each time,
// and keys that no password fits. secret is known to nobody else.
func Decoy(m Mechanism, secret []byte, user string) Verifier {
	part := func(what string) []byte { return sum(SHA512, secret, what+"\x00"+string(m)+"\x00"+user) }
	return Verifier{
		Salt: part("salt")[:SaltSize], Iterations: DefaultIterations,
		StoredKey: part("stored key")[:m.Size()], ServerKey: part("server key")[:m.Size()],
	}
}

func salted(m Mechanism, password string, salt []byte, iterations int) []byte {
	key, err := pbkdf2.Key(m.hash(), password, salt, iterations, m.Size())
	if err != nil {
		panic("scram: " + err.Error()) // only for lengths that check has ruled out
	}
	return key
}

func sum(m Mechanism, key []byte, text string) []byte {
	h := hmac.New(m.hash(), key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
