package admin

import (
	"net"
	"net/netip"
	"sync"
)

// Bounds of open connections of one listener; more are closed at once. A
// connection costs a goroutine and up to maxHeaderBytes until its request is read.
const (
	maxConnections           = 1024
	maxConnectionsPerAddress = 256
)

// limited is a listener that closes what is over a bound before a byte is read.
type limited struct {
	net.Listener
	most, mostPerAddress int

	mu   sync.Mutex
	open map[netip.Addr]int // only addresses with open connections
	all  int
}

func newLimited(l net.Listener, most, mostPerAddress int) *limited {
	return &limited{Listener: l, most: most, mostPerAddress: mostPerAddress, open: map[netip.Addr]int{}}
}

// Accept gives the next connection that is within the bounds.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(c.RemoteAddr().String())
		if l.take(from) {
			return &counted{Conn: c, done: func() { l.release(from) }}, nil
		}
		c.Close()
	}
}

func (l *limited) take(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.open[from] >= l.mostPerAddress {
		return false
	}
	l.all++
	l.open[from]++
	return true
}

func (l *limited) release(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	once sync.Once
	done func()
}

// Close may be called again.
func (c *counted) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.done)
	return err
}
