package consultest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Proxy is an HTTP server before an agent.
type Proxy struct {
	// Addr is host:port of the proxy.
	Addr string

	mu     sync.Mutex
	silent chan struct{} // closed when it speaks again; nil: it does
}

// NewProxy starts a proxy before an agent until the test ends.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	p := &Proxy{}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	forward.ErrorLog = log.New(io.Discard, "", 0) // an agent that is down is what a test wants
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("index") != "" {
			p.hold(r)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.SetSilent(false)
		server.CloseClientConnections()
		server.Close()
	})
	p.Addr = server.Listener.Addr().String()
	return p
}

// SetSilent keeps blocking queries without an answer, and ends it. Those that wait
// at the agent already still get theirs.
func (p *Proxy) SetSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case silent && p.silent == nil:
		p.silent = make(chan struct{})
	case !silent && p.silent != nil:
		close(p.silent)
		p.silent = nil
	}
}

func (p *Proxy) hold(r *http.Request) {
	p.mu.Lock()
	wait := p.silent
	p.mu.Unlock()
	if wait == nil {
		return
	}
	select {
	case <-wait:
	case <-r.Context().Done():
	}
}
