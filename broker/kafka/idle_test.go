package kafka

import (
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// idleConnection is what a connection that rests may cost in bytes, the test's own
// end included. The kernel's buffers are not in it.
const idleConnection = 12 << 10

// A connection that rests holds no buffer: many of them fit into little memory, and
// each is still answered.
func TestIdleConnectionsAreCheap(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) < uint64(2*n+100) {
		n = int(limit.Cur)/2 - 100
		t.Logf("only %d connections: the system gives %d files", n, limit.Cur)
	}
	h := start(t, func(_ *broker.Config, c *Config) { c.MaxConnections = 20_000 })
	memory := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first only moves what pools hold aside
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	warm := h.dial()
	versions := kmsg.NewPtrApiVersionsRequest()
	ask[*kmsg.ApiVersionsResponse](warm, versions)
	before := memory()
	conns := make([]net.Conn, n)
	for i := range conns {
		c := h.dial()
		ask[*kmsg.ApiVersionsResponse](c, versions)
		conns[i] = c.nc
	}
	each := (memory() - before) / int64(n)
	t.Logf("%d connections, %d bytes each", n, each)
	if each > idleConnection {
		t.Errorf("%d bytes each, at most %d", each, idleConnection)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		c := &rawConn{h: h, nc: conns[i], next: 1}
		ask[*kmsg.ApiVersionsResponse](c, versions)
	}
	runtime.KeepAlive(conns)
}
