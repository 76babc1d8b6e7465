package certs

import (
	"crypto/ecdsa"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Endings of the two files of a pair.
const (
	certEnding = ".crt"
	keyEnding  = ".key"
)

// caName is the CA's pair; certificates have their role before their name, so
// that no region can be called like it.
const caName = "ca"

// Folder is a directory that holds a mesh's CA (ca.crt, ca.key) and certificates
// that it signed (region-NAME and client-NAME, .crt and .key). Several processes
// may write into it at once: each holds a lock of the directory meanwhile. A
// private key is written before its certificate, so a crash in between leaves a
// key alone, for which the next call makes the certificate.
type Folder struct {
	dir  string
	step func(name string) error // called before each file is written; tests cut there
}

// NewFolder names a directory. It is made by what first writes into it.
func NewFolder(dir string) *Folder {
	return &Folder{dir: dir, step: func(string) error { return nil }}
}

// Options say how a certificate is made.
type Options struct {
	// Hosts are DNS names and IP addresses of a region, for browsers and clients.
	Hosts []string
	// Access is a client's role in the HTTP API; empty: none.
	Access string
	// Valid is how long; zero: [ValidCA] or [ValidLeaf].
	Valid time.Duration
	// Replace takes the place of a pair that is there, key and certificate.
	Replace bool
}

// Files gives the paths of the pair of a role's name.
func (f *Folder) Files(role Role, name string) (cert, key string) {
	return f.pair(string(role) + "-" + name)
}

// CAFiles gives the paths of the CA's pair.
func (f *Folder) CAFiles() (cert, key string) { return f.pair(caName) }

func (f *Folder) pair(name string) (cert, key string) {
	return filepath.Join(f.dir, name+certEnding), filepath.Join(f.dir, name+keyEnding)
}

// CA reads the folder's CA to sign with.
func (f *Folder) CA() (*CA, error) {
	cert, key := f.CAFiles()
	ca, err := LoadCA(cert, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "%w: make the CA of the mesh with 'rhumb certs init'", err)
	}
	return ca, err
}

// Init makes the CA of a mesh. It is refused, of kind exists, if there is one.
func (f *Folder) Init(mesh rhumb.UUID, o Options) (*CA, error) {
	unlock, err := f.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var ca *CA
	cert, key := f.CAFiles()
	err = f.write(cert, key, o.Replace, func(k *ecdsa.PrivateKey) (p Pair, err error) {
		if ca, err = newCA(mesh, o.Valid, k); err != nil {
			return p, err
		}
		return ca.Pair, nil
	})
	return ca, err
}

// Issue makes a certificate of a region or a client. It is refused, of kind
// exists, if there is one of that name.
func (f *Folder) Issue(role Role, name string, o Options) (Pair, error) {
	if _, err := os.Stat(f.dir); err != nil {
		_, err := f.CA() // says what is missing, and nothing was made
		return Pair{}, err
	}
	unlock, err := f.lock()
	if err != nil {
		return Pair{}, err
	}
	defer unlock()
	ca, err := f.CA()
	if err != nil {
		return Pair{}, err
	}
	if end := ca.Cert.NotAfter; !time.Now().Before(end) {
		return Pair{}, rhumb.Errorf(rhumb.KindForbidden, "certs: the CA in %s ended at %s: nothing that it signs is taken", f.dir, end.UTC().Format(time.RFC3339))
	}
	var made Pair
	cert, key := f.Files(role, name)
	err = f.write(cert, key, o.Replace, func(k *ecdsa.PrivateKey) (Pair, error) {
		made, err = ca.issueTo(Identity{Mesh: ca.Mesh, Role: role, Name: name}, o, k)
		return made, err
	})
	return made, err
}

// issueTo signs for a key; nil makes one.
func (ca *CA) issueTo(id Identity, o Options, key *ecdsa.PrivateKey) (Pair, error) {
	switch id.Role {
	case RoleRegion:
		return ca.issueRegion(rhumb.RegionName(id.Name), o.Hosts, o.Valid, key)
	case RoleClient:
		return ca.issueClient(id.Name, o, key)
	}
	return Pair{}, rhumb.Errorf(rhumb.KindInvalid, "certs: no certificate is made for role %q", id.Role)
}

// write makes a pair and stores it, key first. A key without a certificate is
// what a crash left: it is kept, and gets its certificate.
func (f *Folder) write(certFile, keyFile string, replace bool, make func(*ecdsa.PrivateKey) (Pair, error)) error {
	haveCert, haveKey := exists(certFile), exists(keyFile)
	if haveCert && !replace {
		return rhumb.Errorf(rhumb.KindExists, "certs: %s is there already: --force makes a new key and certificate in its place", certFile)
	}
	var key *ecdsa.PrivateKey
	if haveKey && !haveCert && !replace {
		var err error
		if key, err = readKey(keyFile); err != nil {
			return rhumb.Errorf(rhumb.KindExists, "%w: the key has no certificate and cannot be used; --force makes a new one in its place", err)
		}
	}
	p, err := make(key)
	if err != nil {
		return err
	}
	if key == nil {
		text, err := EncodeKey(p.Key)
		if err != nil {
			return err
		}
		if err := f.put("key", keyFile, text, 0o600); err != nil {
			return err
		}
	}
	return f.put("certificate", certFile, EncodeCerts(p.Cert), 0o644)
}

// put writes one file so that it is there after a power failure.
func (f *Folder) put(what, path string, text []byte, mode os.FileMode) error {
	if err := f.step(what); err != nil {
		return err
	}
	// A writer that was killed may have left a part of the same file. None is at work
	// on it now: the lock is ours.
	left, err := filepath.Glob(filepath.Join(f.dir, tempPattern(path)))
	if err != nil {
		return refused(err)
	}
	for _, file := range left {
		if err := os.Remove(file); err != nil {
			return refused(err)
		}
	}
	if err := writeFile(path, text, mode); err != nil {
		return refused(err)
	}
	d, err := os.Open(f.dir)
	if err != nil {
		return refused(err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// lock makes the directory if it is absent, and keeps other writers out of it
// until what it returns is called, at the latest until the process ends.
func (f *Folder) lock() (unlock func(), err error) {
	if rhumb.IsURL(f.dir) {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: %s is no directory", f.dir)
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, rhumb.Errorf(rhumb.KindForbidden, "certs: make %s: %w", f.dir, err)
	}
	d, err := os.Open(f.dir)
	if err != nil {
		return nil, refused(err)
	}
	for {
		if err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		d.Close()
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "certs: lock %s: %w", f.dir, err)
	}
	return func() { d.Close() }, nil
}

// refused gives what the system says no to a kind that is not worth a retry.
func refused(err error) error {
	return rhumb.Errorf(rhumb.KindForbidden, "certs: %w", err)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
