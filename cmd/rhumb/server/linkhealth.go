package server

import (
	"time"

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
	pausedProblems(l, problem)
	unmadeProblems(l, problem)
	if n := l.Sums.Apart; n > 0 {
		problem(part, string(replicator.SessionDiverged), "nothing flows in %d partitions: the logs of the two regions differ; see 'rhumb link diverged' and 'rhumb link resolve'", n)
	}
	if n, example := l.Sums.Invalid, &l.Sums.Example; n > 0 {
		problem(part, string(replicator.SessionRefused), "it does not take what comes next of %d partitions, such as offset %d of partition %d of %s: %s; nothing flows there until it does. 'rhumb link retry %[6]s %[4]s --partition %[3]d' tries at once, 'rhumb link skip %[6]s %[4]s --partition %[3]d --to OFFSET' leaves it out",
			n, example.Refused.At, example.Partition, example.Topic.Short(), example.Refused.Text, l.Peer)
	}
}

// unmadeTold is after how long a topic that a peer announces should be here.
const unmadeTold = 10 * time.Second

// unmadeProblems tells of topics that the peer has and that cannot be had here as the
// peer has them.
func unmadeProblems(l replicator.LinkStatus, problem func(part, state, format string, args ...any)) {
	part := "link " + string(l.Peer)
	for _, u := range l.Unmade {
		switch {
		case time.Since(u.Since) < unmadeTold:
		case u.Unheard:
			problem(part, "deletion not heard", "%d topics were deleted in the mesh, such as %s, of which only %s has heard: this region's configuration store has not told. Until it does producers are served here, and what they publish goes with the topic",
				u.Topics, u.Example.Short(), l.Peer)
		default:
			problem(part, "topics not made", "%d topics of %s cannot be made or grown here, such as %s: %s; their records do not come until they can", u.Topics, l.Peer, u.Example.Short(), u.Why)
		}
	}
}

// pausedTold is after how long a pause is a problem: it may have been forgotten.
const pausedTold = 15 * time.Minute

// pausedProblems tells of edges that an operator stopped a while ago.
func pausedProblems(l replicator.LinkStatus, problem func(part, state, format string, args ...any)) {
	for _, p := range l.Pauses {
		if time.Since(p.At) < pausedTold {
			continue
		}
		what, only := "every namespace", ""
		if !p.Space.IsZero() {
			what, only = "namespace "+p.Space.String(), " --namespace "+p.Space.String()
		}
		problem("link "+string(l.Peer), string(replicator.SessionPaused), "%s has paused %s since %s, and its backlog grows: 'rhumb link resume %s%s' lets it go on",
			p.By, what, p.At.UTC().Format(time.RFC3339), l.Peer, only)
	}
}
