package client_test

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
