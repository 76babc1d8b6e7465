package relay

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/porttest"
)

// endpoint is a UDP socket of a test; reads give up after a while.
type endpoint struct {
	*net.UDPConn
	t *testing.T
}

func listenAt(t *testing.T, addr string) endpoint {
	t.Helper()
	a, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.ListenUDP("udp", a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return endpoint{c, t}
}

func (e endpoint) send(text string, to net.Addr) {
	e.t.Helper()
	if _, err := e.WriteTo([]byte(text), to); err != nil {
		e.t.Fatal(err)
	}
}

func (e endpoint) receive(within time.Duration) (string, net.Addr) {
	e.t.Helper()
	buf := make([]byte, 1500)
	if err := e.SetReadDeadline(time.Now().Add(within)); err != nil {
		e.t.Fatal(err)
	}
	n, from, err := e.ReadFrom(buf)
	if err != nil {
		return "", nil
	}
	return string(buf[:n]), from
}

func start(t *testing.T, cfg Config) *Relay {
	t.Helper()
	r, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

func TestRelayCarriesBothWays(t *testing.T) {
	a, b := listenAt(t, "127.0.0.1:0"), listenAt(t, "127.0.0.1:0")
	r := start(t, Config{A: a.LocalAddr().String(), B: b.LocalAddr().String()})
	a.send("to b", r.FrontA())
	text, from := b.receive(time.Minute)
	if text != "to b" || from.String() != r.FrontB().String() {
		t.Fatalf("b got %q from %v", text, from)
	}
	b.send("to a", r.FrontB())
	if text, from = a.receive(time.Minute); text != "to a" || from.String() != r.FrontA().String() {
		t.Fatalf("a got %q from %v", text, from)
	}
}

func TestRelayCutsOneDirection(t *testing.T) {
	a, b := listenAt(t, "127.0.0.1:0"), listenAt(t, "127.0.0.1:0")
	r := start(t, Config{A: a.LocalAddr().String(), B: b.LocalAddr().String()})
	if err := r.Change(AToB, "cut=true"); err != nil {
		t.Fatal(err)
	}
	a.send("dropped", r.FrontA())
	b.send("carried", r.FrontB())
	if text, _ := a.receive(time.Minute); text != "carried" {
		t.Errorf("a got %q over the open direction", text)
	}
	if text, _ := b.receive(30 * time.Millisecond); text != "" {
		t.Errorf("b got %q over the cut direction", text)
	}
	await(t, r, "dropped", func(s LineStats) bool { return s.Dropped == 1 })
	if err := r.Change(Both, "cut=false,loss=2"); err == nil {
		t.Error("a loss above 100% was taken")
	}
	if forth, back := r.Settings(); !forth.Cut || back.Cut {
		t.Errorf("settings after a refused change: %v, %v", forth, back)
	}
	r.Set(Both, Settings{})
	a.send("healed", r.FrontA())
	if text, _ := b.receive(time.Minute); text != "healed" {
		t.Errorf("b got %q after healing", text)
	}
}

func TestRelaySurvivesEndpointRestart(t *testing.T) {
	// Not one that the system chose: somebody else might be given it in between.
	addr := fmt.Sprintf("127.0.0.1:%d", porttest.Ports(t, 1)[0])
	a, b := listenAt(t, "127.0.0.1:0"), listenAt(t, addr)
	r := start(t, Config{A: a.LocalAddr().String(), B: addr})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 10 { // provokes the kernel's "port unreachable" on the front
		a.send("into the void", r.FrontA())
	}
	awaitDelivered(t, r, 10)
	b = listenAt(t, addr)
	a.send("welcome back", r.FrontA())
	if text, _ := b.receive(time.Minute); text != "welcome back" {
		t.Fatalf("b got %q after its restart", text)
	}
	b.send("thanks", r.FrontB())
	if text, _ := a.receive(time.Minute); text != "thanks" {
		t.Errorf("a got %q", text)
	}
}

// awaitDelivered waits until the relay has counted n datagrams from A to B, which
// it does after they left.
func awaitDelivered(t *testing.T, r *Relay, n uint64) {
	t.Helper()
	await(t, r, "delivered", func(s LineStats) bool { return s.Delivered >= n })
}

// await waits for the counts from A to B.
func await(t *testing.T, r *Relay, what string, holds func(LineStats) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for forth, _ := r.Stats(); !holds(forth); forth, _ = r.Stats() {
		if time.Now().After(deadline) {
			t.Fatalf("still not %s: %+v", what, forth)
		}
		runtime.Gosched()
	}
}

func TestRelayListenFails(t *testing.T) {
	for _, cfg := range []Config{
		{A: "127.0.0.1:1", B: "no such host:x"},
		{A: "127.0.0.1:1", B: "127.0.0.1:2", FrontA: "127.0.0.1:99999"},
	} {
		if r, err := Listen(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
			_ = r.Close()
		}
	}
}
