package consul

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// fake is a Consul that answers each request from a function, without a socket, so
// that it works under virtual time.
type fake struct {
	mu       sync.Mutex
	requests []*http.Request
	at       []time.Time
	answer   func(n int, r *http.Request) (*http.Response, error) // n counts from 0 on
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	n := len(f.requests)
	f.requests, f.at = append(f.requests, r), append(f.at, time.Now())
	f.mu.Unlock()
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return f.answer(n, r)
}

func (f *fake) seen() []*http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// withFake opens a store whose requests the fake answers.
func withFake(t *testing.T, cfg Config, f *fake) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.door.transport = f
	return s
}

func response(status int, index uint64, body string, header ...string) *http.Response {
	h := http.Header{"X-Consul-Index": {strconv.FormatUint(index, 10)}, "X-Consul-Lastcontact": {"0"}, "X-Consul-Knownleader": {"true"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewBufferString(body))}
}

// pairs is the JSON of a list of keys and values.
func pairs(t *testing.T, keysAndValues ...string) string {
	t.Helper()
	type pair struct {
		Key, Value  string
		ModifyIndex uint64
	}
	list := []pair{}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		list = append(list, pair{keysAndValues[i], base64.StdEncoding.EncodeToString([]byte(keysAndValues[i+1])), 7})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func doc(version int) string {
	return fmt.Sprintf(`{"version":%d,"updated_at":"2026-01-02T03:04:05Z","updated_by":"test"}`, version)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
