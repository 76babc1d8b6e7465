package consul

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// secured is an HTTPS server that has no keys, with a certificate of the CA for
// 127.0.0.1, and wants a client certificate of the same CA.
func secured(t *testing.T, ca *certs.CA) (addr string) {
	t.Helper()
	pair, err := ca.IssueRegion("consul", []string{"127.0.0.1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{pair.Cert.Raw}, PrivateKey: pair.Key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "https://")
}

func newCA(t *testing.T, dir string) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA(rhumb.NewUUID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	saveClient(t, ca, dir)
	return ca
}

// saveClient writes the CA and a client certificate of it.
func saveClient(t *testing.T, ca *certs.CA, dir string) {
	t.Helper()
	client, err := ca.IssueClient("rhumb", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.Save(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")),
		ca.Save(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))); err != nil {
		t.Fatal(err)
	}
}

// The files of TLS are used, in both directions, and read again when they change.
func TestTLSFiles(t *testing.T) {
	setEnvironment(t, nil)
	dir, elsewhere := t.TempDir(), t.TempDir()
	first, second := newCA(t, dir), newCA(t, elsewhere)
	files := TLS{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "client.crt"), Key: filepath.Join(dir, "client.key")}
	ask := func(addr string, files TLS) error {
		t.Helper()
		s, err := Open(Config{Address: addr, TLS: files})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Get(t.Context(), configstore.MeshKey)
		return err
	}
	old, fresh := secured(t, first), secured(t, second)
	if err := ask(old, files); !errors.Is(err, configstore.ErrNotFound) {
		t.Fatalf("with the right files: %v", err)
	}
	for name, c := range map[string]struct {
		addr  string
		files TLS
	}{
		"another CA":     {fresh, files},
		"no certificate": {old, TLS{CA: files.CA}},
		"another name":   {old, TLS{CA: files.CA, Cert: files.Cert, Key: files.Key, ServerName: "server.dc1.consul"}},
		"another port":   {strings.Replace(old, "127.0.0.1", "localhost", 1), files}, // a name that the certificate lacks
		"system's CAs":   {old, TLS{Cert: files.Cert, Key: files.Key}},
	} {
		if err := ask(c.addr, c.files); rhumb.KindOf(err) != rhumb.KindUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ask(old, TLS{CA: filepath.Join(dir, "none.crt")}); rhumb.KindOf(err) != rhumb.KindInvalid {
		t.Errorf("a CA that is no file: %v", err)
	}
	s, err := Open(Config{Address: fresh, TLS: files})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Get(t.Context(), configstore.MeshKey); errors.Is(err, configstore.ErrNotFound) {
		t.Fatal("a server of another CA was trusted")
	}
	saveClient(t, second, dir)
	if _, err := s.Get(t.Context(), configstore.MeshKey); !errors.Is(err, configstore.ErrNotFound) {
		t.Fatalf("after the files were replaced: %v", err)
	}
}

// What only the environment can ask for works too.
func TestTLSOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	ca := newCA(t, dir)
	addr := secured(t, ca)
	env := map[string]string{"CONSUL_HTTP_ADDR": addr, "CONSUL_HTTP_SSL": "true", "CONSUL_CACERT": filepath.Join(dir, "ca.crt"),
		"CONSUL_CLIENT_CERT": filepath.Join(dir, "client.crt"), "CONSUL_CLIENT_KEY": filepath.Join(dir, "client.key")}
	setEnvironment(t, env)
	ask := func() error {
		s, err := Open(Config{})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Get(t.Context(), configstore.MeshKey)
		return err
	}
	if err := ask(); !errors.Is(err, configstore.ErrNotFound) {
		t.Errorf("with the environment's files: %v", err)
	}
	env["CONSUL_CACERT"] = ""
	setEnvironment(t, env)
	if err := ask(); errors.Is(err, configstore.ErrNotFound) {
		t.Error("a server that nobody vouches for was trusted")
	}
	env["CONSUL_HTTP_SSL_VERIFY"] = "false"
	setEnvironment(t, env)
	if err := ask(); !errors.Is(err, configstore.ErrNotFound) {
		t.Errorf("without a check: %v", err)
	}
}
