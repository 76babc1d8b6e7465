package consul

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// always answers every request in the same way.
func always(status int, body string, header ...string) *fake {
	return &fake{answer: func(int, *http.Request) (*http.Response, error) {
		return response(status, 1, body, header...), nil
	}}
}

// What Consul refuses has a kind, says where, and what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		f    *fake
		kind rhumb.Kind
		want string
	}{
		"no permission":    {always(403, "Permission denied: token lacks permission"), rhumb.KindForbidden, "token_file"},
		"no leader":        {always(500, "No cluster leader"), rhumb.KindUnavailable, "No cluster leader"},
		"too many":         {always(429, ""), rhumb.KindUnavailable, "Too Many Requests"},
		"enterprise":       {always(400, "Invalid query parameter: \"ns\""), rhumb.KindInvalid, "Invalid query parameter"},
		"not Consul":       {always(302, "", "Location", "http://elsewhere/"), rhumb.KindUnavailable, "is there a Consul agent"},
		"no answer":        {&fake{answer: func(int, *http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }}, rhumb.KindUnavailable, "connection refused"},
		"not JSON":         {always(200, "<html>"), rhumb.KindUnavailable, "invalid character"},
		"half an answer":   {always(200, `[{"Key":"rhumb/v1/mesh"`), rhumb.KindUnavailable, "unexpected EOF"},
		"filtered":         {always(200, "[]", "X-Consul-Results-Filtered-By-ACLs", "true"), rhumb.KindForbidden, "may not read all documents"},
		"anonymous":        {always(404, "", "X-Consul-Default-ACL-Policy", "deny"), rhumb.KindForbidden, "may not read all documents"},
		"another document": {always(200, pairs(t, "rhumb/v1/mesh", "no JSON")), rhumb.KindCorrupt, "rhumb/v1/mesh"},
	} {
		s := withFake(t, Config{Address: "consul.example:8500"}, c.f)
		_, err := s.List(t.Context(), configstore.Prefix)
		if rhumb.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v of kind %v, want kind %v and %q", name, err, rhumb.KindOf(err), c.kind, c.want)
		}
		if c.kind != rhumb.KindCorrupt && !strings.Contains(err.Error(), "consul.example:8500") {
			t.Errorf("%s: %v does not say where", name, err)
		}
		if (c.kind == rhumb.KindForbidden) != errors.Is(err, ErrDenied) {
			t.Errorf("%s: %v is ErrDenied: %v", name, err, errors.Is(err, ErrDenied))
		}
		if len(c.f.seen()) != 1 {
			t.Errorf("%s: %d requests", name, len(c.f.seen()))
		}
	}
}

// A value that Consul's settings make too large says which settings.
func TestValueOverConsulsLimit(t *testing.T) {
	d, err := configstore.ParseDocument(configstore.TenantKey("t"), []byte(doc(1)))
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{answer: func(_ int, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut {
			return response(413, 1, "Request body(300 bytes) too large"), nil
		}
		return response(404, 1, ""), nil
	}}
	if err := withFake(t, Config{}, f).Put(t.Context(), d); rhumb.KindOf(err) != rhumb.KindTooLarge || !strings.Contains(err.Error(), "kv_max_value_size") {
		t.Errorf("%v of kind %v", err, rhumb.KindOf(err))
	}
}

// An answer without end is cut off, and not taken for a whole one.
func TestI9AnswerIsBounded(t *testing.T) {
	b := &boundedBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 100))), left: 10, ctx: t.Context(), timer: time.NewTimer(silence)}
	got, err := io.ReadAll(b)
	if len(got) != 10 || err == nil {
		t.Errorf("%d bytes and %v", len(got), err)
	}
}

// Reads ask for consistency; a watch waits, and needs none.
func TestReadsAreConsistent(t *testing.T) {
	f := always(404, "")
	s := withFake(t, Config{Datacenter: "dc7", Namespace: "n", Partition: "p", Prefix: "prod/"}, f)
	if _, err := s.Get(t.Context(), configstore.MeshKey); !errors.Is(err, configstore.ErrNotFound) {
		t.Fatal(err)
	}
	if docs, err := s.List(t.Context(), configstore.Prefix); err != nil || len(docs) != 0 {
		t.Fatal(docs, err)
	}
	for _, r := range f.seen() {
		q := r.URL.Query()
		if !q.Has("consistent") || q.Get("dc") != "dc7" || q.Get("ns") != "n" || q.Get("partition") != "p" || !strings.HasPrefix(r.URL.Path, "/v1/kv/prod/rhumb/v1/") {
			t.Errorf("asked for %s", r.URL)
		}
	}
}

// consulEnvironment names every variable that may be set where tests run.
var consulEnvironment = []string{"CONSUL_HTTP_ADDR", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE", "CONSUL_HTTP_AUTH", "CONSUL_HTTP_SSL", "CONSUL_CACERT",
	"CONSUL_CAPATH", "CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY", "CONSUL_TLS_SERVER_NAME", "CONSUL_HTTP_SSL_VERIFY", "CONSUL_NAMESPACE", "CONSUL_PARTITION"}

func setEnvironment(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range consulEnvironment {
		t.Setenv(name, env[name])
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The environment of Consul's tools is taken for what the file leaves open; the
// file wins.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	one, two := write(t, filepath.Join(dir, "one"), "token-one\n"), write(t, filepath.Join(dir, "two"), "token-two\n")
	for name, c := range map[string]struct {
		env                map[string]string
		cfg                Config
		host, scheme, want string // want is the token
		ns                 string
	}{
		"nothing":          {nil, Config{}, "127.0.0.1:8500", "http", "", ""},
		"environment":      {map[string]string{"CONSUL_HTTP_ADDR": "c.example:1", "CONSUL_HTTP_TOKEN": "secret", "CONSUL_NAMESPACE": "n"}, Config{}, "c.example:1", "http", "secret", "n"},
		"token file there": {map[string]string{"CONSUL_HTTP_TOKEN_FILE": one, "CONSUL_HTTP_TOKEN": "secret"}, Config{}, "127.0.0.1:8500", "http", "token-one", ""},
		"file wins": {map[string]string{"CONSUL_HTTP_ADDR": "c.example:1", "CONSUL_HTTP_TOKEN": "secret", "CONSUL_HTTP_TOKEN_FILE": one, "CONSUL_NAMESPACE": "n"},
			Config{Address: "d.example:2", TokenFile: two, Namespace: "m"}, "d.example:2", "http", "token-two", "m"},
		"TLS":            {map[string]string{"CONSUL_HTTP_SSL": "true"}, Config{}, "127.0.0.1:8500", "https", "", ""},
		"TLS by address": {nil, Config{Address: "https://c.example:8501"}, "c.example:8501", "https", "", ""},
		"TLS by file":    {nil, Config{Address: "c.example:8501", TLS: TLS{ServerName: "x"}}, "c.example:8501", "https", "", ""},
		"file elsewhere is not looked at": {map[string]string{"CONSUL_HTTP_TOKEN_FILE": filepath.Join(dir, "none")}, Config{TokenFile: two},
			"127.0.0.1:8500", "http", "token-two", ""},
	} {
		t.Run(name, func(t *testing.T) {
			setEnvironment(t, c.env)
			f := always(404, "")
			if _, err := withFake(t, c.cfg, f).Get(t.Context(), configstore.MeshKey); !errors.Is(err, configstore.ErrNotFound) {
				t.Fatal(err)
			}
			r := f.seen()[0]
			host := strings.Replace(r.URL.Host, "localhost", "127.0.0.1", 1)
			if host != c.host || r.URL.Scheme != c.scheme || r.Header.Get("X-Consul-Token") != c.want || r.URL.Query().Get("ns") != c.ns {
				t.Errorf("asked %s with token %q, want %s://%s, token %q, namespace %q", r.URL, r.Header.Get("X-Consul-Token"), c.scheme, c.host, c.want, c.ns)
			}
		})
	}
}

// A token file that is replaced is used from the next request on; while it cannot
// be read the one before it is.
func TestTokenFileIsReadAgain(t *testing.T) {
	setEnvironment(t, nil)
	path := write(t, filepath.Join(t.TempDir(), "token"), "one\n")
	f := always(404, "")
	s := withFake(t, Config{TokenFile: path}, f)
	ask := func(want string) {
		t.Helper()
		s.Get(t.Context(), configstore.MeshKey)
		all := f.seen()
		if got := all[len(all)-1].Header.Get("X-Consul-Token"); got != want {
			t.Errorf("token %q, want %q", got, want)
		}
	}
	ask("one")
	write(t, path, "second\n")
	ask("second")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ask("second")
	write(t, path, "\n")
	ask("second")
	write(t, path, "two words") // no token
	ask("second")
	write(t, path, "third")
	ask("third")
	for name, path := range map[string]string{"absent": path + ".none", "empty": write(t, path+".empty", "")} {
		if _, err := Open(Config{TokenFile: path}); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("%s token file: %v", name, err)
		}
	}
}

// A redirect is not followed: the token goes to nobody else.
func TestTokenDoesNotTravel(t *testing.T) {
	setEnvironment(t, nil)
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	s, err := Open(Config{Address: first.URL, TokenFile: write(t, filepath.Join(t.TempDir(), "token"), "secret")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.List(context.Background(), configstore.Prefix); rhumb.KindOf(err) != rhumb.KindUnavailable || asked != 0 {
		t.Errorf("%v, and %d requests arrived elsewhere", err, asked)
	}
}

func TestAddressesAndPrefixes(t *testing.T) {
	for addr, good := range map[string]bool{
		"127.0.0.1:8500": true, "[::1]:8500": true, "http://c.example:8500": true, "https://c.example:8501/path": true, "unix:///run/consul.sock": true,
		"": false, "c.example": false, "ftp://c.example:1": false, "unix://run/consul.sock": false, "http://": false,
	} {
		if err := CheckAddress(addr); (err == nil) != good {
			t.Errorf("address %q: %v", addr, err)
		}
	}
	for prefix, good := range map[string]bool{
		"": true, "prod": true, "prod/": true, "a/b.c/d_e-f": true,
		"/": false, "/prod": false, "a//b": false, "a/../b": false, "a b": false, strings.Repeat("x", 300): false,
	} {
		if err := CheckPrefix(prefix); (err == nil) != good {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}
