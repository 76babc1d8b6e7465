package replicator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// checks gives what a region finds about its link to another one, by name.
func (n *node) checks(peer rhumb.RegionName) map[string]Check {
	n.mesh.t.Helper()
	all, err := n.manager.Check(context.Background(), peer)
	if err != nil {
		n.mesh.t.Fatal(err)
	}
	out := map[string]Check{}
	for _, c := range all {
		out[c.Name] = c
		if !c.OK && c.Next == "" {
			n.mesh.t.Errorf("%s says nothing of what to do", c)
		}
	}
	return out
}

// TestCheckTellsWhatIsWrongWithALink: a healthy link, a cut line, a name that does not
// resolve and a certificate of another mesh are told apart, and the link stays.
func TestCheckTellsWhatIsWrongWithALink(t *testing.T) {
	pair(t, short, 1, func(ms *mesh, us, eu *node) {
		ms.until("linked", 5*time.Second, func() bool { return ms.linked("us", "eu") })
		ms.pass(3 * time.Second)
		connects := us.manager.Status().Links[0].Connects
		for name, c := range us.checks("eu") {
			if !c.OK && !strings.Contains(name, "certificate") { // those of tests live for a day
				ms.t.Errorf("a healthy link: %s", c)
			}
		}
		if c := us.checks("eu")["certificate"]; !strings.Contains(c.Detail, "region eu") {
			ms.t.Errorf("certificate: %s", c)
		}
		if again := us.manager.Status().Links[0].Connects; again != connects || !ms.linked("us", "eu") {
			ms.t.Error("the check disturbed the link")
		}
		ms.cut("us", "eu", relay.Settings{Cut: true})
		ms.pass(5 * time.Second)
		found := us.checks("eu")
		if c := found["address"]; c.OK || !strings.Contains(c.Detail, "no answer") || !strings.Contains(c.Next, "UDP") {
			ms.t.Errorf("a cut line: %s; %s", c, c.Next)
		}
		if c := found["link"]; c.OK || !strings.Contains(c.Detail, "disconnected") {
			ms.t.Errorf("a cut line: %s", c)
		}
		resolve := us.resolve
		us.kill()
		us.resolve = func(context.Context, rhumb.RegionName, string) (net.Addr, error) {
			return nil, errors.New("no such host")
		}
		us.start()
		ms.pass(time.Second)
		if c := us.checks("eu")["address"]; c.OK || !strings.Contains(c.Detail, "no such host") {
			ms.t.Errorf("a wrong name: %s", c)
		}
		us.kill()
		us.resolve = resolve
		ms.cut("us", "eu", short)
		other, err := certs.NewCA(rhumb.NewUUID(), time.Hour)
		if err != nil {
			ms.t.Fatal(err)
		}
		us.certs = ms.certificate(other, "us")
		us.start()
		ms.pass(time.Second)
		if c := us.checks("eu")["certificate"]; c.OK || c.Detail == "" || !strings.Contains(c.Next, "rhumb certs") {
			ms.t.Errorf("a certificate of another mesh: %s", c)
		}
		if _, err := us.manager.Check(context.Background(), "mars"); rhumb.KindOf(err) != rhumb.KindNotFound {
			ms.t.Errorf("a region that is not there: %v", err)
		}
	})
}

// TestCheckTellsAClosedPort: on real sockets, a port on which nothing listens is
// told from a path that swallows everything.
func TestCheckTellsAClosedPort(t *testing.T) {
	ms := newMesh(t, relay.Settings{}, "us", "eu")
	us := ms.nodes["us"]
	gone := listenLoopback(t)
	closed := gone.LocalAddr()
	_ = gone.Close()
	m, err := New(Config{Self: us.self, Region: us.region, Policy: us.policy, PacketConn: listenLoopback(t), Certs: us.certs,
		Resolve: func(context.Context, rhumb.RegionName, string) (net.Addr, error) { return closed, nil }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(context.Background()) }()
	us.manager = m
	await(t, "the link is known", func() bool { return m.link("eu") != nil })
	if c := us.checks("eu")["address"]; c.OK || !strings.Contains(c.Detail, "refused") || !strings.Contains(c.Next, "start the region") {
		t.Errorf("a closed port: %s; %s", c, c.Next)
	}
	_ = m.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCheckTellsFamiliesOfIPApart: a socket of IPv6 alone reaches no IPv4 address, which
// no firewall is to blame for.
func TestCheckTellsFamiliesOfIPApart(t *testing.T) {
	v4, v6 := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7650}, &net.UDPAddr{IP: net.ParseIP("2001:db8::1"), Port: 7650}
	for _, c := range []struct {
		bound  string
		v4, v6 bool // that such an address is unlike
	}{{"::1", true, false}, {"2001:db8::2", true, false}, {"127.0.0.1", false, true}, {"0.0.0.0", false, true}, {"::", false, false}} {
		own := &net.UDPAddr{IP: net.ParseIP(c.bound), Port: 7650}
		if unlike(own, v4) != c.v4 || unlike(own, v6) != c.v6 {
			t.Errorf("bound to %s: IPv4 is unlike %t, IPv6 %t", own, unlike(own, v4), unlike(own, v6))
		}
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	defer socket.Close()
	m := &Manager{cfg: Config{PacketConn: socket}}
	if detail, next := m.whyUnreachable(v4, errors.New("network is unreachable")); !strings.Contains(detail, "bound to [::1]:") || !strings.Contains(next, "[::]:7650") {
		t.Errorf("it says %q, %q", detail, next)
	}
}
