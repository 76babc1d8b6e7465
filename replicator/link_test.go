package replicator

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

func (ms *mesh) linked(a, b rhumb.RegionName) bool {
	return ms.nodes[a].connected(b) && ms.nodes[b].connected(a)
}

func (ms *mesh) cut(a, b rhumb.RegionName, s relay.Settings) {
	ms.net.set(ms.nodes[a].addr, ms.nodes[b].addr, s)
}

func TestLinkHealsWithinTwoSeconds(t *testing.T) {
	line := relay.Settings{Delay: 40 * time.Millisecond}
	inBubble(t, line, usEu, func(ms *mesh) {
		ms.start()
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		for _, outage := range []time.Duration{4 * time.Second, 11 * time.Second, time.Minute, 10 * time.Minute} {
			ms.cut("us", "eu", relay.Settings{Cut: true})
			ms.until("the cut is noticed", 4*time.Second, func() bool { return !ms.nodes["us"].connected("eu") && !ms.nodes["eu"].connected("us") })
			time.Sleep(outage)
			ms.cut("us", "eu", line)
			ms.until("the link is back", 2*time.Second, func() bool { return ms.linked("us", "eu") })
		}
	})
}

// TestLinkDoesNotFlap: a bad line is not a dead one.
func TestLinkDoesNotFlap(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 200 * time.Millisecond, Loss: .1}, usEu, func(ms *mesh) {
		ms.start()
		ms.nodes["us"].create(orders, 1)
		ms.until("linked", 15*time.Second, func() bool { return ms.linked("us", "eu") })
		for range 60 {
			ms.nodes["us"].produce(orders, 0, 1, 100)
			time.Sleep(10 * time.Second)
		}
		ms.until("copied", 20*time.Second, func() bool { return copied(ms.nodes["us"], ms.nodes["eu"], orders, 0) })
		for _, n := range ms.nodes {
			for _, l := range n.status().Links {
				if l.Connects != 1 || l.Rebuilds != 0 {
					ms.t.Errorf("%s -> %s: %d connections, %d rebuilds in ten minutes", n.self.Name, l.Peer, l.Connects, l.Rebuilds)
				}
			}
		}
	})
}

// TestDuplicateConnectionsAreResolved: both sides dial at the same time; both
// keep the same connection, and go on.
func TestDuplicateConnectionsAreResolved(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 100 * time.Millisecond}, usEu, func(ms *mesh) {
		ms.cut("us", "eu", relay.Settings{Cut: true})
		ms.start()
		time.Sleep(30 * time.Second) // long enough for both to dial
		ms.cut("us", "eu", relay.Settings{Delay: 100 * time.Millisecond})
		time.Sleep(10 * time.Second)
		us, eu := ms.nodes["us"].link("eu"), ms.nodes["eu"].link("us")
		if us.State != LinkConnected || eu.State != LinkConnected || us.Dialled == eu.Dialled {
			ms.t.Errorf("us: %s, dialled %t; eu: %s, dialled %t", us.State, us.Dialled, eu.State, eu.Dialled)
		}
		if time.Since(us.Since) < 5*time.Second || us.Connects > 3 || eu.Connects > 3 {
			ms.t.Errorf("not settled: %d and %d connections, the last %s ago", us.Connects, eu.Connects, time.Since(us.Since))
		}
	})
}

// TestOnlyOneSideCanDial: NAT or a firewall lets only the higher number dial.
func TestOnlyOneSideCanDial(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 10 * time.Millisecond}, usEu, func(ms *mesh) {
		ms.nodes["us"].resolve = func(context.Context, rhumb.RegionName, string) (net.Addr, error) {
			return nil, errors.New("no route")
		}
		ms.start()
		ms.nodes["us"].create(orders, 1)
		ms.nodes["us"].produce(orders, 0, 3, 100)
		ms.until("copied over the connection that eu dialled", 10*time.Second, func() bool {
			return copied(ms.nodes["us"], ms.nodes["eu"], orders, 0) && ms.nodes["eu"].link("us").Dialled
		})
	})
}

// TestRestartIsNoticedAtOnce: a killed process that comes back does not wait
// for its peer's time-out.
func TestRestartIsNoticedAtOnce(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 10 * time.Millisecond}, usEu, func(ms *mesh) {
		ms.start()
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		eu := ms.nodes["eu"]
		for n := range uint64(2) { // the second time the line is being corrected
			eu.kill()
			eu.start()
			ms.until("linked again", 2*time.Second, func() bool { return ms.linked("us", "eu") && ms.nodes["us"].link("eu").Connects == 2+n })
			ms.until("corrected", 5*time.Second, func() bool { return ms.nodes["us"].link("eu").Correction.Code != "off" })
		}
	})
}

func TestG74NewAddressIsPickedUp(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 10 * time.Millisecond}, usEu, func(ms *mesh) {
		ms.start()
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		eu := ms.nodes["eu"]
		eu.kill()
		eu.addr = &net.UDPAddr{IP: net.IPv4(1, 0, 9, 9), Port: 7650}
		ms.policy.change(func() { ms.policy.regions[1].Geo = []string{"1.0.8.8:7650", eu.addr.String()} })
		// eu must not dial, or us would not need the new address.
		eu.resolve = func(context.Context, rhumb.RegionName, string) (net.Addr, error) { return nil, errors.New("no route") }
		eu.start()
		ms.until("linked at the second address of the new list", 10*time.Second, func() bool {
			return ms.linked("us", "eu") && ms.nodes["us"].link("eu").Remote == eu.addr.String()
		})
	})
}

// greetAs dials a node with a certificate and a hello of the test's choice and
// gives what the node answers: its hello, or why it closed.
func (ms *mesh) greetAs(to *node, src *certs.Source, hello *wire.Hello) error {
	socket := ms.net.socket(&net.UDPAddr{IP: net.IPv4(9, 9, 9, 9), Port: 9})
	defer func() { _ = socket.Close() }()
	transport := &quic.Transport{Conn: socket}
	defer func() { _ = transport.Close() }()
	qc, err := transport.Dial(context.Background(), to.addr, certs.LinkClient(src, ms.id, to.self.Name), &quic.Config{MaxIdleTimeout: idleTimeout})
	if err != nil {
		return err
	}
	defer func() { _ = qc.CloseWithError(codeClosing, "") }()
	stream, err := qc.OpenStream()
	if err != nil {
		return err
	}
	if _, err := stream.Write(wire.Append(nil, hello)); err != nil {
		return err
	}
	_, err = wire.NewReader(stream, noBudget{}).Next()
	return err
}

func TestHelloRefuses(t *testing.T) {
	tests := []struct {
		name, reason string
		edit         func(ms *mesh, h *wire.Hello)
	}{
		{"", "", func(*mesh, *wire.Hello) {}},
		{"other mesh", "belongs to mesh", func(_ *mesh, h *wire.Hello) { h.Mesh = rhumb.NewUUID() }},
		{"name of another certificate", "a certificate of region ap is shown", func(_ *mesh, h *wire.Hello) { h.Name = "jp" }},
		{"number of another region", "belongs to region us", func(_ *mesh, h *wire.Hello) { h.Number = 1 }},
		{"number of a region that was removed", "was removed from the mesh at 2026-", func(ms *mesh, h *wire.Hello) {
			h.Number = 9
			ms.policy.change(func() {
				ms.policy.gone = map[rhumb.RegionNumber]configstore.Owner{9: {Name: h.Name, Number: 9, Gone: true, RemovedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
			})
		}},
		{"number of nobody", "it is registered as 3", func(_ *mesh, h *wire.Hello) { h.Number = 9 }},
		{"own number", "peer is region ap with number 2", func(_ *mesh, h *wire.Hello) { h.Number = 2 }},
		{"other data directory", "it is registered with", func(_ *mesh, h *wire.Hello) { h.Data = rhumb.NewUUID() }},
		{"required feature", "requires features 0x10000000000", func(_ *mesh, h *wire.Hello) { h.Required = 1 << 40 }},
		{"later version", "speaks link versions", func(_ *mesh, h *wire.Hello) { h.MinVersion, h.MaxVersion = 7, 9 }},
		{"not registered", "is not registered", func(ms *mesh, _ *wire.Hello) {
			ms.policy.change(func() { ms.policy.regions = ms.policy.regions[:2] })
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, relay.Settings{Delay: time.Millisecond}, usEu, func(ms *mesh) {
				ap := ms.add("ap")
				ms.policy.edges = fullMesh("us", "eu", "ap")
				eu := ms.nodes["eu"]
				delete(ms.nodes, "ap") // it is played by the test
				ms.start()
				synctest.Wait()
				h := (&Manager{cfg: Config{Self: ap.self}}).hello()
				test.edit(ms, h)
				time.Sleep(time.Second)
				for range 2 {
					err := ms.greetAs(eu, ap.certs, h)
					var app *quic.ApplicationError
					switch {
					case test.reason == "" && err != nil:
						ms.t.Errorf("refused: %v", err)
					case test.reason != "" && (!errors.As(err, &app) || app.ErrorCode != codeRefused):
						ms.t.Errorf("got %v, want a refusal", err)
					}
				}
				if n := eu.logs.count(test.reason); test.reason != "" && n != 1 {
					ms.t.Errorf("the reason %q is logged %d times, want once:\n%s", test.reason, n, eu.logs)
				}
			})
		})
	}
}

// TestRefusalIsNamedOnBothSides: the side that dials says why, too, once.
func TestRefusalIsNamedOnBothSides(t *testing.T) {
	inBubble(t, relay.Settings{Delay: time.Millisecond}, usEu, func(ms *mesh) {
		other := &fakePolicy{edges: ms.policy.edges, subs: map[int]func(){},
			regions: []configstore.Region{ms.policy.regions[0], ms.policy.regions[1]}}
		other.regions[0].Number = 9
		ms.nodes["eu"].policy = other
		ms.start()
		time.Sleep(30 * time.Second)
		for _, n := range ms.nodes {
			if got := n.logs.count("it is registered as 9"); got != 1 {
				ms.t.Errorf("%s logged the reason %d times, want once:\n%s", n.self.Name, got, n.logs)
			}
		}
		if us := ms.nodes["us"].link("eu"); us.State != LinkRefused || us.LastError == "" {
			ms.t.Errorf("us shows %s, %q", us.State, us.LastError)
		}
	})
}

func TestOtherMeshIsRefusedByCertificate(t *testing.T) {
	inBubble(t, relay.Settings{Delay: time.Millisecond}, usEu, func(ms *mesh) {
		ca, err := certs.NewCA(rhumb.NewUUID(), time.Hour)
		if err != nil {
			ms.t.Fatal(err)
		}
		ms.nodes["us"].certs = ms.certificate(ca, "us")
		ms.start()
		time.Sleep(20 * time.Second)
		us, eu := ms.nodes["us"], ms.nodes["eu"]
		if us.link("eu").State != LinkRefused || us.logs.count("link is refused") != 1 {
			ms.t.Errorf("us shows %s and logged:\n%s", us.link("eu").State, us.logs)
		}
		if eu.logs.count("link is refused") == 0 {
			ms.t.Errorf("eu logged nothing:\n%s", eu.logs)
		}
	})
}
