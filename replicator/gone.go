package replicator

import (
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A region that was removed publishes nothing any more, and others hold what it had
// published: perhaps not all of it each, and a region that is rebuilt, or joins later,
// holds none. Where the policy would have brought such records from their own region
// ([configstore.Edge.Gone]), any region that has them brings them, as over an edge that
// forwards. Which of several does, and when a gap is final, package paths decides:
// there is no origin to ask, so what all others dropped is gone.

// goneOf gives the numbers of the regions that were removed.
func goneOf(owners []configstore.Owner) map[rhumb.RegionNumber]bool {
	gone := map[rhumb.RegionNumber]bool{}
	for i := range owners {
		if owners[i].Gone {
			gone[owners[i].Number] = true
		}
	}
	return gone
}

// isGone reports whether a region was removed, by the policy of this moment.
func (m *Manager) isGone(number rhumb.RegionNumber) bool {
	owner, known := m.cfg.Policy.Owner(number)
	return known && owner.Gone
}

var (
	errUnheard     = rhumb.Errorf(rhumb.KindUnsupported, "the peer's version takes no records of other origins")
	errUnheardGone = rhumb.Errorf(rhumb.KindUnsupported, "the peer's version takes records of removed regions only over edges that forward")
)

// unheard says why the peer would not understand a flow's sessions, nil if it does.
// The caller holds mu.
func (l *link) unheard(f *flow, c *conn) error {
	e := l.out[l.m.scopeOf(f.source.topic)]
	switch {
	case !f.forwards():
		return nil
	case c.features&featureForward == 0:
		return errUnheard
	case !e.Forward && l.gone[f.source.origin] && c.features&featureGone == 0:
		return errUnheardGone
	}
	return nil
}
