package replicator

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// errUnheardDeletion says that a peer is ahead of this region's view of the configuration
// store, which is the only one to say what is deleted.
var errUnheardDeletion = errors.New("of which this region has not heard")

// failure is why an announced topic is not in line here.
type failure struct {
	text    string
	since   time.Time
	unheard bool // of a deletion
	ours    bool // it is this region that cannot, not the policy that will not
}

// Unmade tells of topics that a peer announces and that this region does not have as the
// peer has them, for one kind of reason.
type Unmade struct {
	Topics int `json:"topics"`
	// Unheard: the peer has heard of their deletion, this region has not. What is
	// published to them here goes when it does.
	Unheard bool        `json:"unheard,omitempty"`
	Example rhumb.Topic `json:"example"` // the first by name
	Why     string      `json:"why"`     // of the example
	Since   time.Time   `json:"since"`   // of the one that waits longest
}

// failed notes why a topic could not be brought in line, and tells if that is news. The
// caller holds mu.
func (s *settler) failed(t rhumb.Topic, err error) bool {
	kind := rhumb.KindOf(err)
	f := failure{text: err.Error(), since: time.Now(), unheard: errors.Is(err, errUnheardDeletion)}
	f.ours = kind != rhumb.KindForbidden && kind != rhumb.KindFenced
	before, known := s.failures[t]
	if known && before.unheard == f.unheard && before.ours == f.ours {
		f.since = before.since
	}
	s.failures[t] = f
	return before.text != f.text
}

// why gives the reason why an announced topic is not here, empty if there is none or if
// it is what the policy says.
func (s *settler) why(t rhumb.Topic) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.failures[t]; f.ours {
		return f.text
	}
	return ""
}

// unmade sums up what could not be brought in line, for reasons that the policy does not
// give.
func (s *settler) unmade() []Unmade {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds [2]Unmade
	for topic, f := range s.failures {
		if !f.ours && !f.unheard {
			continue
		}
		k := &kinds[0]
		if f.unheard {
			k = &kinds[1]
			k.Unheard = true
		}
		if k.Topics++; k.Topics == 1 || cmp.Compare(topic.String(), k.Example.String()) < 0 {
			k.Example, k.Why = topic, f.text
		}
		if k.Topics == 1 || f.since.Before(k.Since) {
			k.Since = f.since
		}
	}
	return slices.DeleteFunc(kinds[:], func(u Unmade) bool { return u.Topics == 0 })
}
