package server

import (
	"testing"

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
