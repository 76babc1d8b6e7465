package kafka

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
)

// Each limit closes the connection over it, names itself, lets others be, and has
// room again when a connection ends.
func TestConnectionsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		door   Listener
		change func(*Config)
		says   string
	}{
		"of the node":       {Listener{}, func(c *Config) { c.MaxConnections = 2 }, "2 are open"},
		"of a listener":     {Listener{MaxConnections: 2}, func(*Config) {}, "on listener plain"},
		"from one address":  {Listener{}, func(c *Config) { c.MaxPerAddress = 2 }, "from 127.0.0.1"},
		"from many, by one": {Listener{MaxConnections: 5}, func(c *Config) { c.MaxPerAddress = 2 }, "from 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &harness{TB: t, region: brokertest.New(), door: c.door}
			h.serve(h.region, func(_ *broker.Config, cfg *Config) { c.change(cfg) })
			first, second := h.dial(), h.dial()
			ask[*kmsg.MetadataResponse](first, metadataRequest())
			ask[*kmsg.MetadataResponse](second, metadataRequest())
			h.dial().closed()
			if !strings.Contains(h.log.String(), c.says) {
				t.Errorf("the line does not say %q:\n%s", c.says, h.log)
			}
			if s := h.server.Stats(); s.Connections != 2 || s.Accepted != 2 || s.Refused != 1 {
				t.Errorf("%+v", s)
			}
			ask[*kmsg.MetadataResponse](first, metadataRequest())
			second.nc.Close()
			waitFor(t, "room", func() bool { return h.server.Stats().Connections == 1 })
			ask[*kmsg.MetadataResponse](h.dial(), metadataRequest())
		})
	}
}

// Addresses that came and went are forgotten.
func TestDoorkeeperForgetsAddresses(t *testing.T) {
	d := newDoorkeeper()
	cfg := Config{MaxConnections: 10, MaxPerAddress: 1}
	at := &bound{}
	for i := range 1000 {
		c := &conn{at: at, peer: addressOf(fakeAddr{net.IPv4(10, 0, byte(i>>8), byte(i))})}
		if err := d.enter(c, &cfg); err != nil {
			t.Fatal(err)
		}
		if d.enter(c, &cfg) == nil {
			t.Fatal("two from one address")
		}
		d.leave(c)
	}
	if len(d.addresses) != 0 || d.total != 0 || d.listeners[at] != 0 {
		t.Errorf("%+v", d)
	}
}

type fakeAddr struct{ net.IP }

func (fakeAddr) Network() string                  { return "tcp" }
func (a fakeAddr) String() string                 { return net.JoinHostPort(a.IP.String(), "1") }
func (a fakeAddr) RemoteAddr() net.Addr           { return a }
func (fakeAddr) LocalAddr() net.Addr              { return nil }
func (fakeAddr) Read([]byte) (int, error)         { return 0, nil }
func (fakeAddr) Write([]byte) (int, error)        { return 0, nil }
func (fakeAddr) Close() error                     { return nil }
func (fakeAddr) SetDeadline(time.Time) error      { return nil }
func (fakeAddr) SetReadDeadline(time.Time) error  { return nil }
func (fakeAddr) SetWriteDeadline(time.Time) error { return nil }

// However fast connections come, a second takes in no more than its share and one
// burst.
func TestPacerKeepsItsRate(t *testing.T) {
	p := pacer{rate: 100}
	now, taken := time.Unix(0, 0), 0
	for end := now.Add(10 * time.Second); now.Before(end); taken++ {
		now = now.Add(p.wait(now))
	}
	if taken < 1000 || taken > 1012 {
		t.Errorf("%d connections in 10 s at 100 per second", taken)
	}
	now = now.Add(time.Hour) // what was not used is not saved up
	for taken = 0; p.wait(now) == 0; taken++ {
	}
	if taken != 10 {
		t.Errorf("a burst of %d after a rest", taken)
	}
	free := pacer{}
	for range 1000 {
		if free.wait(now) != 0 {
			t.Fatal("no rate is a limit")
		}
	}
}
