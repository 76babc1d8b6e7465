package session

import (
	"fmt"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// Config is what stays the same over all sessions of a sender.
type Config struct {
	Partition rhumb.Partition
	Region    rhumb.RegionNumber // of the origin
	Life      rhumb.Life         // of the origin
	Deletions uint64             // the count that the life was born under
	Producer  string             // rhumb.repl.<from>.<to>

	// Window is the most bytes that may be sent and not confirmed; the
	// destination may grant less. One message may be larger, alone.
	Window int

	// ReadBytes is the most bytes to ask for in one read.
	ReadBytes int
}

// Sender is the source's side of a session. See the package comment.
type Sender struct {
	cfg Config

	// Fixed while a session is open.
	session wire.SessionID
	window  int

	// The state machine.
	state State
	code  wire.Code // why it is held, stalled, diverged, refused
	text  string
	round uint32

	// Positions in the origin's log. Invariant while flowing or idle:
	// confirmed <= sent <= scanned, and the end of each ready message too, < source.Head.
	source    Source
	confirmed dedup.ChainPoint  // by the destination
	sent      dedup.ChainPoint  // everything up to here went out in this round
	scanned   rhumb.Offset      // read up to here: what is not in ready does not exist
	flights   flights           // between confirmed and sent
	ready     []Message         // read, not sent yet
	tail      *dedup.ChainPoint // behind them nothing is left up to here

	// The one read or check that may be under way. Answers with another gen are old.
	gen     uint64
	reading bool
	limit   rhumb.Offset       // of the read
	points  []dedup.ChainPoint // of the check

	// Where the logs part, if they do: common is the last known point that is the
	// same in both, apart the first one that differs, or the log's end; exact says
	// that no batch of the source ends between them.
	common   dedup.ChainPoint
	apart    rhumb.Offset
	exact    bool
	searched dedup.ChainPoint // the watermark for which that holds
	probes   []rhumb.Offset   // that the next open asks about
	asked    int              // how many this session's open asked about
	rounds   int              // of the search

	order *Order // what an operator wants skipped, nil if nothing

	closing   dedup.ChainPoint // of a past life: what its closing skip starts after
	fenced    bool             // the closing skip is in flight, or confirmed
	heard     bool             // see Status
	rewoundTo rhumb.Offset     // the last rewind's, NoOffset-1 if none
	rewinds   uint64           // of all sessions

	actions queue
}

// NewSender makes a sender in the closed state.
func NewSender(cfg Config) *Sender {
	none := dedup.ChainPoint{Offset: rhumb.NoOffset}
	return &Sender{cfg: cfg, source: NewSource(), confirmed: none, sent: none, scanned: rhumb.NoOffset, common: none}
}

// Status is a snapshot of a sender for figures.
type Status struct {
	State     State
	Code      wire.Code // why it is held, stalled, diverged or refused
	Text      string
	Confirmed rhumb.Offset // what the destination is known to have
	Heard     bool         // the destination has said in this session what it has
	Sent      rhumb.Offset
	InFlight  int // bytes sent and not confirmed
	Window    int
	Round     uint32
	Rewinds   uint64           // since the sender was made
	Common    dedup.ChainPoint // if diverged or settled: the last point known to be the same
	Exact     bool             // if diverged: the logs part right behind Common
	Has       dedup.ChainPoint // Confirmed, with the destination's chain there
}

// Status gives a snapshot.
func (s *Sender) Status() Status {
	return Status{State: s.state, Code: s.code, Text: s.text, Confirmed: s.confirmed.Offset, Heard: s.heard, Sent: s.sent.Offset,
		InFlight: s.flights.bytes(), Window: s.window, Round: s.round, Rewinds: s.rewinds, Common: s.common, Exact: s.exact, Has: s.confirmed}
}

// Actions gives what has to be done since the last call, in order. The slice is
// good until the next call of any method.
func (s *Sender) Actions() []Action { return s.actions.take() }

func (s *Sender) send(f wire.Frame) {
	s.actions.add(Action{Do: DoSend, Frame: f})
}

// Open asks for a session under an id that was never used on this link. It may
// be called in any state: an open session is forgotten without a word, so close
// it first if the link still stands.
func (s *Sender) Open(id wire.SessionID, source Source) {
	s.leave(Opening, wire.CodeNone, "")
	s.session, s.round, s.rewoundTo, s.heard = id, 0, rhumb.NoOffset-1, false
	s.asked = len(s.probes)
	s.source.merge(source)
	s.send(&wire.Open{Session: id, Partition: s.cfg.Partition, Region: s.cfg.Region, Life: s.cfg.Life,
		Deletions: s.cfg.Deletions, Head: s.source.Head, Producer: s.cfg.Producer, Probes: s.probes})
	s.probes = nil
}

// Close ends the session, if there is one, and tells the destination.
func (s *Sender) Close(code wire.Code, text string) {
	if s.state.Open() {
		s.send(&wire.Close{Session: s.session, Code: code, Text: text})
	}
	s.leave(Closed, code, text)
}

// Order asks for a skip that an operator decided on: nothing up to To will be sent.
type Order struct {
	To dedup.ChainPoint // on a batch border, with the chain there
	By string           // who it was
	// Apart: the destination's copy differs from the source's behind Common, and is to
	// stay as it is. The gap says that, and covers all from there on.
	Apart  bool
	Common rhumb.Offset
}

// SkipTo has what lies between the destination's watermark and a point said to be
// skipped, in the next session that opens; nil takes that back. It is done when the
// destination has confirmed the point.
func (s *Sender) SkipTo(o *Order) { s.order = o }

// Disconnected says that the link is gone, and the session with it.
func (s *Sender) Disconnected() { s.leave(Closed, wire.CodeNone, "disconnected") }

// leave ends whatever is under way: what is in flight is not known to have
// arrived, and answers to come are old.
func (s *Sender) leave(to State, code wire.Code, text string) {
	s.state, s.code, s.text = to, code, text
	s.flights.clear()
	s.sent, s.scanned, s.fenced = s.confirmed, s.confirmed.Offset, false
	s.forgetReads()
}

// forgetReads makes the result of a read or check that is under way old.
func (s *Sender) forgetReads() {
	s.gen++
	s.reading, s.points, s.ready, s.tail = false, nil, nil, nil
}

// OnFrame takes a frame of the destination. Frames of other sessions, and types
// that only a source sends, are passed over.
func (s *Sender) OnFrame(f wire.Frame) {
	if !s.state.Open() {
		return
	}
	switch f := f.(type) {
	case *wire.State:
		if f.Session == s.session && s.state == Opening && s.points == nil {
			s.onState(f)
		}
	case *wire.Confirm:
		if f.Session == s.session && s.state != Opening {
			s.onConfirm(dedup.ChainPoint{Offset: f.Watermark, Chain: f.Chain})
		}
	case *wire.Refuse:
		if f.Session == s.session && (s.state == Opening || f.Round == s.round) {
			s.onRefuse(f)
		}
	case *wire.Close:
		if f.Session == s.session {
			s.end(f.Code, f.Text)
		}
	}
}

// onState compares what the destination has with this log.
func (s *Sender) onState(f *wire.State) {
	w := f.Watermark
	if w.Region != s.cfg.Region || w.Life != s.cfg.Life {
		s.leave(Refused, wire.CodeInvalid, fmt.Sprintf("destination answers for origin %d:%s", w.Region, w.Life))
		return
	}
	s.window = min(s.cfg.Window, int(f.Window))
	s.confirmed = dedup.ChainPoint{Offset: w.Offset, Chain: w.Chain}
	s.points = append(make([]dedup.ChainPoint, 0, 1+dedup.RecentPoints+len(f.Chains)), s.confirmed)
	for _, p := range w.Recent {
		if p.Known() {
			s.points = append(s.points, p)
		}
	}
	if s.asked > 0 && len(f.Chains) == 0 {
		s.rounds = maxRounds // an older version does not answer
	}
	s.points = append(s.points, f.Chains...)
	if mutant.On(mutant.ChainNotCompared) || w.Offset == rhumb.NoOffset {
		s.flow()
		return
	}
	s.gen++
	s.actions.add(Action{Do: DoCheck, Gen: s.gen, Points: s.points})
}

// pastEnd reports whether the destination has more of this life than there is.
func (s *Sender) pastEnd(w rhumb.Offset) bool {
	if s.source.Relay || s.fenced && w == s.sent.Offset {
		return false // it has another path; a closing skip may lie there
	}
	return w >= s.source.End && !mutant.On(mutant.PastEndIgnored)
}

func (s *Sender) diverge(text string) {
	if s.fenced { // what was on its way came before the closing skip: look again
		s.stall(text)
		return
	}
	s.leave(Diverged, wire.CodeDiverged, text)
}

func (s *Sender) stall(text string) { s.leave(Stalled, wire.CodeUnavailable, text) }

// flow starts to send right after what is confirmed.
func (s *Sender) flow() {
	s.forgetReads()
	s.flights.clear()
	s.state, s.fenced, s.heard = Flowing, false, true
	s.sent, s.scanned = s.confirmed, s.confirmed.Offset
	s.pump()
}

// onConfirm takes a watermark of the destination. A late one is passed over.
func (s *Sender) onConfirm(w dedup.ChainPoint) {
	switch {
	case w.Offset <= s.confirmed.Offset:
		return
	case s.pastEnd(w.Offset):
		s.diverge(fmt.Sprintf("destination confirms %d, this log ends before %d", w.Offset, s.source.End))
		return
	case !s.flights.confirm(w):
		s.diverge(fmt.Sprintf("destination confirms %d with another chain", w.Offset))
		return
	}
	s.confirmed = w
	if s.fenced && w.Offset == s.sent.Offset {
		s.common = s.closing
		s.settle()
		return
	}
	if w.Offset > s.sent.Offset {
		// What was sent before a rewind has arrived after all.
		s.forgetReads()
		s.sent, s.scanned = w, w.Offset
	}
	s.pump()
}

// onRefuse rewinds if something was missing, else ends the session.
func (s *Sender) onRefuse(f *wire.Refuse) {
	if f.Code == wire.CodeElsewhere && (s.state == Opening || f.Watermark > s.confirmed.Offset) {
		s.confirmed = dedup.ChainPoint{Offset: f.Watermark, Chain: f.Chain}
	}
	if f.Code != wire.CodeMissing || s.state == Opening {
		s.end(f.Code, f.Text)
		return
	}
	switch {
	case s.pastEnd(f.Watermark):
		s.diverge(fmt.Sprintf("destination misses what comes after %d, this log ends before %d", f.Watermark, s.source.End))
		return
	case f.Watermark < s.confirmed.Offset:
		s.stall(fmt.Sprintf("destination went back from %d to %d", s.confirmed.Offset, f.Watermark))
		return
	case f.Watermark == s.rewoundTo:
		s.stall(fmt.Sprintf("no progress after a rewind to %d: %s", f.Watermark, f.Text))
		return
	}
	s.rewoundTo = f.Watermark
	s.rewinds++
	s.round++
	if mutant.On(mutant.NoGoBack) {
		s.flights.clear()
		return
	}
	s.confirmed = dedup.ChainPoint{Offset: f.Watermark, Chain: f.Chain}
	if mutant.On(mutant.RefusalConfirms) {
		s.confirmed = s.sent
	}
	s.flow()
}

// end takes the destination's last word on the session.
func (s *Sender) end(code wire.Code, text string) {
	switch {
	case code == wire.CodeDiverged:
		s.diverge(text)
	case code == wire.CodeElsewhere:
		s.leave(Standby, code, text)
	case code == wire.CodeHold:
		s.leave(Held, code, text)
	case code.Retriable():
		s.leave(Stalled, code, text)
	default:
		s.leave(Refused, code, text)
	}
}
