package dev

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func TestRegionIsKilledAndStarted(t *testing.T) {
	m := start(t, options(t))
	m.produce(0, "orders", "before")
	state := m.must(Command{Do: "kill", Region: "eu"})
	for _, r := range state.Regions {
		if r.Running != (r.Name != "eu") || r.Running != (r.PID != 0) {
			t.Errorf("after the kill of eu: %+v", r)
		}
	}
	if _, err := m.send(Command{Do: "kill", Region: "eu"}); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("second kill: %v", err)
	}
	if _, err := net.DialTimeout("tcp", addressesOf(1, m.opts.PortOffset).kafka, time.Second); err == nil {
		t.Error("the killed region still listens")
	}
	m.produce(0, "orders", "meanwhile")
	m.consume(2, "orders", "before", "meanwhile")
	m.must(Command{Do: "start", Region: "eu"})
	m.consume(1, "orders", "before", "meanwhile")
	if _, err := m.send(Command{Do: "start", Region: "eu"}); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("second start: %v", err)
	}
	for _, want := range []string{"region eu killed", "region eu started"} {
		m.awaitLine(want)
	}
}

// The mesh stops cleanly while one of its regions is killed.
func TestMeshWithAKilledRegionStopsCleanly(t *testing.T) {
	m := start(t, options(t))
	m.must(Command{Do: "kill", Region: "us"})
	if err := m.end(); err != nil {
		t.Error(err)
	}
	isGone(t, m)
}

func TestLinksAreCutAndHealedPerDirection(t *testing.T) {
	m := start(t, options(t))
	m.produce(0, "orders", "u1") // the topic is everywhere from here on
	for i := range 3 {
		m.consume(i, "orders", "u1")
	}
	m.must(Command{Do: "set", Link: "us>eu", Settings: "cut=true"})
	m.produce(0, "orders", "u2")
	m.consume(2, "orders", "u1", "u2") // the other link of us is not cut
	m.must(Command{Do: "set", Link: "us>eu", Settings: "cut=false"})
	m.consume(1, "orders", "u1", "u2")
	state := m.must(Command{Do: "set", Link: "*", Settings: "rtt=20ms,loss=1%,rate=100mbit"})
	for _, l := range state.Links {
		if l.Changed() != "delay=10ms,loss=1%,rate=100000000bit" {
			t.Errorf("%s>%s is %s", l.From, l.To, l.Changed())
		}
	}
	m.produce(1, "orders", "e1")
	m.consume(1, "orders", "u1", "u2", "e1")
	m.consume(0, "orders", "u1", "u2", "e1")
}

func TestCommandsThatMeanNothingAreRefused(t *testing.T) {
	m := start(t, options(t))
	for _, c := range []struct {
		command Command
		want    string
	}{
		{Command{Do: "kill", Region: "mars"}, `no region "mars"; regions are [us eu ap]`},
		{Command{Do: "start", Region: ""}, "no region"},
		{Command{Do: "explode"}, "kill, start, set or show"},
		{Command{Do: "set", Link: "us-mars", Settings: "cut=true"}, "links are eu-ap, us-ap, us-eu"},
		{Command{Do: "set", Link: "us-eu", Settings: "colour=red"}, "not one of rtt"},
		{Command{Do: "set", Link: "us-eu", Settings: "loss=200%"}, "within 0 and 100%"},
		{Command{Do: "set", Link: "us-eu", Settings: ""}, "want key=value"},
		{Command{Do: "set", Link: "*", Settings: "rtt=50ms,loss=x"}, "loss"},
	} {
		if _, err := m.send(c.command); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.command, err, c.want)
		}
	}
	for _, l := range m.must(Command{Do: "show"}).Links {
		if l.Changed() != "perfect" {
			t.Errorf("a refused command changed %s>%s to %s", l.From, l.To, l.Settings)
		}
	}
}

// Bytes that are no command get an answer or a closed connection, and the mesh
// goes on.
func TestI9GarbageOnTheControlSocket(t *testing.T) {
	m := start(t, options(t))
	for _, bytes := range []string{"", "hello\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "POST / HTTP/1.1\r\nHost: dev\r\nContent-Length: 5\r\n\r\n{\"do\"",
		"POST / HTTP/1.1\r\nHost: dev\r\nContent-Length: 99999999\r\n\r\n" + strings.Repeat("[", 1<<20)} {
		c, err := net.Dial("unix", m.opts.Control)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(limit))
		c.Write([]byte(bytes)) // an error means that it hung up already
		c.Close()
	}
	m.must(Command{Do: "show"})
}

func TestSecondMeshIsToldOfTheFirst(t *testing.T) {
	first := start(t, options(t))
	second := launch(t, first.opts)
	<-second.ended
	if rhumb.KindOf(second.err) != rhumb.KindExists || !strings.Contains(second.err.Error(), "another `rhumb dev` is running") {
		t.Errorf("second mesh: %v", second.err)
	}
	first.must(Command{Do: "show"}) // its socket is still there
}

// What a mesh that was killed has left does not stop the next one.
func TestSocketOfAKilledMeshIsReplaced(t *testing.T) {
	opts := options(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: opts.Control, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	start(t, opts).must(Command{Do: "show"})
}

func TestControlNeverReplacesAFile(t *testing.T) {
	opts := options(t)
	if err := os.WriteFile(opts.Control, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := launch(t, opts)
	<-m.ended
	if rhumb.KindOf(m.err) != rhumb.KindInvalid {
		t.Errorf("%v, want an error of kind invalid", m.err)
	}
	if text, err := os.ReadFile(opts.Control); string(text) != "precious" {
		t.Errorf("the file is %q: %v", text, err)
	}
}

func TestCommandWithoutAMeshSaysSo(t *testing.T) {
	_, err := Send(t.Context(), socketPath(t), Command{Do: "show"})
	if rhumb.KindOf(err) != rhumb.KindUnavailable || !strings.Contains(err.Error(), "is it running?") {
		t.Errorf("%v", err)
	}
}

// Names of regions may hold hyphens, so a link's name has more than one reading;
// only those of links count.
func TestLinkNamesWithHyphens(t *testing.T) {
	l, err := openLinks([]rhumb.RegionName{"us", "us-east", "east"}, func(rhumb.RegionName) string { return "127.0.0.1:1" })
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for name, want := range map[string]struct {
		pair int
		way  relay.Direction
	}{
		"us-us-east": {0, relay.Both}, "us-east-us": {0, relay.Both}, "us-east>us": {0, relay.BToA},
		"us-east": {1, relay.Both}, "us>east": {1, relay.AToB}, "us-east-east": {2, relay.Both},
	} {
		r, way, err := l.find(name)
		if err != nil || r != l.pairs[want.pair].relay || way != want.way {
			t.Errorf("%s: relay %p direction %d, %v", name, r, way, err)
		}
	}
}
