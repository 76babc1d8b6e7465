package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// acceptPause is how long accept waits when the system has no sockets left.
const acceptPause = 50 * time.Millisecond

// pause waits; false means that the server was closed meanwhile.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !s.isStopped()
	case <-s.done:
		return false
	}
}

// report writes one line about a connection that did not end in order.
func (s *Server) report(c *conn, err error) {
	if refused := c.refusal(); refused != nil {
		err = refused
	} else if isOrderly(err) && !errors.Is(err, errForeign) || c.isDraining() {
		return
	}
	s.limiter.warn(s.log, "connection closed", "listener", c.at.Name, "peer", c.nc.RemoteAddr().String(), "err", err)
}

// judgeLength says what is wrong with a length that no request can have. Often
// it is the beginning of another protocol.
func (c *conn) judgeLength(b []byte, size int64) error {
	for _, p := range otherProtocols {
		if bytes.HasPrefix(b, p.start) {
			return fmt.Errorf("%w: %s", errForeign, p.name)
		}
	}
	if size < minRequest {
		return fmt.Errorf("%w: length %d", errForeign, size)
	}
	return fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, size, c.server.cfg.MaxRequest)
}

// otherProtocols are what connects to a wrong port most often, by first bytes.
var otherProtocols = []struct {
	name  string
	start []byte
}{
	{"tls", []byte{0x16, 0x03}},
	{"http", []byte("GET ")},
	{"http", []byte("POST")},
	{"http", []byte("HEAD")},
	{"http", []byte("PUT ")},
	{"http", []byte("PRI ")},
	{"ssh", []byte("SSH-")},
}

// limiter lets one line per second through and counts the others, so that who
// sends garbage cannot fill the log.
type limiter struct {
	mu     sync.Mutex
	next   time.Time
	hidden int
}

func (l *limiter) warn(log *slog.Logger, message string, args ...any) {
	now := time.Now()
	l.mu.Lock()
	if now.Before(l.next) {
		l.hidden++
		l.mu.Unlock()
		return
	}
	hidden := l.hidden
	l.next, l.hidden = now.Add(time.Second), 0
	l.mu.Unlock()
	if hidden > 0 {
		args = append(args, "similar_lines_hidden", hidden)
	}
	log.Warn(message, args...)
}
