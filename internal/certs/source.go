package certs

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Files names the files of one side of a connection.
type Files struct {
	CA   string // certificates that are trusted, one or several; empty: none
	Cert string // own certificate; empty: none
	Key  string // its key
}

// Loaded is what the files hold at one moment.
type Loaded struct {
	Roots    []*x509.Certificate
	Leaf     *x509.Certificate // nil if no certificate is configured
	pool     *x509.CertPool
	pair     *tls.Certificate
	identity Identity // of Leaf; zero if it has none
}

// Identity gives who the own certificate says that this side is. ok is false if
// it has no identity of a mesh (a certificate of a public CA, for clients).
func (l *Loaded) Identity() (id Identity, ok bool) { return l.identity, l.identity != Identity{} }

// Signer gives the root that signed the own certificate, nil if none did or there is
// no own certificate.
func (l *Loaded) Signer() *x509.Certificate {
	for _, root := range l.Roots {
		if l.Leaf != nil && l.Leaf.CheckSignatureFrom(root) == nil {
			return root
		}
	}
	return nil
}

// Begun is an error if the own certificate is not valid yet.
func (l *Loaded) Begun() error {
	if l.Leaf == nil || !time.Now().Before(l.Leaf.NotBefore) {
		return nil
	}
	return rhumb.Errorf(rhumb.KindInvalid, "the certificate is valid from %s on, and now it is %s", l.Leaf.NotBefore.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
}

// Expiry gives when the first of the certificates in use ends.
func (l *Loaded) Expiry() time.Time {
	certs := l.Roots
	if l.Leaf != nil {
		certs = append([]*x509.Certificate{l.Leaf}, certs...)
	}
	return earliest(certs)
}

// Source gives the current content of certificate files.
type Source struct {
	files Files // fixed

	mu     sync.Mutex
	check  func(*Loaded) error
	loaded *Loaded
	stamps [3]stamp
	err    error
}

// stamp tells a replaced file from the one that was read.
type stamp struct {
	size  int64
	mtime time.Time
}

// Open reads the files and checks that they belong together.
func Open(files Files) (*Source, error) {
	s := &Source{files: files, stamps: stampsOf(files)}
	loaded, err := load(files)
	if err != nil {
		return nil, err
	}
	s.loaded = loaded
	return s, nil
}

// New makes a Source of what is in memory; it never changes.
func New(roots []*x509.Certificate, own Pair) (*Source, error) {
	l := &Loaded{Roots: roots, Leaf: own.Cert}
	if own.Cert != nil {
		l.pair = &tls.Certificate{Certificate: [][]byte{own.Cert.Raw}, PrivateKey: own.Key, Leaf: own.Cert}
	}
	if err := l.finish(); err != nil {
		return nil, err
	}
	return &Source{loaded: l}, nil
}

// Current gives the content of the files, read again if they changed.
func (s *Source) Current() *Loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == (Files{}) {
		return s.loaded
	}
	if now := stampsOf(s.files); now != s.stamps {
		loaded, err := load(s.files)
		if err == nil && s.check != nil {
			err = s.check(loaded)
		}
		if s.err = err; err == nil {
			// Only now: a pair of which one half is new is looked at again, and what is
			// refused today.
			s.loaded, s.stamps = loaded, now
		}
	}
	return s.loaded
}

// Check has files that change judged before they are taken: with an error those before
// stay in use, and [Source.Err] gives it. What is in use already stays.
func (s *Source) Check(check func(*Loaded) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check = check
}

// Err says why the files as they are now cannot be used; nil if they are in use.
func (s *Source) Err() error {
	s.Current()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func stampsOf(f Files) (out [3]stamp) {
	for i, name := range []string{f.CA, f.Cert, f.Key} {
		if info, err := os.Stat(name); err == nil {
			out[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return out
}

func load(f Files) (*Loaded, error) {
	l := &Loaded{}
	if f.CA != "" {
		roots, err := readCerts(f.CA)
		if err != nil {
			return nil, err
		}
		l.Roots = roots
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		l.pair, l.Leaf = &pair, pair.Leaf
	}
	return l, l.finish()
}

// finish derives the pool and the identity.
func (l *Loaded) finish() error {
	if l.Leaf == nil && len(l.Roots) == 0 {
		return rhumb.Errorf(rhumb.KindInvalid, "certs: neither a CA nor a certificate is given")
	}
	l.pool = x509.NewCertPool()
	for _, c := range l.Roots {
		l.pool.AddCert(c)
	}
	if l.Leaf == nil {
		return nil
	}
	if id, err := IdentityOf(l.Leaf); err == nil {
		l.identity = id
	}
	return nil
}
