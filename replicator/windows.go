package replicator

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"
)

// windows bounds what the receive windows of all connections may have grown by, so that
// what a peer can make this process hold does not go by how many it has.
type windows struct {
	mu    sync.Mutex
	grown map[*quic.Conn]uint64
	sum   uint64
}

// allow is asked by the library before a window grows.
func (w *windows) allow(c *quic.Conn, delta uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sum+delta > windowBudget {
		return false
	}
	if w.grown == nil {
		w.grown = map[*quic.Conn]uint64{}
	}
	w.grown[c] += delta
	w.sum += delta
	return true
}

// watch has a connection forgotten when it is over.
func (w *windows) watch(c *quic.Conn) {
	context.AfterFunc(c.Context(), func() { w.forget(c) })
}

func (w *windows) forget(c *quic.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum -= w.grown[c]
	delete(w.grown, c)
}
