package session

import (
	"fmt"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// maxRounds bounds the search for where two logs part. Each round leaves about a
// sixtieth of the range that was in doubt.
const maxRounds = 32

// OnChains takes the answer to a check, in the order of its points.
func (s *Sender) OnChains(gen uint64, answers []ChainAnswer) {
	if gen != s.gen || s.state != Opening || len(answers) != len(s.points) {
		return
	}
	if s.rounds == 0 || s.confirmed != s.searched {
		s.common, s.apart, s.searched = dedup.ChainPoint{Offset: rhumb.NoOffset}, s.source.End, s.confirmed
	}
	apart := []rhumb.Offset{s.apart}
	for i, p := range s.points {
		ours := answers[i]
		if floor := s.source.Floor; p.Offset == floor.Offset && !s.source.FloorOpen {
			ours = ChainAnswer{Chain: floor.Chain, Known: true}
		}
		switch {
		case !ours.Known, !p.Known() && (p.Offset < s.source.Compacted || s.source.Relay): // one of them is not known any more
		case ours.Chain == p.Chain && !ours.Inside && p.Offset < s.source.End && (i == 0 || p.Known()):
			if p.Offset > s.common.Offset {
				s.common = p
			}
		default:
			apart = append(apart, p.Offset)
		}
	}
	differs := s.pastEnd(s.confirmed.Offset)
	s.apart = s.source.End
	for _, o := range apart {
		if o > s.common.Offset && o < s.source.End { // one below a point that is the same says nothing
			differs, s.apart = true, min(s.apart, o)
		}
	}
	switch {
	case differs && s.order != nil && s.order.Apart && s.order.To.Offset > s.confirmed.Offset:
		s.rounds, s.exact = 0, false
		s.flow()
	case !differs:
		s.rounds, s.exact = 0, false
		s.flow()
	case s.rounds >= maxRounds:
		s.part(false)
	default:
		s.gen++
		s.actions.add(Action{Do: DoSearch, Gen: s.gen, From: s.common.Offset, To: s.apart})
	}
}

// OnBorders takes the answer to a search. If there is no border left, the place
// is found; else the next session asks about them.
func (s *Sender) OnBorders(gen uint64, borders []rhumb.Offset) {
	if gen != s.gen || s.state != Opening {
		return
	}
	if len(borders) == 0 {
		s.part(true)
		return
	}
	s.rounds++
	s.probes = append([]rhumb.Offset(nil), borders[:min(len(borders), wire.MaxProbes)]...)
	s.send(&wire.Close{Session: s.session, Code: wire.CodeIdle, Text: "asks where the logs part"})
	s.leave(Searching, wire.CodeNone, "")
}

// part ends a session whose logs differ. If they do so only behind what a past
// life names, nothing is left to be said of it.
func (s *Sender) part(exact bool) {
	s.exact, s.rounds = exact, 0
	if s.source.Closed && s.confirmed.Offset > s.source.Last && s.common.Offset >= s.source.Last {
		s.settle()
		return
	}
	s.diverge(fmt.Sprintf("destination has this life up to %d, which this log does not continue; it ends before %d, last known common offset %d",
		s.confirmed.Offset, s.source.End, s.common.Offset))
}

// fence closes a past life at the destination behind all that was sent of it, by
// a skip of one offset more. What of the life may still be on its way from an
// earlier session then fits nowhere, so it is fixed where the next life begins.
func (s *Sender) fence() {
	if s.source.Head <= s.source.Last {
		s.state = Idle // what is next of it may not leave yet
		return
	}
	s.closing, s.fenced = s.sent, true
	to := max(s.sent.Offset, s.source.Last) + 1
	s.sendSkip(dedup.ChainPoint{Offset: to, Chain: s.sent.Chain}, rhumb.ReasonForeign)
}

// settle ends the session of a past life for good: common is how far the
// destination agrees with this log, and it takes nothing more of the life.
func (s *Sender) settle() {
	s.send(&wire.Close{Session: s.session, Code: wire.CodeIdle, Text: "this life is closed"})
	s.leave(Settled, wire.CodeNone, "")
}
