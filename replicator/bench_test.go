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
	us, eu := benchPair(b, 4)
	for i := range b.N {
		us.produce(orders, i%4, 100, size)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	eu.begin(b)
	us.begin(b)
	eu.await(b.N)
}

// BenchmarkTrickle copies a small batch of each of a thousand partitions in turn, with
// some hundred under way: what a record now and then in many topics costs the link.
func BenchmarkTrickle(b *testing.B) {
	const partitions = 1000
	us, eu := benchPair(b, partitions)
	for i := range partitions {
		us.produce(orders, i, 1, 100)
	}
	eu.begin(b)
	us.begin(b)
	eu.await(partitions)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%100 == 0 {
			eu.await(partitions + i - partitions/2)
		}
		us.produce(orders, i%partitions, 1, 100)
	}
	eu.await(partitions + b.N)
}

// benchPair makes two regions in memory, with a topic, and sockets on the loopback.
func benchPair(b *testing.B, partitions int32) (us, eu *node) {
	ms := newMesh(b, relay.Settings{}, "us", "eu")
	us, eu = ms.nodes["us"], ms.nodes["eu"]
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
	us.create(orders, partitions)
	return us, eu
}

// begin runs the node's links until the benchmark ends.
func (n *node) begin(b *testing.B) {
	done := make(chan error, 1)
	go func() { done <- n.manager.Run(context.Background()) }()
	b.Cleanup(func() { _ = n.manager.Close(); <-done })
}

// await waits until so many batches have come.
func (n *node) await(batches int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for total := -1; total < batches; <-tick.C {
		n.region.mu.Lock()
		total = n.region.appends
		n.region.mu.Unlock()
	}
}

// BenchmarkSums adds up ten thousand partitions of which all is confirmed: what a scrape
// costs of a link.
func BenchmarkSums(b *testing.B) {
	const partitions = 10_000
	us, eu := benchPair(b, partitions)
	for i := range partitions {
		us.produce(orders, i, 1, 100)
	}
	eu.begin(b)
	us.begin(b)
	eu.await(partitions)
	b.ReportAllocs()
	for b.Loop() {
		us.manager.Sums()
	}
}
