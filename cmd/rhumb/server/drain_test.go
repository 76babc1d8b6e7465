package server

import (
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// What a peer leaves out, since its topic was deleted there, keeps no region from
// being drained; what it refuses, or has not told of, does.
func TestDrainCountsWhatIsOwed(t *testing.T) {
	own, past := rhumb.NewLife(), rhumb.NewLife()
	done, all := replicator.Lag{Known: true}, replicator.Lag{Known: true, Records: 11, Bytes: 99}
	for _, c := range []struct {
		name  string
		flows []replicator.PartitionStatus
		want  admin.DrainPeer
	}{
		{"confirmed", []replicator.PartitionStatus{{Life: own, State: replicator.SessionIdle, Lag: done}}, admin.DrainPeer{}},
		{"left out", []replicator.PartitionStatus{{Life: own, State: replicator.SessionLeftOut, Lag: done}}, admin.DrainPeer{}},
		{"left out, the past life first", []replicator.PartitionStatus{{Life: past, State: replicator.SessionLeftOut, Lag: done}}, admin.DrainPeer{}},
		{"a past life is closed", []replicator.PartitionStatus{{Life: past, State: replicator.SessionClosed}, {Life: own, State: replicator.SessionIdle, Lag: done}}, admin.DrainPeer{}},
		{"refused", []replicator.PartitionStatus{{Life: own, State: replicator.SessionRefused, Lag: all}}, admin.DrainPeer{Partitions: 1, Records: 11, Bytes: 99}},
		{"not known", []replicator.PartitionStatus{{Life: own, State: replicator.SessionDisconnected}}, admin.DrainPeer{Partitions: 1}},
		{"no flow", nil, admin.DrainPeer{Partitions: 1}},
	} {
		var peer admin.DrainPeer
		if count(&peer, c.flows, own); peer != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, peer, c.want)
		}
	}
}

// The state of a link is the gravest of its partitions; what the peer leaves out does
// not count, and hides nothing behind it.
func TestLinkStateIsTheGravest(t *testing.T) {
	for _, c := range []struct {
		states []replicator.SessionState
		want   string
	}{
		{nil, "idle"},
		{[]replicator.SessionState{replicator.SessionLeftOut, replicator.SessionClosed}, "idle"},
		{[]replicator.SessionState{replicator.SessionLeftOut, replicator.SessionFlowing, replicator.SessionIdle}, "flowing"},
		{[]replicator.SessionState{replicator.SessionRefused, replicator.SessionLeftOut, replicator.SessionIdle}, "refused"},
		{[]replicator.SessionState{replicator.SessionLeftOut, replicator.SessionDiverged, replicator.SessionRefused}, "diverged"},
	} {
		l := replicator.LinkStatus{State: replicator.LinkConnected}
		for _, s := range c.states {
			l.Partitions = append(l.Partitions, replicator.PartitionStatus{State: s})
		}
		l.Sums = replicator.SumsOf(l.Partitions)
		if got, _ := linkState(l); got != c.want {
			t.Errorf("%v: %s, want %s", c.states, got, c.want)
		}
	}
}
