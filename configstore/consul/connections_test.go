package consul

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
)

// TestConnectionsAreBounded asks for many documents at the same time: Consul refuses an
// address with more than 200 connections.
func TestConnectionsAreBounded(t *testing.T) {
	var under, conns, most atomic.Int64
	full := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if under.Add(1) == maxConnections {
			close(full)
		}
		<-full
		http.NotFound(w, nil)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			n := conns.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
		case http.StateClosed, http.StateHijacked:
			conns.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s, err := Open(Config{Address: strings.TrimPrefix(server.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() { _, _ = s.Get(t.Context(), configstore.MeshKey) })
	}
	wg.Wait()
	if n := most.Load(); n != maxConnections {
		t.Errorf("%d connections, want %d", n, maxConnections)
	}
}
