package replicator

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// BenchmarkCopy copies batches of 100 KB between two regions in memory over the
// loopback interface: what the link itself costs.
func BenchmarkCopy(b *testing.B) {
	const size = 100_000
	ms := newMesh(b, relay.Settings{}, "us", "eu")
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	for _, n := range []*node{us, eu} {
		socket := listenLoopback(b)
		n.addr = socket.LocalAddr().(*net.UDPAddr)
		m, err := New(Config{Self: n.self, Region: n.region, Policy: n.policy, PacketConn: socket, Certs: n.certs,
			Resolve: func(_ context.Context, peer rhumb.RegionName, _ string) (net.Addr, error) {
				return ms.nodes[peer].addr, nil
			}})
		if err != nil {
			b.Fatal(err)
		}
		n.manager = m
	}
	us.create(orders, 4)
	for i := range b.N {
		us.produce(orders, i%4, 100, size)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for _, n := range []*node{us, eu} {
		done := make(chan error, 1)
		go func() { done <- n.manager.Run(context.Background()) }()
		b.Cleanup(func() { _ = n.manager.Close(); <-done })
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for total := 0; total < b.N; <-tick.C {
		eu.region.mu.Lock()
		total = eu.region.appends
		eu.region.mu.Unlock()
	}
}
