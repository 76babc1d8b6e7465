package replicator

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// await polls real time: nothing tells when a copy is complete.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still not: %s", what)
		}
	}
}

// TestRealSocketsThroughARelay: two regions on real UDP sockets, a bad path
// between them that is cut and healed, and a region that restarts.
func TestRealSocketsThroughARelay(t *testing.T) {
	ms := newMesh(t, relay.Settings{}, "us", "eu")
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	sockets := map[*node]*net.UDPConn{us: listenLoopback(t), eu: listenLoopback(t)}
	r, err := relay.Listen(relay.Config{A: sockets[us].LocalAddr().String(), B: sockets[eu].LocalAddr().String(), Seed: 1,
		Settings: relay.Settings{Delay: 5 * time.Millisecond, Loss: .01, Reorder: .01}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	relayDone := make(chan error, 1)
	go func() { relayDone <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-relayDone; err != nil {
			t.Error(err)
		}
	})
	us.resolve = func(context.Context, rhumb.RegionName, string) (net.Addr, error) { return r.FrontA(), nil }
	eu.resolve = func(context.Context, rhumb.RegionName, string) (net.Addr, error) { return r.FrontB(), nil }
	run := func(n *node) func() {
		m, err := New(Config{Self: n.self, Region: n.region, Policy: n.policy, PacketConn: sockets[n], Certs: n.certs,
			Resolve: n.resolve, Logger: slog.New(slog.NewTextHandler(n.logs, nil))})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- m.Run(context.Background()) }()
		n.manager = m
		return func() {
			if err := m.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		}
	}
	stopUS, stopEU := run(us), run(eu)
	us.create(orders, 2)
	for i := range 200 {
		us.produce(orders, i%2, 2, 5000)
	}
	both := func() bool { return copied(us, eu, orders, 0) && copied(us, eu, orders, 1) }
	await(t, "copied over a bad path", both)
	if err := r.Change(relay.Both, "cut=true"); err != nil {
		t.Fatal(err)
	}
	us.produce(orders, 0, 2, 100)
	stopEU()
	if err := r.Change(relay.Both, "cut=false,loss=0"); err != nil {
		t.Fatal(err)
	}
	stopEU = run(eu)
	us.produce(orders, 1, 2, 100)
	await(t, "copied after cut and restart", both)
	stopUS()
	stopEU()
}

func listenLoopback(t testing.TB) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
