package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// Each state of a link that needs a person is a problem with what to do; that
// partitions are diverged is one whether the link stands or not.
func TestLinkProblems(t *testing.T) {
	apart := func(n int) (all []replicator.PartitionStatus) {
		topic := rhumb.Topic{Tenant: "public", Namespace: "default", Name: "orders"}
		for i := range n {
			for range 2 { // two lives of a partition are one partition
				all = append(all, replicator.PartitionStatus{Topic: topic, Partition: int32(i), State: replicator.SessionDiverged, Apart: &replicator.Divergence{}})
			}
		}
		return append(all, replicator.PartitionStatus{Topic: topic, Partition: int32(n), State: replicator.SessionIdle})
	}
	for _, c := range []struct {
		name string
		link replicator.LinkStatus
		want []string // state and a part of what to do, of each problem
	}{
		{"healthy", replicator.LinkStatus{State: replicator.LinkConnected, LastError: "of long ago", Partitions: apart(0)}, nil},
		{"unused", replicator.LinkStatus{State: replicator.LinkUnused}, nil},
		{"disconnected without an error", replicator.LinkStatus{State: replicator.LinkDisconnected}, []string{"disconnected: look at the peer"}},
		{"disconnected", replicator.LinkStatus{State: replicator.LinkDisconnected, LastError: "timeout"}, []string{"disconnected: last error: timeout"}},
		{"refused", replicator.LinkStatus{State: replicator.LinkRefused, LastError: "another mesh"}, []string{"refused: another mesh"}},
		{"twice", replicator.LinkStatus{State: replicator.LinkConnected, Twice: "stop one"}, []string{"runs twice: stop one"}},
		{"diverged", replicator.LinkStatus{State: replicator.LinkConnected, Partitions: apart(3)}, []string{"diverged: 3 partitions"}},
		{"paused", replicator.LinkStatus{State: replicator.LinkConnected, Pauses: []replicator.Pause{{By: "ann"}, {By: "bob", Space: rhumb.Space{Tenant: "acme", Namespace: "shop"}}}},
			[]string{"paused: 'rhumb link resume eu' lets", "paused: 'rhumb link resume eu --namespace acme/shop' lets"}},
		{"diverged and down", replicator.LinkStatus{State: replicator.LinkDisconnected, Partitions: apart(1)},
			[]string{"disconnected: look at the peer", "diverged: 'rhumb link diverged'"}},
	} {
		var got [][2]string
		c.link.Peer, c.link.Since = "eu", time.Unix(1, 0)
		c.link.Sums = replicator.SumsOf(c.link.Partitions)
		linkProblems(c.link, func(part, state, format string, args ...any) {
			if part != "link eu" {
				t.Errorf("%s: part %q", c.name, part)
			}
			got = append(got, [2]string{state, fmt.Sprintf(format, args...)})
		})
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, want := range c.want {
			state, do, _ := strings.Cut(want, ": ")
			if got[i][0] != state || !strings.Contains(got[i][1], do) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}
