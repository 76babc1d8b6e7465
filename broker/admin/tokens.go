package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Lengths of a token in bytes: a shorter one can be guessed.
const (
	MinTokenBytes = 16
	MaxTokenBytes = 4 << 10
)

// Token lets whoever has it call the API.
type Token struct {
	// Name of who it was given to, for audit lines.
	Name string
	Role Role
	// Secret is the token itself, or File names a file that holds it: white space
	// at its end is ignored, and a file that was replaced is read again.
	Secret, File string
}

// Tokens are all tokens of a listener. A nil *Tokens holds none.
type Tokens struct {
	mu  sync.Mutex
	all []heldToken
}

type heldToken struct {
	Token
	sum  [sha256.Size]byte
	good bool        // sum is that of a secret; else nobody has the token
	info os.FileInfo // of the file as it was read
	err  error       // why it is not good
}

// OpenTokens reads the tokens' files. Later a file that is gone or cannot be used
// is a token that nobody has; [Tokens.Problems] tells of it.
func OpenTokens(all []Token) (*Tokens, error) {
	t := &Tokens{}
	for _, token := range all {
		h := heldToken{Token: token}
		if token.File == "" {
			h.take(token.Secret)
		} else {
			h.look()
		}
		if h.err != nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "admin: token %s: %w", token.Name, h.err)
		}
		t.all = append(t.all, h)
	}
	return t, nil
}

// CheckToken refuses a secret that is too short, or cannot stand in a header.
func CheckToken(secret string) error {
	switch {
	case secret == "":
		return fmt.Errorf("is empty")
	case len(secret) < MinTokenBytes || len(secret) > MaxTokenBytes:
		return fmt.Errorf("has %d bytes, %d to %d are needed", len(secret), MinTokenBytes, MaxTokenBytes)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("must be of visible ASCII without spaces")
	}
	return nil
}

func (h *heldToken) take(secret string) {
	h.err = CheckToken(secret)
	h.good = h.err == nil
	h.sum = sha256.Sum256([]byte(secret))
}

// look reads the file if it is another one than before, or was written since.
func (h *heldToken) look() {
	info, err := os.Stat(h.File)
	if err != nil {
		h.good, h.info, h.err = false, nil, err
		return
	}
	if h.info != nil && os.SameFile(h.info, info) && h.info.Size() == info.Size() && h.info.ModTime().Equal(info.ModTime()) {
		return
	}
	h.good, h.info = false, info
	f, err := os.Open(h.File)
	if err != nil {
		h.err = err
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2*MaxTokenBytes))
	if err != nil {
		h.err = err
		return
	}
	if h.take(strings.TrimRight(string(text), " \t\r\n")); h.err != nil {
		h.err = fmt.Errorf("%s %w", h.File, h.err)
	}
}

// find gives who a secret was given to. It takes as long whichever token it is.
func (t *Tokens) find(secret string) (caller, bool) {
	if t == nil {
		return caller{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := sha256.Sum256([]byte(secret))
	var found caller
	for i := range t.all {
		h := &t.all[i]
		if h.File != "" {
			h.look()
		}
		if subtle.ConstantTimeCompare(sum[:], h.sum[:]) == 1 && h.good && (found.role == 0 || h.Role < found.role) {
			found = caller{name: h.Name, role: h.Role} // of two with one secret the lower role counts
		}
	}
	return found, found.role != 0
}

// Problems says which tokens nobody has, because of their files, and why.
func (t *Tokens) Problems() map[string]error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]error{}
	for i := range t.all {
		h := &t.all[i]
		if h.File != "" {
			h.look()
		}
		if h.err != nil {
			out[h.Name] = h.err
		}
	}
	return out
}

// Shared says which tokens have the secret of another one that counts instead, and of
// which: their files hold the same.
func (t *Tokens) Shared() map[string]Token {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[[sha256.Size]byte]*heldToken{}
	for i := range t.all {
		if h := &t.all[i]; h.good && (counts[h.sum] == nil || h.Role < counts[h.sum].Role) {
			counts[h.sum] = h
		}
	}
	out := map[string]Token{}
	for i := range t.all {
		if h := &t.all[i]; h.good && counts[h.sum] != h {
			out[h.Name] = counts[h.sum].Token
		}
	}
	return out
}
