package replicator

import (
	"errors"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var errSteered = errors.New("replicator: an operator asked for another try")

// Retry has what waits for another try, of a link to a peer, tried at once: dialling,
// if there is no connection or the peer took no more of them, and the flows of one partition, or with nil of all. It
// gives the number of flows. Errors are of kind not found if there is no such link.
func (m *Manager) Retry(peer rhumb.RegionName, at *rhumb.Partition) (int, error) {
	l := m.link(peer)
	if l == nil {
		return 0, m.noLink(peer)
	}
	n := 0
	for _, f := range l.all() {
		if at == nil || f.source.topic == at.Topic && f.source.index == at.Index {
			f.nudge()
			n++
		}
	}
	l.mu.Lock()
	if l.conn == nil {
		l.signal()
	} else if at == nil {
		l.conn.pool.retry()
	}
	l.mu.Unlock()
	if at != nil && n == 0 {
		return 0, rhumb.Errorf(rhumb.KindNotFound, "no edge leads partition %d of %s to region %s", at.Index, at.Topic.Short(), peer)
	}
	return n, nil
}
