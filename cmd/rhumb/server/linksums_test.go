package server

import (
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// TestLinkFiguresAreAllTold: what a link says of itself and its partitions reaches who
// asks for sums.
func TestLinkFiguresAreAllTold(t *testing.T) {
	l := replicator.LinkStatus{DivergedTries: 3, PaddingBytes: 4, SentBytes: 5, ReceivedRecords: 6, Rewinds: 7, ConnectionsLost: 8}
	l.Sums = replicator.SumsOf([]replicator.PartitionStatus{
		{Lag: replicator.Lag{Known: true, Records: 1, Bytes: 2}, Apart: &replicator.Divergence{}},
		{Partition: 1, Lag: replicator.Lag{Known: true, Records: 1}, Refused: &replicator.Refusal{}},
	})
	a := linkFigures(l)
	for name, got := range map[string][2]int64{
		"tries": {a.DivergedTries, 3}, "padding": {a.Path.PaddingBytes, 4}, "bytes": {a.Out.Bytes, 5}, "records": {a.In.Records, 6}, "rewinds": {a.Out.Rewinds, 7},
		"lost": {a.Path.ConnectionsLost, 8}, "diverged": {int64(a.Diverged), 1}, "refused": {int64(a.Refused), 1}, "lag": {a.Out.LagRecords, 2},
		"lag of the peer": {a.In.LagRecords, unknown},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
}

// TestLinkStateSaysSinceWhen: what is told with a link's state is when that began, not
// when the connection came up.
func TestLinkStateSaysSinceWhen(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	flow := func(state replicator.SessionState, minute int) replicator.PartitionStatus {
		return replicator.PartitionStatus{State: state, Since: at(minute)}
	}
	space := rhumb.Space{Tenant: "public", Namespace: "default"}
	for _, c := range []struct {
		name  string
		link  replicator.LinkStatus
		flows []replicator.PartitionStatus
		state string
		since int
	}{
		{"no connection", replicator.LinkStatus{State: replicator.LinkDisconnected}, []replicator.PartitionStatus{flow(replicator.SessionStalled, 3)}, "disconnected", 1},
		{"nothing flows", replicator.LinkStatus{}, nil, "idle", 1},
		{"paused", replicator.LinkStatus{Pauses: []replicator.Pause{{At: at(5)}}}, []replicator.PartitionStatus{flow(replicator.SessionPaused, 5)}, "paused", 5},
		{"paused before it came up", replicator.LinkStatus{Pauses: []replicator.Pause{{At: at(0)}}}, nil, "paused", 1},
		{"a namespace paused", replicator.LinkStatus{Pauses: []replicator.Pause{{Space: space, At: at(5)}}},
			[]replicator.PartitionStatus{flow(replicator.SessionIdle, 2), flow(replicator.SessionPaused, 6), flow(replicator.SessionPaused, 5)}, "paused", 5},
		{"resumed", replicator.LinkStatus{}, []replicator.PartitionStatus{flow(replicator.SessionIdle, 2), flow(replicator.SessionIdle, 7), flow(replicator.SessionStandby, 9)}, "idle", 7},
		{"of before the connection", replicator.LinkStatus{}, []replicator.PartitionStatus{flow(replicator.SessionDiverged, 0)}, "diverged", 1},
	} {
		if c.link.State == "" {
			c.link.State = replicator.LinkConnected
		}
		c.link.Since, c.link.Sums = at(1), replicator.SumsOf(c.flows)
		if a := linkFigures(c.link); a.State != c.state || !a.Since.Equal(at(c.since)) || !a.Connection.Equal(at(1)) {
			t.Errorf("%s: %s since %s, connection %s; want %s since %s", c.name, a.State, a.Since, a.Connection, c.state, at(c.since))
		}
	}
}
