package kafka

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// doorkeeper counts the open connections of a node and says who may come in. The
// server's mutex guards it.
type doorkeeper struct {
	total     int
	listeners map[*bound]int
	addresses map[netip.Addr]int
}

func newDoorkeeper() doorkeeper {
	return doorkeeper{listeners: map[*bound]int{}, addresses: map[netip.Addr]int{}}
}

// enter takes a connection in, or says which limit it is over.
func (d *doorkeeper) enter(c *conn, cfg *Config) error {
	switch {
	case d.total >= cfg.MaxConnections:
		return fmt.Errorf("%d are open", d.total)
	case c.at.MaxConnections > 0 && d.listeners[c.at] >= c.at.MaxConnections:
		return fmt.Errorf("%d are open on listener %s", d.listeners[c.at], c.at.Name)
	case cfg.MaxPerAddress > 0 && d.addresses[c.peer] >= cfg.MaxPerAddress:
		return fmt.Errorf("%d are open from %s", d.addresses[c.peer], c.peer)
	}
	d.total++
	d.listeners[c.at]++
	d.addresses[c.peer]++
	return nil
}

// leave lets a connection out.
func (d *doorkeeper) leave(c *conn) {
	d.total--
	d.listeners[c.at]--
	if d.addresses[c.peer]--; d.addresses[c.peer] == 0 {
		delete(d.addresses, c.peer) // strangers' addresses do not pile up
	}
}

// addressOf gives the address of a connection's other end, without port and zone;
// the zero one where there is none, as on a pipe.
func addressOf(nc net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// pacer spreads the connections that a listener takes: at most rate per second,
// in bursts of up to a tenth of that.
type pacer struct {
	rate float64 // per second; 0: no limit
	free float64 // that may come now
	last time.Time
}

// wait says how long the next connection has to wait, and counts it.
func (p *pacer) wait(now time.Time) time.Duration {
	if p.rate == 0 {
		return 0
	}
	burst := max(1, p.rate/10)
	if p.last.IsZero() {
		p.free = burst
	} else {
		p.free = min(burst, p.free+now.Sub(p.last).Seconds()*p.rate)
	}
	p.last = now
	if p.free--; p.free >= 0 {
		return 0
	}
	return time.Duration(-p.free / p.rate * float64(time.Second))
}
