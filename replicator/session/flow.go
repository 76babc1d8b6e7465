package session

import (
	"fmt"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// OnSource takes a newer snapshot of the source: its head grew, its floor moved.
func (s *Sender) OnSource(source Source) {
	s.source.merge(source)
	s.pump()
}

// OnRead takes the result of a read.
func (s *Sender) OnRead(r ReadResult) {
	stale := r.Gen != s.gen || !s.reading
	if mutant.On(mutant.StaleRead) {
		stale = s.state != Flowing && s.state != Idle
	}
	switch {
	case stale:
		return
	case r.Err != nil:
		s.stall("read failed: " + r.Err.Error())
		return
	case len(r.Messages) == 0 && !r.Complete:
		s.stall(fmt.Sprintf("read after %d gave nothing and did not reach %d", s.sent.Offset, s.limit))
		return
	}
	s.reading = false
	s.source.merge(r.Source)
	s.ready, s.tail = r.Messages, r.Tail
	if r.Complete {
		s.scanned = max(s.scanned, s.limit-1)
	} else {
		s.scanned = max(s.scanned, r.Messages[len(r.Messages)-1].Envelope.Last)
	}
	s.pump()
}

// OnQuiet says that nothing has been appended for a while. If the log ends in
// offsets that hold nothing of this origin, a skip brings the watermark there.
func (s *Sender) OnQuiet() {
	if s.state != Flowing && s.state != Idle || len(s.ready) > 0 || s.reading || s.flights.bytes() > 0 {
		return
	}
	to := s.scanned
	if mutant.On(mutant.SkipTooFar) {
		to = s.source.End - 1
	}
	if to > s.sent.Offset {
		s.sendSkip(dedup.ChainPoint{Offset: to, Chain: s.sent.Chain}, rhumb.ReasonForeign)
		s.state = Flowing
	}
}

// pump does whatever can be done now in flowing and idle: say what will never
// come, send what is ready, read on.
func (s *Sender) pump() {
	if s.state != Flowing && s.state != Idle {
		return
	}
	s.state = Flowing
	if !s.passStart() || !s.passOrder() {
		return
	}
	for len(s.ready) > 0 {
		if !s.sendReady(&s.ready[0]) {
			return // it has to wait, or the session has ended
		}
		s.ready = s.ready[1:]
	}
	s.ready = nil
	if !s.passTail() {
		return
	}
	if s.reading || !s.passFloor() {
		return
	}
	head, inFlight := s.head(), s.flights.bytes()
	if s.source.OwnLast <= s.sent.Offset {
		s.scanned = max(s.scanned, head-1) // nothing of this origin to read
	}
	switch {
	case s.scanned < head-1 && 2*inFlight <= s.window:
		s.read(min(s.cfg.ReadBytes, s.window-inFlight))
	case s.scanned >= head-1 && inFlight == 0 && s.source.Closed:
		s.fence()
	case s.scanned >= head-1 && inFlight == 0 && s.lacksTail():
		s.sendHole(s.source.Mark)
	case s.scanned >= head-1 && inFlight == 0:
		s.state = Idle
	}
}

// lacksTail reports whether the end of what a copy accounts for is a hole.
func (s *Sender) lacksTail() bool {
	mark := s.source.Mark
	return s.source.Relay && mark.Offset == s.head()-1 && mark.Offset > s.sent.Offset && mark.Chain != s.sent.Chain
}

// head is the first offset that may not leave.
func (s *Sender) head() rhumb.Offset {
	if mutant.On(mutant.UnflushedLeaves) {
		return s.source.End
	}
	return s.source.Head
}

func (s *Sender) read(maxBytes int) {
	s.reading = true
	s.gen++
	s.limit = s.head()
	s.actions.add(Action{Do: DoRead, Read: Read{Gen: s.gen, After: s.scanned, Limit: s.limit, MaxBytes: maxBytes}})
}

// passStart says that the edge starts later, if the position is before its
// start. It is false if that cannot be said yet.
func (s *Sender) passStart() bool {
	start := s.source.Start
	if s.sent.Offset >= start.Offset {
		return true
	}
	if start.Offset >= s.head() {
		return false
	}
	s.sendSkip(start, rhumb.ReasonPolicy)
	return true
}

// passOrder says that an operator had something skipped. It is false while what was
// sent before is in flight, so that the gap begins where the destination really is.
func (s *Sender) passOrder() bool {
	o := s.order
	if o == nil || s.sent.Offset >= o.To.Offset {
		return true
	}
	if o.To.Offset >= s.head() || s.flights.bytes() > 0 {
		return false
	}
	s.forgetReads()
	if o.Apart {
		s.skipFrom(min(o.Common, s.sent.Offset), o.To, rhumb.ReasonDiverged, o.By)
	} else {
		s.skip(o.To, rhumb.ReasonSkipped, o.By)
	}
	return true
}

// passFloor says that what lies up to the floor will not come, if the position
// is below it. It is false if that cannot be said yet: while something is in
// flight, so that a floor that keeps moving makes one gap and not many.
func (s *Sender) passFloor() bool {
	floor := s.source.Floor
	if s.sent.Offset >= floor.Offset {
		return true
	}
	if mutant.On(mutant.FloorIgnored) {
		s.sent, s.scanned = floor, max(s.scanned, floor.Offset)
		return true
	}
	if floor.Offset >= s.head() || s.flights.bytes() > 0 {
		return false
	}
	reason, by := s.source.FloorReason, ""
	if s.source.Relay {
		reason, by = s.source.lost(s.sent.Offset)
	}
	for _, f := range s.source.Floors {
		if s.sent.Offset >= f.Offset {
			continue
		}
		reason, by = f.Reason, ""
		if f.Offset < floor.Offset {
			floor = f.ChainPoint
		}
		break
	}
	if floor.Chain == s.sent.Chain && !(s.source.FloorOpen && floor == s.source.Floor) || mutant.On(mutant.GapAsSkip) {
		reason, by = rhumb.ReasonForeign, "" // no batch of this origin lay there
	}
	s.skip(floor, reason, by)
	return s.sent.Offset >= s.source.Floor.Offset // else the next floor's turn comes when this is confirmed
}

// sendReady sends one message, or does what has to come before it. It is false
// if the message has to wait or the session has ended.
func (s *Sender) sendReady(m *Message) bool {
	e := &m.Envelope
	if e.Prev > s.sent.Offset && !s.passFloor() {
		return false // the floor has moved past what the read would have given
	}
	inFlight := s.flights.bytes()
	switch {
	case e.Last <= s.sent.Offset:
		return true // confirmed or skipped meanwhile
	case e.Last >= s.head():
		s.stall(fmt.Sprintf("read gave %d to %d, but what is from %d on may not leave", e.First, e.Last, s.source.Head))
		return false
	case e.Prev > s.sent.Offset && e.First > s.sent.Offset && (e.Prev < s.source.Compacted || s.source.Relay):
		if !s.passHole(m) {
			return false
		}
		return s.sendReady(m)
	case e.Prev > s.sent.Offset || e.First <= s.sent.Offset:
		s.stall(fmt.Sprintf("hole without a cause: after %d the log goes on with %d, prev %d", s.sent.Offset, e.First, e.Prev))
		return false
	case inFlight > 0 && inFlight+m.size() > s.window && !mutant.On(mutant.WindowIgnored):
		return false
	}
	s.sent = dedup.ChainPoint{Offset: e.Last, Chain: e.Chain}
	s.flights.add(s.sent, m.size())
	s.send(&wire.Data{Session: s.session, Round: s.round, Head: s.source.Head, Envelope: *e, Batch: m.Batch})
	return true
}

// passHole says why nothing lies before a batch where something lay: compaction took
// it, or this copy never got it. The batch proves the chain that there was. It is false if too many skips are in flight already.
func (s *Sender) passHole(m *Message) bool {
	h, err := codec.ParseBatch(m.Batch)
	if err != nil {
		s.stall(fmt.Sprintf("batch at %d: %v", m.Envelope.First, err))
		return false
	}
	return s.sendHole(dedup.ChainPoint{Offset: m.Envelope.Prev, Chain: dedup.ChainBefore(dedup.OriginBatchOf(&m.Envelope, h))})
}

func (s *Sender) sendHole(to dedup.ChainPoint) bool {
	if s.flights.skips() >= maxSkipsAhead {
		return false
	}
	reason, by := rhumb.ReasonCompacted, ""
	if s.source.Relay {
		reason, by = s.source.lacks(s.sent.Offset, to.Offset)
	}
	s.skip(to, reason, by)
	return true
}

// passTail says that compaction took all that was left of a closed life.
func (s *Sender) passTail() bool {
	if s.tail != nil && s.tail.Offset > s.sent.Offset {
		if s.tail.Offset >= s.head() || !s.sendHole(*s.tail) {
			return false
		}
	}
	s.tail = nil
	return true
}

// maxSkipsAhead bounds the skips in flight: less than a destination takes.
const maxSkipsAhead = 1024

// sendSkip says that nothing comes up to a point. Few skips are in flight, so
// they do not wait for the window.
func (s *Sender) sendSkip(to dedup.ChainPoint, reason rhumb.Reason) { s.skip(to, reason, "") }

func (s *Sender) skip(to dedup.ChainPoint, reason rhumb.Reason, by string) {
	s.skipFrom(s.sent.Offset, to, reason, by)
}

func (s *Sender) skipFrom(from rhumb.Offset, to dedup.ChainPoint, reason rhumb.Reason, by string) {
	skip := dedup.Skip{From: from, To: to.Offset, Chain: to.Chain, Reason: reason, By: by}
	s.sent = to
	s.scanned = max(s.scanned, to.Offset)
	s.flights.add(to, skipSize)
	s.send(&wire.Skip{Session: s.session, Round: s.round, Head: s.source.Head, Skip: skip})
}
