package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Pairs that stand beside the CA while it is rolled over.
const (
	nextName = "ca-next" // made, trusted, and does not sign yet
	oldName  = "ca-old"  // trusted, and signs no more
)

// Stage says how far a folder's CA is rolled over.
type Stage string

// The stages, in their order. Files are given to the regions after each step; the
// next one is taken when all regions have them.
const (
	StageNone  Stage = "none"  // one CA
	StageBegun Stage = "begun" // two are trusted, the old one has signed everything
	StageIssue Stage = "issue" // two are trusted, the new one has signed everything
)

// Rolled is what a step of a roll-over left.
type Rolled struct {
	Stage Stage `json:"stage"`
	// Signer is the SHA-256 of the CA that signs, Trusted those in ca.crt.
	Signer  string   `json:"signer"`
	Trusted []string `json:"trusted"`
	// Issued are the certificates that this step made, by file.
	Issued []string `json:"issued"`
}

// Roll tells how far the folder is.
func (f *Folder) Roll() (Rolled, error) {
	ca, err := f.CA()
	if err != nil {
		return Rolled{}, err
	}
	caFile, _ := f.CAFiles()
	trusted, err := readCerts(caFile)
	if err != nil {
		return Rolled{}, err
	}
	r := Rolled{Stage: StageNone, Signer: Fingerprint(ca.Cert), Issued: []string{}}
	for _, c := range trusted {
		r.Trusted = append(r.Trusted, Fingerprint(c))
	}
	_, next := f.pair(nextName)
	switch {
	case exists(next):
		r.Stage = StageBegun
	case len(trusted) > 1:
		r.Stage = StageIssue
	}
	return r, nil
}

// BeginRoll makes another CA of the mesh and has both trusted: ca.crt then holds two
// certificates. The old one goes on to sign. Given again it finishes what was begun.
func (f *Folder) BeginRoll(valid time.Duration) (Rolled, error) {
	return f.rolling(func(now Rolled) error {
		if now.Stage == StageIssue {
			return rhumb.Errorf(rhumb.KindInvalid, "certs: %s trusts two CAs already and the newer one signs: end that roll-over with 'rhumb certs roll finish'", f.dir)
		}
		ca, err := f.CA()
		if err != nil {
			return err
		}
		certFile, keyFile := f.pair(nextName)
		if !exists(certFile) {
			err = f.write(certFile, keyFile, false, func(k *ecdsa.PrivateKey) (Pair, error) {
				next, err := newCA(ca.Mesh, valid, k)
				if err != nil {
					return Pair{}, err
				}
				return next.Pair, nil
			})
			if err != nil {
				return err
			}
		}
		next, err := readCerts(certFile)
		if err != nil {
			return err
		}
		return f.trust(ca.Cert, next[0])
	})
}

// IssueRoll signs every certificate of the folder anew, with the new CA, and lets that
// one sign from then on. Both stay trusted. Given again it finishes what was begun.
func (f *Folder) IssueRoll() (Rolled, error) {
	var issued []string
	r, err := f.rolling(func(now Rolled) error {
		if now.Stage == StageNone {
			return rhumb.Errorf(rhumb.KindInvalid, "certs: there is one CA in %s only: begin with 'rhumb certs roll begin', and give its ca.crt to every region", f.dir)
		}
		old, err := f.CA()
		if err != nil || now.Stage == StageIssue {
			return err
		}
		certFile, keyFile := f.pair(nextName)
		next, err := LoadCA(certFile, keyFile)
		if err != nil {
			return err
		}
		if issued, err = f.reissue(next); err != nil {
			return err
		}
		return f.handOver(old, next)
	})
	r.Issued = append(r.Issued, issued...)
	return r, err
}

// handOver lets the new CA sign. The key is renamed: which certificate of ca.crt signs
// is the one that the key belongs to, so there is no moment without a CA.
func (f *Folder) handOver(old, next *CA) error {
	oldCert, oldKey := f.pair(oldName)
	text, err := EncodeKey(old.Key)
	if err != nil {
		return err
	}
	if err := f.put("old key", oldKey, text, 0o600); err != nil {
		return err
	}
	if err := f.put("old certificate", oldCert, EncodeCerts(old.Cert), 0o644); err != nil {
		return err
	}
	if err := f.trust(next.Cert, old.Cert); err != nil { // the order is for people
		return err
	}
	if err := f.step("hand over"); err != nil {
		return err
	}
	nextCert, nextKey := f.pair(nextName)
	_, key := f.CAFiles()
	if err := os.Rename(nextKey, key); err != nil {
		return refused(err)
	}
	return f.drop(nextCert)
}

// FinishRoll ends the trust in the old CA and removes its key. Every certificate of the
// folder must be of the new one.
func (f *Folder) FinishRoll() (Rolled, error) {
	return f.rolling(func(now Rolled) error {
		oldCert, oldKey := f.pair(oldName)
		nextCert, _ := f.pair(nextName)
		switch now.Stage {
		case StageNone: // nothing to do, but for what a stop in the middle left
			return f.drop(oldCert, oldKey, nextCert)
		case StageBegun:
			return rhumb.Errorf(rhumb.KindInvalid, "certs: the new CA in %s has signed nothing yet: 'rhumb certs roll issue' comes first", f.dir)
		}
		ca, err := f.CA()
		if err != nil {
			return err
		}
		left, err := f.leaves(func(c *x509.Certificate) bool { return c.CheckSignatureFrom(ca.Cert) != nil })
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return rhumb.Errorf(rhumb.KindInvalid, "certs: %s: of the old CA still: issue it anew with --force, or remove it", strings.Join(left, ", "))
		}
		if err := f.trust(ca.Cert); err != nil {
			return err
		}
		return f.drop(oldCert, oldKey, nextCert)
	})
}

// rolling runs a step under the folder's lock, and tells what it left.
func (f *Folder) rolling(step func(now Rolled) error) (Rolled, error) {
	if _, err := f.CA(); err != nil {
		return Rolled{}, err
	}
	unlock, err := f.lock()
	if err != nil {
		return Rolled{}, err
	}
	defer unlock()
	now, err := f.Roll()
	if err == nil {
		err = step(now)
	}
	if err != nil {
		return Rolled{}, err
	}
	return f.Roll()
}

// trust makes ca.crt hold these certificates, and any other that it held and that was
// put there by hand is left out.
func (f *Folder) trust(cas ...*x509.Certificate) error {
	caFile, _ := f.CAFiles()
	return f.put("ca.crt", caFile, EncodeCerts(cas...), 0o644)
}

// drop removes files that may be absent.
func (f *Folder) drop(files ...string) error {
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return refused(err)
		}
	}
	return nil
}

// leaves gives the files of regions' and clients' certificates that fit.
func (f *Folder) leaves(fits func(*x509.Certificate) bool) ([]string, error) {
	var out []string
	for _, role := range []Role{RoleRegion, RoleClient} {
		files, err := filepath.Glob(filepath.Join(f.dir, string(role)+"-*"+certEnding))
		if err != nil {
			return nil, refused(err)
		}
		for _, file := range files {
			found, err := readCerts(file)
			if err != nil {
				return nil, err
			}
			if fits(found[0]) {
				out = append(out, file)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// reissue makes every certificate anew that another CA signed, or whose key is not
// beside it, with the names and for as long as before.
func (f *Folder) reissue(ca *CA) (issued []string, err error) {
	files, err := f.leaves(func(*x509.Certificate) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		found, err := readCerts(file)
		if err != nil {
			return issued, err
		}
		was := found[0]
		key := Listed{File: file}
		key.lookAtKey(was)
		if was.CheckSignatureFrom(ca.Cert) == nil && key.Key && len(key.Problems) == 0 {
			continue // by an earlier try
		}
		id, err := IdentityOf(was)
		if err != nil {
			return issued, err
		}
		o := Options{Hosts: describe(file, was, time.Now()).Hosts, Valid: was.NotAfter.Sub(was.NotBefore) - backdate, Access: AccessOf(was)}
		err = f.write(file, strings.TrimSuffix(file, certEnding)+keyEnding, true, func(*ecdsa.PrivateKey) (Pair, error) {
			return ca.issueTo(Identity{Mesh: ca.Mesh, Role: id.Role, Name: id.Name}, o, nil)
		})
		if err != nil {
			return issued, err
		}
		issued = append(issued, file)
	}
	return issued, nil
}
