package replicator

import (
	"errors"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var errSteered = errors.New("replicator: an operator asked for another try")

// Retried is what [Manager.Retry] had tried again: the flows of so many partitions, one for
// each life whose records they carry. Of Waiting partitions at least one flow waited.
type Retried struct {
	Flows, Partitions, Waiting int
	Dialled                    bool // there was no connection: it is dialled at once
}

// Retry has what waits for another try, of a link to a peer, tried at once: dialling,
// if there is no connection or the peer took no more of them, and the flows of one partition, or with nil of all.
// Errors are of kind not found if there is no such link, or no such partition on it.
func (m *Manager) Retry(peer rhumb.RegionName, at *rhumb.Partition) (done Retried, err error) {
	l := m.link(peer)
	if l == nil {
		return done, m.noLink(peer)
	}
	all, waiting := map[rhumb.Partition]bool{}, map[rhumb.Partition]bool{}
	for _, f := range l.all() {
		p := rhumb.Partition{Topic: f.source.topic, Index: f.source.index}
		if at != nil && p != *at {
			continue
		}
		if all[p] = true; f.awaitsTry() {
			waiting[p] = true
		}
		f.nudge()
		done.Flows++
	}
	done.Partitions, done.Waiting = len(all), len(waiting)
	l.mu.Lock()
	if done.Dialled = l.conn == nil && l.wanted(); done.Dialled {
		l.signal()
	} else if at == nil && l.conn != nil {
		l.conn.pool.retry()
	}
	l.mu.Unlock()
	if at != nil && done.Flows == 0 {
		return done, rhumb.Errorf(rhumb.KindNotFound, "no edge leads partition %d of %s to region %s", at.Index, at.Topic.Short(), peer)
	}
	return done, nil
}

// awaitsTry reports whether the flow's last try failed, so that it waits for the next.
func (f *flow) awaitsTry() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.status.state {
	case SessionStalled, SessionRefused, SessionHeld, SessionDiverged:
		return true
	}
	return false
}
