package replicator

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// Sums is what a link's partitions are together.
type Sums struct {
	// Lag adds up those of which it is known, and of the others what they lack at least;
	// the age is the greatest. Unknown counts those others, as far as they have something:
	// if there are any, Lag is a lower bound.
	Lag     Lag
	Unknown int
	States  map[SessionState]int // flows by state
	// Entered says when those that are in a state came to it.
	Entered map[SessionState]Span
	// Diverged counts flows whose destination differs, Apart the partitions that have
	// such; Refused those of which the destination does not take what comes next, Invalid
	// those of them in which it finds fault with the records themselves, as in Example.
	Diverged, Apart  int
	Refused, Invalid int
	Example          PartitionStatus

	apart map[rhumb.Partition]bool
}

// Span is from the first of some moments to the last of them.
type Span struct{ First, Last time.Time }

// Sums gives a picture of all links without their partitions: [LinkStatus.Sums] has
// what they are together. It costs a short look at each flow, and nothing of what
// [Manager.Status] makes for each.
func (m *Manager) Sums() Status {
	s := m.status()
	for i, l := range m.byName() {
		s.Links = append(s.Links, l.figures(s.At))
		sums := &s.Links[i].Sums
		for _, f := range l.all() {
			f.addTo(sums, s.At)
		}
	}
	return s
}

// SumsOf adds up partitions.
func SumsOf(all []PartitionStatus) (s Sums) {
	for i := range all {
		s.add(&all[i])
	}
	return s
}

// addTo adds the flow to what all are together.
func (f *flow) addTo(s *Sums, now time.Time) {
	if state, since, still := f.still(); still {
		s.state(state, since)
		return
	}
	p := f.report(now)
	s.add(&p)
}

// still reports whether all of the flow's log is confirmed and nothing is the matter
// with it, in which state it is, and since when: so it is with most of tens of thousands.
func (f *flow) still() (state SessionState, since time.Time, still bool) {
	if f.source.copied || f.source.closed != nil {
		return "", since, false
	}
	f.mu.Lock()
	st := &f.status
	state, since = st.state, st.since
	confirmed := st.confirmed
	plain := st.known && st.apart == nil && st.refused == nil && st.leftOut == nil && st.settledOn == nil
	f.mu.Unlock()
	if !plain {
		return "", since, false
	}
	// After the flow: what is confirmed grows behind the log's end.
	ends, ok := f.link.m.cfg.Region.Ends(f.source.ref)
	return state, since, ok && min(ends.OwnLast, ends.Flushed-1) <= max(confirmed, ends.OwnFloor, f.source.from-1)
}

func (s *Sums) state(state SessionState, since time.Time) {
	if s.States == nil {
		s.States, s.Entered = map[SessionState]int{}, map[SessionState]Span{}
	}
	s.States[state]++
	span, there := s.Entered[state]
	switch {
	case !there:
		s.Entered[state] = Span{since, since}
	case since.Before(span.First):
		s.Entered[state] = Span{since, span.Last}
	case since.After(span.Last):
		s.Entered[state] = Span{span.First, since}
	}
}

// add adds a partition.
func (s *Sums) add(p *PartitionStatus) {
	s.state(p.State, p.Since)
	if p.Lag.Known || p.Lag.Records == 0 {
		s.Lag.Records += p.Lag.Records
		s.Lag.Bytes += p.Lag.Bytes
		s.Lag.Age = max(s.Lag.Age, p.Lag.Age)
	} else {
		s.Unknown++
		s.Lag.Records += p.Lag.Least.Records
		s.Lag.Bytes += p.Lag.Least.Bytes
		s.Lag.Age = max(s.Lag.Age, p.Lag.Least.Age)
	}
	if p.Apart != nil {
		s.Diverged++
		if s.apart == nil {
			s.apart = map[rhumb.Partition]bool{}
		}
		s.apart[rhumb.Partition{Topic: p.Topic, Index: p.Partition}] = true
		s.Apart = len(s.apart)
	}
	if p.Refused != nil {
		s.Refused++
		if p.Refused.Code == wire.CodeInvalid { // others are what the policy there says
			s.Invalid++
			s.Example = *p
		}
	}
}
