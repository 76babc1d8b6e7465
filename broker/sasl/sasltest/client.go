// Package sasltest is the client's side of SCRAM, for tests: its own sums, from
// the RFC, and every step in the test's hands.
package sasltest

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
)

// Client is one exchange. Change its fields to break it.
type Client struct {
	Mechanism, User, Password string
	// Extensions follow the nonce in the first message, such as ",tokenauth=true".
	Extensions string
	// Nonce of the client; New makes a fixed one.
	Nonce string
	// Twice has the last message begin with the nonce twice, as an old client does.
	Twice bool

	bare string
	sign string // what the server has to answer
}

// New makes a client.
func New(mechanism, user, password string) *Client {
	return &Client{Mechanism: mechanism, User: user, Password: password, Nonce: "fyko+d2lbbFgONRv9qkxdawL"}
}

// Plain gives the one message of PLAIN.
func Plain(user, password string) []byte { return []byte("\x00" + user + "\x00" + password) }

// First gives client-first.
func (c *Client) First() []byte {
	name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(c.User)
	c.bare = "n=" + name + ",r=" + c.Nonce + c.Extensions
	return []byte("n,," + c.bare)
}

// Final gives client-final for the server's challenge.
func (c *Client) Final(serverFirst []byte) ([]byte, error) {
	var salt []byte
	var nonce string
	iterations := 0
	for field := range strings.SplitSeq(string(serverFirst), ",") {
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch key {
		case "r":
			nonce = value
		case "s":
			salt, err = base64.StdEncoding.DecodeString(value)
		case "i":
			_, err = fmt.Sscan(value, &iterations)
		}
		if err != nil {
			return nil, err
		}
	}
	if !strings.HasPrefix(nonce, c.Nonce) || len(nonce) <= len(c.Nonce) {
		return nil, fmt.Errorf("nonce %q does not go on from %q", nonce, c.Nonce)
	}
	h, size := func() hash.Hash { return sha256.New() }, sha256.Size
	if strings.HasSuffix(c.Mechanism, "512") {
		h, size = sha512.New, sha512.Size
	}
	mac := func(key []byte, text string) []byte {
		m := hmac.New(h, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	salted, err := pbkdf2.Key(h, c.Password, salt, iterations, size)
	if err != nil {
		return nil, err
	}
	if c.Twice {
		nonce = c.Nonce + nonce
	}
	clientKey := mac(salted, "Client Key")
	stored := h()
	stored.Write(clientKey)
	without := "c=biws,r=" + nonce
	message := c.bare + "," + string(serverFirst) + "," + without
	proof := mac(stored.Sum(nil), message)
	for i := range proof {
		proof[i] ^= clientKey[i]
	}
	c.sign = "v=" + base64.StdEncoding.EncodeToString(mac(mac(salted, "Server Key"), message))
	return []byte(without + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

// Check compares the server's last message with what it has to be.
func (c *Client) Check(serverFinal []byte) error {
	if string(serverFinal) != c.sign {
		return fmt.Errorf("the server proves itself with %q, want %q", serverFinal, c.sign)
	}
	return nil
}
