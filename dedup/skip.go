package dedup

import (
	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Skip says that in (From, To] of an origin's log there is nothing for this
// edge, or, if [rhumb.Reason.IsGap], that what was there will never come. It
// takes no offset at the destination.
type Skip struct {
	From   rhumb.Offset // exclusive: plays the part of a batch's prev
	To     rhumb.Offset // inclusive, on a batch border
	Chain  uint64       // of the origin's last batch that ends at or before To; 0 if there is none
	Reason rhumb.Reason
	By     string // who decided on it, of a skip that a person ordered
}

func (s Skip) valid() bool {
	return rhumb.NoOffset <= s.From && s.From < s.To && s.Reason != rhumb.ReasonNone && s.Reason <= rhumb.ReasonLast
}

// RaisesFloor reports whether a skip of this reason leaves something out that
// was there, so that who skipped vouches for nothing below its end.
func RaisesFloor(r rhumb.Reason) bool { return r == rhumb.ReasonPolicy || r.IsGap() }

// JudgeSkip applies the accept rule to a skip. A skip over the offsets of other
// origins alone cannot change the chain, so one that does is diverged.
func (w Watermark) JudgeSkip(s Skip) Verdict {
	switch {
	case !s.valid():
		return Invalid
	case s.To < w.Offset, s.To == w.Offset && !mutant.On(mutant.SkipBorder):
		if w.contradicts(ChainPoint{s.To, s.Chain}) {
			return Diverged
		}
		return Duplicate
	case s.From > w.Offset && !mutant.On(mutant.SkipPastMissing):
		return Missing
	case s.Reason == rhumb.ReasonForeign && s.Chain != w.Chain:
		return Diverged
	}
	return Accept
}

// Skip gives the watermark after a skip that [Watermark.JudgeSkip] accepts. What
// really was skipped, and belongs in a gap record, is (old Offset, s.To].
func (w Watermark) Skip(s Skip) Watermark {
	p := ChainPoint{s.To, s.Chain}
	if mutant.On(mutant.SkipKeepsChain) {
		p.Chain = w.Chain
	}
	w.advance(p)
	raise := RaisesFloor(s.Reason)
	if mutant.On(mutant.SkipMovesFloor) || raise && !mutant.On(mutant.GapKeepsFloor) {
		w.Floor = s.To
	}
	return w
}
