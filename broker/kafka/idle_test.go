package kafka

import (
	"crypto/tls"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
)

// idleConnection is what a connection that rests may cost in bytes, the test's own
// end included. The kernel's buffers are not in it.
const idleConnection = 12 << 10

// idleTLS is that of a connection with TLS: both ends have records, keys and buffers.
const idleTLS = 64 << 10

// A connection that rests holds no buffer: many of them fit into little memory, and
// each is still answered.
func TestIdleConnectionsAreCheap(t *testing.T) {
	restingConnections(t, 10_000, idleConnection, Listener{}, nil)
}

// With TLS it holds what crypto/tls keeps.
func TestIdleConnectionsWithTLS(t *testing.T) {
	cert, pool := selfSigned(t)
	restingConnections(t, 1_000, idleTLS, Listener{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}},
		&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
}

func restingConnections(t *testing.T, n int, most int64, door Listener, client *tls.Config) {
	if testing.Short() {
		n = 500
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) < uint64(2*n+100) {
		n = int(limit.Cur)/2 - 100
		t.Logf("only %d connections: the system gives %d files", n, limit.Cur)
	}
	h := &harness{TB: t, region: brokertest.New(), door: door}
	h.serve(h.region, func(_ *broker.Config, c *Config) { c.MaxConnections = 20_000 })
	dial := func() *rawConn {
		c := h.dial()
		if client != nil {
			c.nc = tls.Client(c.nc, client)
		}
		return c
	}
	memory := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first only moves what pools hold aside
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	warm := dial()
	versions := kmsg.NewPtrApiVersionsRequest()
	ask[*kmsg.ApiVersionsResponse](warm, versions)
	before := memory()
	conns := make([]net.Conn, n)
	for i := range conns {
		c := dial()
		ask[*kmsg.ApiVersionsResponse](c, versions)
		conns[i] = c.nc
	}
	each := (memory() - before) / int64(n)
	t.Logf("%d connections, %d bytes each", n, each)
	if each > most {
		t.Errorf("%d bytes each, at most %d", each, most)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		c := &rawConn{h: h, nc: conns[i], next: 1}
		ask[*kmsg.ApiVersionsResponse](c, versions)
	}
	runtime.KeepAlive(conns)
}
