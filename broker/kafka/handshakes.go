package kafka

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
)

// maxHandshakes bounds the TLS handshakes that are under way on a node. One takes
// milliseconds, unless the client is slow, or only pretends.
const maxHandshakes = 512

// errHandshakes says that a handshake had to make room for newer ones.
var errHandshakes = errors.New("its tls handshake took longest, and too many are under way")

// handshakes are those under way, the oldest first. When there are too many, the oldest
// ends: slow ones never keep others out, as fast ones are over before they are the
// oldest.
type handshakes struct {
	mu   sync.Mutex
	open list.List // of context.CancelCauseFunc
}

func (h *handshakes) begin(end context.CancelCauseFunc) *list.Element {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open.Len() >= maxHandshakes {
		oldest := h.open.Front()
		h.open.Remove(oldest)
		oldest.Value.(context.CancelCauseFunc)(errHandshakes)
	}
	return h.open.PushBack(end)
}

func (h *handshakes) end(e *list.Element) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open.Remove(e) // does nothing if it is out already
}

// handshake does the TLS handshake of a connection that has one, within IOTimeout.
func (c *conn) handshake() bool {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, end := context.WithCancelCause(c.ctx)
	defer end(nil)
	ctx, cancel := context.WithTimeout(ctx, c.server.cfg.IOTimeout)
	defer cancel()
	place := c.server.handshakes.begin(end)
	defer c.server.handshakes.end(place)
	if err := t.HandshakeContext(ctx); err != nil {
		if context.Cause(ctx) == errHandshakes {
			c.server.stats.refused.Add(1)
			err = errHandshakes
		}
		c.server.report(c, fmt.Errorf("%w: tls handshake: %w", errForeign, err))
		return false
	}
	return true
}
