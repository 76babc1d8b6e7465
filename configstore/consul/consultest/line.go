package consultest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Line is a TCP proxy before an agent, whose connections can die without a word.
type Line struct {
	// Addr is host:port of the proxy.
	Addr string

	mu    sync.Mutex
	conns map[*crossing]bool
}

// crossing is one connection: its two ends. Frozen, it takes what comes and gives
// nothing.
type crossing struct {
	in, out net.Conn
	frozen  chan struct{}
	once    sync.Once
}

// NewLine starts a proxy before an agent until the test ends.
func NewLine(t testing.TB, addr string) *Line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	line := &Line{Addr: l.Addr().String(), conns: map[*crossing]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			c := &crossing{in: in, out: out, frozen: make(chan struct{})}
			line.mu.Lock()
			line.conns[c] = true
			line.mu.Unlock()
			running.Go(func() { c.pump(c.out, c.in) })
			running.Go(func() { c.pump(c.in, c.out) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		line.mu.Lock()
		for c := range line.conns {
			c.close()
		}
		line.mu.Unlock()
		running.Wait()
	})
	return line
}

// Freeze makes all connections of now dead: neither side hears of the other, or of
// an end. New ones are forwarded.
func (l *Line) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.once.Do(func() { close(c.frozen) })
	}
}

func (c *crossing) close() {
	c.in.Close()
	c.out.Close()
}

// pump copies one direction. The end of one side ends the other, unless frozen.
func (c *crossing) pump(to, from net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-c.frozen:
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			if _, bad := to.Write(buf[:n]); bad != nil {
				err = io.ErrClosedPipe
			}
		}
		if err != nil {
			c.close()
			return
		}
	}
}
