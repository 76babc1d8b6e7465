package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Listed is what one certificate of a [Folder] says, and what is wrong with it.
type Listed struct {
	File        string     `json:"file"`
	Role        Role       `json:"role"`            // region, client or ca; empty if it is of no mesh
	Name        string     `json:"name"`            // of the region or client
	Access      string     `json:"access,omitzero"` // a client's role in the HTTP API
	Mesh        rhumb.UUID `json:"mesh"`            // zero if it is of no mesh
	Hosts       []string   `json:"hosts"`
	NotBefore   time.Time  `json:"not_before"`
	Expires     time.Time  `json:"expires"`
	Fingerprint string     `json:"fingerprint"` // SHA-256, lower case hexadecimal
	Key         bool       `json:"key"`         // its private key is beside it
	Problems    []string   `json:"problems"`    // in words; empty: none
}

// List reads all certificates of the folder, by file. One that cannot be read is
// listed with its problem. Expired ones are found by now.
func (f *Folder) List(now time.Time) ([]Listed, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, rhumb.Errorf(rhumb.KindNotFound, "certs: %w: make the CA of the mesh with 'rhumb certs init'", err)
		}
		return nil, refused(err)
	}
	caFile, _ := f.CAFiles()
	roots, caErr := readCerts(caFile)
	list := []Listed{}
	for _, e := range entries {
		name, isKey := strings.CutSuffix(e.Name(), keyEnding)
		if cert, _ := f.pair(name); isKey && !exists(cert) {
			list = append(list, Listed{File: cert, Hosts: []string{},
				Problems: []string{"is not there, but its key is: a command was stopped in the middle; give it again"}})
		}
		if !strings.HasSuffix(e.Name(), certEnding) {
			continue
		}
		path := filepath.Join(f.dir, e.Name())
		found, err := readCerts(path)
		if err != nil {
			list = append(list, Listed{File: path, Hosts: []string{}, Problems: []string{err.Error()}})
			continue
		}
		for i, cert := range found {
			l := describe(path, cert, now)
			if i == 0 { // further ones are trusted, and need no key
				l.checkName()
				l.lookAtKey(cert)
				if !l.Key && !cert.IsCA {
					l.Problems = append(l.Problems, "its key is not there")
				}
			}
			l.checkSigner(cert, roots, caErr)
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b Listed) int { return strings.Compare(a.File, b.File) })
	return list, nil
}

// ListFiles reads the certificates of the given files, as a region or client has them,
// or as somebody else's, without the key: then it is none of the problems. The CA is in
// another of the files, else in the ca.crt beside the certificate; without either who
// signed it is not looked at.
func ListFiles(now time.Time, files []string) []Listed {
	list := []Listed{}
	var roots []*x509.Certificate
	found := make([][]*x509.Certificate, len(files))
	for i, file := range files {
		var err error
		if found[i], err = readCerts(file); err != nil {
			list = append(list, Listed{File: file, Hosts: []string{}, Problems: []string{err.Error()}})
		}
		for _, cert := range found[i] {
			if _, ok := meshOfCA(cert); ok {
				roots = append(roots, cert)
			}
		}
	}
	for i, file := range files {
		for n, cert := range found[i] {
			l := describe(file, cert, now)
			if n == 0 {
				l.checkName()
				l.lookAtKey(cert)
			}
			cas := roots
			if len(cas) == 0 {
				caFile, _ := NewFolder(filepath.Dir(file)).CAFiles()
				cas, _ = readCerts(caFile)
			}
			if len(cas) > 0 {
				l.checkSigner(cert, cas, nil)
			}
			list = append(list, l)
		}
	}
	return list
}

func describe(path string, cert *x509.Certificate, now time.Time) Listed {
	l := Listed{File: path, NotBefore: cert.NotBefore.UTC(), Expires: cert.NotAfter.UTC(), Fingerprint: Fingerprint(cert), Hosts: []string{}, Problems: []string{}}
	l.Hosts = append(l.Hosts, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		l.Hosts = append(l.Hosts, ip.String())
	}
	switch mesh, ok := meshOfCA(cert); {
	case ok:
		l.Role, l.Mesh = RoleCA, mesh
	default:
		id, err := IdentityOf(cert)
		if err != nil {
			l.Problems = append(l.Problems, err.Error())
			break
		}
		l.Role, l.Name, l.Mesh, l.Access = id.Role, id.Name, id.Mesh, AccessOf(cert)
	}
	if !now.Before(cert.NotAfter) {
		l.Problems = append(l.Problems, "has ended")
	}
	if now.Before(cert.NotBefore) {
		l.Problems = append(l.Problems, "has not begun yet")
	}
	return l
}

// checkName compares whose certificate it is with what its file is called, where that is
// one of the names that [Folder.Files] gives: a region that is configured by it would show
// its peers another one's.
func (l *Listed) checkName() {
	if l.Role == "" {
		return // of no mesh: that is said already
	}
	base := strings.TrimSuffix(filepath.Base(l.File), certEnding)
	for _, role := range []Role{RoleRegion, RoleClient} {
		name, ok := strings.CutPrefix(base, string(role)+"-")
		if !ok || rhumb.RegionName(name).Validate() != nil || l.Role == role && l.Name == name {
			continue
		}
		holds, again := "the mesh's CA", name+" --force"
		if l.Role != RoleCA {
			holds = fmt.Sprintf("%s %s", l.Role, l.Name)
		}
		if role == RoleClient {
			again += " --client"
		}
		l.Problems = append(l.Problems, fmt.Sprintf("is that of %s, not of %s %s: put the right one there, or make it with 'rhumb certs issue %s'", holds, role, name, again))
	}
}

// checkSigner looks whether the CA beside the certificate signed it.
func (l *Listed) checkSigner(cert *x509.Certificate, roots []*x509.Certificate, caErr error) {
	switch {
	case l.Role == RoleCA:
		return
	case caErr != nil:
		l.Problems = append(l.Problems, "there is no CA beside it to check it with")
		return
	}
	for _, root := range roots {
		if cert.CheckSignatureFrom(root) == nil {
			if mesh, ok := meshOfCA(root); ok && mesh != l.Mesh {
				l.Problems = append(l.Problems, fmt.Sprintf("its CA is of mesh %s", mesh))
			}
			return
		}
	}
	l.Problems = append(l.Problems, "was signed by another CA than the one beside it")
}

// lookAtKey says whether the certificate's key is beside it, and what is wrong with it.
func (l *Listed) lookAtKey(cert *x509.Certificate) {
	wrong := func(what string) { l.Problems = append(l.Problems, what) }
	keyFile := strings.TrimSuffix(l.File, certEnding) + keyEnding
	info, err := os.Stat(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		wrong(err.Error())
		return
	}
	l.Key = true
	key, err := readKey(keyFile)
	if errors.Is(err, fs.ErrPermission) {
		return // who may not read the key may still look at the certificate
	}
	if err != nil {
		wrong(err.Error())
		return
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		wrong("its key is that of another certificate")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		wrong(fmt.Sprintf("its key may be read by others: its mode is %04o, not 0600", mode))
	}
}

// meshOfCA gives the mesh whose CA a certificate is.
func meshOfCA(cert *x509.Certificate) (rhumb.UUID, bool) {
	var mesh rhumb.UUID
	if !cert.IsCA || len(cert.URIs) != 1 || mesh.UnmarshalText([]byte(cert.URIs[0].Host)) != nil {
		return mesh, false
	}
	return mesh, *cert.URIs[0] == *caURI(mesh)
}
