package server

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// linkProblems tells what of a link needs a person: no connection, and partitions
// in which nothing flows until somebody decides. These are known while the link is
// down, too.
func linkProblems(l replicator.LinkStatus, problem func(part, state, format string, args ...any)) {
	part, because := "link "+string(l.Peer), ""
	if l.LastError != "" {
		because = "; last error: " + l.LastError
	}
	since := l.Since.UTC().Format(time.RFC3339)
	switch l.State {
	case replicator.LinkDisconnected:
		problem(part, string(l.State), "no connection since %s, tried all the time; look at the peer, and at the path: UDP, geo addresses of both regions%s", since, because)
	case replicator.LinkRefused:
		problem(part, string(l.State), "reached, but one side will not have the other since %s; both sides log why%s", since, because)
	}
	if l.Twice != "" {
		problem(part, "runs twice", "%s", l.Twice)
	}
	apart := map[rhumb.Partition]bool{}
	for _, p := range l.Partitions {
		if p.Apart != nil {
			apart[rhumb.Partition{Topic: p.Topic, Index: p.Partition}] = true
		}
	}
	if len(apart) > 0 {
		problem(part, string(replicator.SessionDiverged), "nothing flows in %d partitions: the logs of the two regions differ; see 'rhumb link diverged' and 'rhumb link resolve'", len(apart))
	}
}
