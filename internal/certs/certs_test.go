package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var mesh = rhumb.UUID{1: 7}

// check ends the test on an error.
func check[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func region(t *testing.T, ca *CA, name rhumb.RegionName, roots ...*CA) *Source {
	t.Helper()
	pair := check(ca.IssueRegion(name, nil, 0))(t)
	return check(New(rootsOf(ca, roots...), pair))(t)
}

func rootsOf(ca *CA, more ...*CA) []*x509.Certificate {
	out := []*x509.Certificate{ca.Cert}
	for _, c := range more {
		out = append(out, c.Cert)
	}
	return out
}

// shake runs a handshake over a pipe and gives both sides' errors.
func shake(t *testing.T, server, client *tls.Config) (peer tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	s := tls.Server(a, server)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := s.HandshakeContext(ctx)
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
		a.Close()
	}()
	c := tls.Client(b, client)
	clientErr = c.HandshakeContext(ctx)
	if clientErr == nil { // in TLS 1.3 the server refuses after the client is done
		_, clientErr = c.Read(make([]byte, 1))
	}
	b.Close()
	serverErr = <-done
	return s.ConnectionState(), serverErr, clientErr
}

func TestLinkKnowsItsPeer(t *testing.T) {
	ca := check(NewCA(mesh, 0))(t)
	us, eu := region(t, ca, "us"), region(t, ca, "eu")
	state, serverErr, clientErr := shake(t, LinkServer(eu, mesh), LinkClient(us, mesh, "eu"))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	peer := check(PeerOf(state))(t)
	if peer != (Identity{mesh, RoleRegion, "us"}) || state.NegotiatedProtocol != ALPN || state.Version != tls.VersionTLS13 {
		t.Fatalf("%v over %q", peer, state.NegotiatedProtocol)
	}
}

// TestRefusalsNameWhatDiffers gives each side, in turn, a peer that it must refuse.
func TestRefusalsNameWhatDiffers(t *testing.T) {
	other := rhumb.UUID{1: 8}
	ca, otherCA := check(NewCA(mesh, 0))(t), check(NewCA(mesh, 0))(t)
	otherMesh := check(NewCA(other, 0))(t)
	us, eu := region(t, ca, "us"), region(t, ca, "eu")
	client := check(New(rootsOf(ca), check(ca.IssueClient("alice", 0))(t)))(t)
	// A certificate of another mesh, signed by a CA that is trusted all the same.
	foreign := check(New(rootsOf(ca), check((&CA{ca.Pair, other}).IssueRegion("us", nil, 0))(t)))(t)
	plain := check(New(rootsOf(ca), check(ca.issue(template("plain", time.Hour), Identity{Role: "nothing"}, nil))(t)))(t)
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		atServer       bool // who refuses
		want           []string
	}{
		{"another region than dialled", LinkServer(eu, mesh), LinkClient(us, mesh, "ap"), false, []string{"region", `"eu"`, `"ap"`}},
		{"another mesh", LinkServer(eu, mesh), LinkClient(foreign, mesh, "eu"), true, []string{"mesh", mesh.String(), other.String()}},
		{"another mesh's CA", LinkServer(eu, mesh), LinkClient(region(t, otherMesh, "us", ca), mesh, "eu"), true, []string{"another CA", "region/us", other.String()}},
		{"another CA of the mesh", LinkServer(region(t, otherCA, "eu"), mesh), LinkClient(us, mesh, "eu"), false, []string{"another CA", "region/eu"}},
		{"a client on a link", LinkServer(eu, mesh), LinkClient(client, mesh, "eu"), true, []string{"certificate"}},
		{"no identity", LinkServer(eu, mesh), LinkClient(plain, mesh, "eu"), true, []string{"neither", "region"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, serverErr, clientErr := shake(t, c.server, c.client)
			err := clientErr
			if c.atServer {
				err = serverErr
			}
			if err == nil || serverErr == nil {
				t.Fatalf("server %v, client %v", serverErr, clientErr)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
			if rhumb.KindOf(err) != rhumb.KindForbidden {
				t.Errorf("kind %v", rhumb.KindOf(err))
			}
		})
	}
}

func TestAdminTakesClientCertificatesOnlyWithCA(t *testing.T) {
	ca := check(NewCA(mesh, 0))(t)
	us, eu := region(t, ca, "us"), region(t, ca, "eu")
	alice := check(New(rootsOf(ca), check(ca.IssueClient("alice", 0))(t)))(t)
	nobody := check(New(rootsOf(ca), Pair{}))(t)
	stranger := check(New(rootsOf(ca), check(check(NewCA(mesh, 0))(t).IssueClient("alice", 0))(t)))(t)
	open := check(New(nil, check(ca.IssueRegion("eu", []string{"127.0.0.1", "eu.example"}, 0))(t)))(t)
	for name, c := range map[string]struct {
		server, client *Source
		region         rhumb.RegionName
		ok             bool
	}{
		"a client of the mesh":          {eu, alice, "eu", true},
		"any region":                    {eu, alice, "", true},
		"nobody":                        {eu, nobody, "eu", true}, // HTTP says that one is needed
		"a client of another CA":        {eu, stranger, "eu", false},
		"a region as a client":          {eu, us, "eu", false},
		"nobody where none are asked":   {open, nobody, "eu", true},
		"somebody where none are asked": {open, alice, "", true},
	} {
		for _, m := range []rhumb.UUID{mesh, {}} { // an operator may not know the mesh
			cs, serverErr, clientErr := shake(t, AdminServer(c.server), AdminClient(c.client, m, c.region))
			if serverErr != nil || clientErr != nil {
				t.Fatalf("%s: server %v, client %v", name, serverErr, clientErr)
			}
			cert, err := AdminPeer(c.server, mesh, cs)
			if (err == nil) != c.ok || (cert != nil) != (c.server == eu && c.client != nobody) || err != nil && rhumb.KindOf(err) != rhumb.KindForbidden {
				t.Errorf("%s: certificate %v, %v", name, cert != nil, err)
			}
		}
	}
	// A client that knows nothing of meshes checks the host's name, as browsers do.
	std := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "eu.example"}
	std.RootCAs.AddCert(ca.Cert)
	if _, serverErr, clientErr := shake(t, Server(open), std); serverErr != nil || clientErr != nil {
		t.Errorf("server %v, client %v", serverErr, clientErr)
	}
}

func TestExpiredCertificateIsRefusedWithItsTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ca := check(NewCA(mesh, 0))(t)
		us, eu := region(t, ca, "us"), region(t, ca, "eu")
		if end := us.Current().Expiry(); time.Until(end) > ValidLeaf || time.Until(end) < ValidLeaf-time.Minute {
			t.Fatalf("ends in %v", time.Until(end))
		}
		<-time.After(ValidLeaf + time.Second)
		_, _, clientErr := shake(t, LinkServer(eu, mesh), LinkClient(us, mesh, "eu"))
		if clientErr == nil || !strings.Contains(clientErr.Error(), "valid from") || !strings.Contains(clientErr.Error(), "now is 2000-12-31") {
			t.Fatal(clientErr)
		}
	})
}

func TestLeafDoesNotOutliveItsCA(t *testing.T) {
	ca := check(NewCA(mesh, time.Hour))(t)
	if leaf := check(ca.IssueRegion("us", nil, 0))(t); leaf.Cert.NotAfter.After(ca.Cert.NotAfter) {
		t.Fatalf("leaf ends %v, CA ends %v", leaf.Cert.NotAfter, ca.Cert.NotAfter)
	}
}

// TestRolloverOfTheCA changes a region's files step by step while the other region
// connects, as an operator does who rolls the CA over.
func TestRolloverOfTheCA(t *testing.T) {
	dir := t.TempDir()
	files := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "us.pem"), Key: filepath.Join(dir, "us.key")}
	old, fresh := check(NewCA(mesh, 0))(t), check(NewCA(mesh, 0))(t)
	stamp := time.Now()
	write := func(name string, data []byte) {
		t.Helper()
		if err := writeFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		stamp = stamp.Add(time.Second) // two writes within one tick of the file system's clock
		if err := os.Chtimes(name, stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	pair := func(ca *CA) {
		t.Helper()
		p := check(ca.IssueRegion("us", nil, 0))(t)
		write(files.Key, check(EncodeKey(p.Key))(t))
		write(files.Cert, EncodeCerts(p.Cert))
	}
	write(files.CA, EncodeCerts(old.Cert))
	pair(old)
	us := check(Open(files))(t)
	dialable := func(peer *Source) error {
		_, serverErr, clientErr := shake(t, LinkServer(us, mesh), LinkClient(peer, mesh, "us"))
		return errors.Join(serverErr, clientErr)
	}
	oldPeer, bothPeer, newPeer := region(t, old, "eu"), region(t, fresh, "eu", old), region(t, fresh, "eu")
	if err := dialable(oldPeer); err != nil {
		t.Fatal(err)
	}
	if err := dialable(bothPeer); err == nil {
		t.Fatal("a CA is trusted before it is in the file")
	}
	write(files.CA, EncodeCerts(old.Cert, fresh.Cert))
	for _, peer := range []*Source{oldPeer, bothPeer} {
		if err := dialable(peer); err != nil {
			t.Fatal(err)
		}
	}
	write(files.Key, []byte("half of a change"))
	if err := dialable(bothPeer); err != nil || us.Err() == nil {
		t.Fatalf("half of a change: %v, told as %v", err, us.Err())
	}
	pair(fresh)
	write(files.CA, EncodeCerts(fresh.Cert))
	if err := dialable(newPeer); err != nil || us.Err() != nil {
		t.Fatal(err, us.Err())
	}
	if err := dialable(oldPeer); err == nil {
		t.Fatal("the old CA is still trusted")
	}
}

func TestSavedFilesComeBack(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	ca := check(NewCA(mesh, 0))(t)
	if err := ca.Save(cert, key); err != nil {
		t.Fatal(err)
	}
	if info := check(os.Stat(key))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v", info.Mode())
	}
	back := check(LoadCA(cert, key))(t)
	if back.Mesh != mesh || Fingerprint(back.Cert) != Fingerprint(ca.Cert) || len(Fingerprint(ca.Cert)) != 64 {
		t.Errorf("%v", back.Mesh)
	}
	if end := check(Expiry(cert))(t); !end.Equal(ca.Cert.NotAfter) {
		t.Errorf("expiry %v", end)
	}
	leaf := check(back.IssueRegion("us", nil, 0))(t)
	if err := leaf.Save(filepath.Join(dir, "us.pem"), filepath.Join(dir, "us.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCA(filepath.Join(dir, "us.pem"), filepath.Join(dir, "us.key")); err == nil {
		t.Error("a region's certificate is taken for a CA")
	}
	if _, err := LoadCA(cert, filepath.Join(dir, "us.key")); err == nil {
		t.Error("the key of another certificate is taken")
	}
	if src := check(Open(Files{Cert: filepath.Join(dir, "us.pem"), Key: filepath.Join(dir, "us.key")}))(t); src.Err() != nil {
		t.Error(src.Err())
	} else if id, ok := src.Current().Identity(); !ok || id.Name != "us" {
		t.Errorf("identity %v", id)
	}
	if _, err := Open(Files{}); err == nil {
		t.Error("no files at all are taken")
	}
}

func TestNamesAreChecked(t *testing.T) {
	ca := check(NewCA(mesh, 0))(t)
	if _, err := ca.IssueRegion("US", nil, 0); err == nil {
		t.Error("region US")
	}
	if _, err := ca.IssueClient("a/b", 0); err == nil {
		t.Error("client a/b")
	}
	if _, err := NewCA(rhumb.UUID{}, 0); err == nil {
		t.Error("no mesh")
	}
}

func FuzzDecodeCerts(f *testing.F) {
	ca, err := NewCA(mesh, 0)
	if err != nil {
		f.Fatal(err)
	}
	leaf, err := ca.IssueRegion("us", []string{"h"}, 0)
	if err != nil {
		f.Fatal(err)
	}
	key, err := EncodeKey(leaf.Key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(EncodeCerts(ca.Cert, leaf.Cert))
	f.Add(key)
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = DecodeKey(data)
		certs, err := DecodeCerts(data)
		if err != nil {
			return
		}
		for _, c := range certs {
			_, _ = IdentityOf(c)
		}
	})
}

// TestCommonNameOfAClient: a rule for a client's name fits the certificate that is
// made for it, and one of older builds, and no other.
func TestCommonNameOfAClient(t *testing.T) {
	ca := check(NewCA(mesh, 0))(t)
	bob, err := ca.IssueClient("bob", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := bob.Cert.Subject.String(); got != "CN=bob" {
		t.Errorf("the subject is %s", got)
	}
	old, stranger, region := *bob.Cert, *bob.Cert, *bob.Cert
	old.Subject.CommonName = "client bob"
	stranger.Subject.CommonName, stranger.URIs = "client bob", nil
	region.Subject.CommonName, region.URIs = "region us", []*url.URL{Identity{Mesh: ca.Mesh, Role: RoleRegion, Name: "us"}.uri()}
	for _, c := range []struct {
		cert *x509.Certificate
		rule string
		fits bool
	}{
		{bob.Cert, "bob", true}, {bob.Cert, "client bob", true}, {bob.Cert, "client client bob", false}, {bob.Cert, "bo", false},
		{&old, "bob", true}, {&old, "client bob", true}, {&old, "client", false},
		{&stranger, "client bob", true}, {&stranger, "bob", false},
		{&region, "region us", true}, {&region, "us", false},
	} {
		if HasCommonName(c.cert, c.rule) != c.fits {
			t.Errorf("%s, %v, with a rule for %q: fits %t", c.cert.Subject, c.cert.URIs, c.rule, !c.fits)
		}
	}
}
