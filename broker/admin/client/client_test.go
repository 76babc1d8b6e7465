package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func dial(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answering is a server that gives one fixed answer to everything.
func answering(t *testing.T, status int, body string) *client.Client {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(web.Close)
	return dial(t, client.Config{URL: web.URL + "/"})
}

// TestDigestCutOffIsNotTheEnd: only the server's own word ends a digest; a
// shorter stream must never look like a shorter log.
func TestDigestCutOffIsNotTheEnd(t *testing.T) {
	const batch = `{"batch":{"first":"0","last":"1","count":2,"crc":"00","hash":"00"}}` + "\n"
	for _, c := range []struct {
		name, body string
		end        error
		kind       rhumb.Kind
	}{
		{"complete", batch + `{"end":{"batches":"1","bytes":"9","log_end":"2"}}` + "\n", io.EOF, rhumb.KindInternal},
		{"cut between lines", batch, nil, rhumb.KindUnavailable},
		{"cut within a line", batch + `{"end":{"ba`, nil, rhumb.KindUnavailable},
		{"error in the middle", batch + `{"error":{"kind":"corrupt","message":"bad"}}` + "\n", nil, rhumb.KindCorrupt},
		{"line of a later version", batch + `{"chapter":{}}` + "\n", nil, rhumb.KindUnsupported},
		{"line without end", batch + strings.Repeat("x", 100<<10), nil, rhumb.KindUnavailable},
	} {
		s, err := answering(t, 200, c.body).Digest(t.Context(), api.DigestQuery{Topic: rhumb.Topic{Tenant: "a", Namespace: "b", Name: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		if line, err := s.Next(); err != nil || line.Batch == nil || line.Batch.Last != 1 {
			t.Errorf("%s: first line %+v, %v", c.name, line, err)
		}
		_, err = s.Next()
		if c.end != nil && !errors.Is(err, c.end) || c.end == nil && (errors.Is(err, io.EOF) || rhumb.KindOf(err) != c.kind) {
			t.Errorf("%s: error %v of kind %s", c.name, err, rhumb.KindOf(err))
		}
		s.Close()
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		kind   rhumb.Kind
		text   string
	}{
		{404, `{"error":{"kind":"not found","message":"no such thing; see there"}}`, rhumb.KindNotFound, "no such thing; see there"},
		{409, `{"error":{"kind":"of a later version","message":"m"}}`, rhumb.KindInternal, "m"},
		{502, `<html>`, rhumb.KindUnavailable, "not Rhumb's admin API"},
		{200, `<html>`, rhumb.KindUnavailable, "not JSON"},
	} {
		_, err := answering(t, c.status, c.body).Topics(t.Context())
		if rhumb.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%d %s: %v of kind %s", c.status, c.body, err, rhumb.KindOf(err))
		}
	}
	if _, err := dial(t, client.Config{URL: "127.0.0.1:1"}).Topics(t.Context()); rhumb.KindOf(err) != rhumb.KindUnavailable {
		t.Errorf("nobody there: %v", err)
	}
	for _, url := range []string{"", "ftp://x", "http://", "http://a b"} {
		if _, err := client.New(client.Config{URL: url}); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestChangeThatIsCutMayHaveHappened: a region that goes away in the middle of a change has
// perhaps made it; one that cannot be reached has not, and a question changes nothing.
func TestChangeThatIsCutMayHaveHappened(t *testing.T) {
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	t.Cleanup(cut.Close)
	const perhaps = "may or may not have happened: look before trying again"
	for url, want := range map[string]bool{cut.URL: true, "http://127.0.0.1:1": false} {
		c := dial(t, client.Config{URL: url})
		_, err := c.RegisterRegion(t.Context(), "eu", api.MemberChange{})
		if rhumb.KindOf(err) != rhumb.KindUnavailable || strings.Contains(err.Error(), perhaps) != want || want == strings.Contains(err.Error(), "cannot reach") {
			t.Errorf("a change at %s: %v", url, err)
		}
		if _, err := c.Topics(t.Context()); rhumb.KindOf(err) != rhumb.KindUnavailable || strings.Contains(err.Error(), perhaps) {
			t.Errorf("a question to %s: %v", url, err)
		}
	}
}

func TestTLSAndToken(t *testing.T) {
	cfg := admintest.New("us", 1).Config()
	cfg.Token = "secret"
	s, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(s.Handler())
	t.Cleanup(web.Close)
	web.Config.ErrorLog = nil
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := dial(t, client.Config{URL: web.URL, Token: "secret", CACert: ca}).Region(t.Context()); err != nil || info.Name != "us" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := dial(t, client.Config{URL: web.URL, CACert: ca}).Region(t.Context()); rhumb.KindOf(err) != rhumb.KindForbidden {
		t.Errorf("without token: %v", err)
	}
	if _, err := dial(t, client.Config{URL: web.URL, Token: "secret"}).Region(t.Context()); rhumb.KindOf(err) != rhumb.KindUnavailable {
		t.Errorf("unknown authority: %v", err)
	}
}

// A certificate of the server that has ended is no region that is down: another one
// helps. Files that are no client's certificate are named with where they are from.
func TestEndedCertificatesSayWhatToDo(t *testing.T) {
	s, err := admin.New(admintest.New("us", 1).Config())
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ended := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, ended, ended, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s.Handler())
	web.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = dial(t, client.Config{URL: web.URL, CACert: ca}).Region(t.Context())
	if rhumb.KindOf(err) != rhumb.KindUnavailable || !strings.Contains(err.Error(), "rhumb certs issue") || strings.Contains(err.Error(), "is the region running") {
		t.Errorf("ended: %v", err)
	}
	if _, err := client.New(client.Config{URL: web.URL, Cert: ca, Key: ca}); err == nil || !strings.Contains(err.Error(), "RHUMB_KEY") {
		t.Errorf("no pair: %v", err)
	}
}

type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestTransportInProcess(t *testing.T) {
	s, err := admin.New(admintest.New("us", 1).Config())
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, client.Config{URL: "127.0.0.1", Transport: inProcess{s.Handler()}})
	if info, err := c.Region(t.Context()); err != nil || info.Number != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}
