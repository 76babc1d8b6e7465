package certs

import (
	"crypto/x509"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFilesAreJudgedBeforeTheyAreTaken: files that the check refuses leave those before in
// use until others come, or the check takes them.
func TestFilesAreJudgedBeforeTheyAreTaken(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "x.crt"), filepath.Join(dir, "x.key")
	ca := check(NewCA(mesh, 0))(t)
	put := func(name string) *x509.Certificate {
		t.Helper()
		pair := check(ca.issueTo(Identity{Mesh: mesh, Role: RoleRegion, Name: name}, Options{}, nil))(t)
		if err := pair.Save(cert, key); err != nil {
			t.Fatal(err)
		}
		return pair.Cert
	}
	us := put("us")
	s := check(Open(Files{Cert: cert, Key: key}))(t)
	want := "us"
	s.Check(func(l *Loaded) error {
		if id, _ := l.Identity(); id.Name != want {
			return errors.New("another region's")
		}
		return nil
	})
	eu := put("europe")
	if err := s.Err(); err == nil || !s.Current().Leaf.Equal(us) {
		t.Fatalf("refused files: %v, in use is %v", err, s.Current().Leaf.URIs)
	}
	want = "europe"
	if err := s.Err(); err != nil || !s.Current().Leaf.Equal(eu) {
		t.Fatalf("files that are fine by now: %v, in use is %v", err, s.Current().Leaf.URIs)
	}
}

func TestCertificateThatHasNotBegun(t *testing.T) {
	l := &Loaded{Leaf: &x509.Certificate{NotBefore: time.Now().Add(time.Hour)}}
	if err := l.Begun(); err == nil || !strings.Contains(err.Error(), "is valid from") {
		t.Error(err)
	}
	l.Leaf.NotBefore = time.Now().Add(-time.Hour)
	if err := l.Begun(); err != nil {
		t.Error(err)
	}
	if err := (&Loaded{}).Begun(); err != nil {
		t.Error(err)
	}
}
