package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// flowing gives a sender that has sent n batches of a source and heard nothing.
func flowing(t *testing.T, n int) (*Sender, *twinSource) {
	t.Helper()
	src := newTwinSource(hostileLife, 0)
	for range n {
		src.own(1, 0)
	}
	src.flushed = src.end
	s := NewSender(Config{Region: 1, Life: hostileLife, Window: 10_000, ReadBytes: 10_000})
	s.Open(1, src.source())
	s.OnFrame(&wire.State{Session: 1, Window: 10_000, Watermark: dedup.NewWatermark(1, hostileLife)})
	for _, a := range s.Actions() {
		if a.Do == DoRead {
			s.OnRead(src.read(a.Read))
		}
	}
	s.Actions()
	if st := s.Status(); st.State != Flowing || st.Sent != rhumb.Offset(n-1) {
		t.Fatalf("not flowing: %+v", st)
	}
	return s, src
}

// TestSenderPassesOverForeignFrames: of other sessions, of other rounds, of the
// wrong side, and late ones.
func TestSenderPassesOverForeignFrames(t *testing.T) {
	s, _ := flowing(t, 3)
	s.OnFrame(&wire.Confirm{Session: 1, Watermark: 1, Chain: s.flights.list[1].end.Chain})
	before := s.Status()
	for _, f := range []wire.Frame{
		&wire.Confirm{Session: 2, Watermark: 2},
		&wire.Confirm{Session: 1, Watermark: 0},
		&wire.Refuse{Session: 1, Round: 7, Code: wire.CodeMissing, Watermark: 0},
		&wire.Refuse{Session: 2, Code: wire.CodeDiverged},
		&wire.Close{Session: 2},
		&wire.State{Session: 1, Watermark: dedup.NewWatermark(1, hostileLife)},
		&wire.Ping{}, &wire.Data{Session: 1},
	} {
		s.OnFrame(f)
		if got := s.Status(); got != before || len(s.Actions()) != 0 {
			t.Errorf("%s changes %+v to %+v", describe(f), before, got)
		}
	}
	s.OnChains(s.gen, nil)
	s.OnRead(ReadResult{Gen: s.gen})
	if got := s.Status(); got != before {
		t.Errorf("answers to nothing change it to %+v", got)
	}
}

// TestSenderEnds: each way in which a session ends, and what to do about it.
func TestSenderEnds(t *testing.T) {
	for name, c := range map[string]struct {
		event func(*Sender)
		state State
		text  string
	}{
		"hold":         {func(s *Sender) { s.OnFrame(&wire.Refuse{Session: 1, Code: wire.CodeHold, Text: "quota"}) }, Held, "quota"},
		"unavailable":  {func(s *Sender) { s.OnFrame(&wire.Refuse{Session: 1, Code: wire.CodeUnavailable}) }, Stalled, ""},
		"later code":   {func(s *Sender) { s.OnFrame(&wire.Refuse{Session: 1, Code: 200}) }, Stalled, ""},
		"deleted":      {func(s *Sender) { s.OnFrame(&wire.Refuse{Session: 1, Code: wire.CodeDeleted}) }, Refused, ""},
		"diverged":     {func(s *Sender) { s.OnFrame(&wire.Refuse{Session: 1, Code: wire.CodeDiverged}) }, Diverged, ""},
		"forbidden":    {func(s *Sender) { s.OnFrame(&wire.Close{Session: 1, Code: wire.CodeForbidden}) }, Refused, ""},
		"shutdown":     {func(s *Sender) { s.OnFrame(&wire.Close{Session: 1, Code: wire.CodeShutdown}) }, Stalled, ""},
		"disconnected": {func(s *Sender) { s.Disconnected() }, Closed, "disconnected"},
		"past the end": {func(s *Sender) { s.OnFrame(&wire.Confirm{Session: 1, Watermark: 3}) }, Diverged, "ends before 3"},
		"other chain":  {func(s *Sender) { s.OnFrame(&wire.Confirm{Session: 1, Watermark: 2, Chain: 1}) }, Diverged, "another chain"},
		"misses what is not": {func(s *Sender) {
			s.OnFrame(&wire.Refuse{Session: 1, Code: wire.CodeMissing, Watermark: 8})
		}, Diverged, "ends before 3"},
		"went back": {func(s *Sender) {
			s.OnFrame(&wire.Confirm{Session: 1, Watermark: 1, Chain: s.flights.list[1].end.Chain})
			s.OnFrame(&wire.Refuse{Session: 1, Code: wire.CodeMissing, Watermark: 0})
		}, Stalled, "went back from 1 to 0"},
	} {
		s, _ := flowing(t, 3)
		c.event(s)
		st := s.Status()
		if st.State != c.state || !strings.Contains(st.Text, c.text) || st.InFlight != 0 {
			t.Errorf("%s: %+v, want %s", name, st, c.state)
		}
		if st.State.Open() || st.State.Retriable() != (c.state == Held || c.state == Stalled) {
			t.Errorf("%s: state %s is open or not retriable", name, st.State)
		}
	}
}

// TestSenderDoesNotSpin: a destination that misses the same thing again and again
// stalls the session instead of a hot loop.
func TestSenderDoesNotSpin(t *testing.T) {
	s, src := flowing(t, 3)
	for round := range uint32(2) {
		s.OnFrame(&wire.Refuse{Session: 1, Round: round, Code: wire.CodeMissing, Watermark: rhumb.NoOffset})
		for _, a := range s.Actions() {
			if a.Do == DoRead {
				s.OnRead(src.read(a.Read))
			}
		}
	}
	if st := s.Status(); st.State != Stalled || st.Rewinds != 1 || !strings.Contains(st.Text, "no progress") {
		t.Errorf("%+v", st)
	}
}

// TestSenderStallsOnFaultsOfItsLog: they are never skipped.
func TestSenderStallsOnFaultsOfItsLog(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ReadResult)
		text   string
	}{
		"hole":      {func(r *ReadResult) { r.Messages = r.Messages[1:] }, "hole without a cause: after 2"},
		"overlap":   {func(r *ReadResult) { r.Messages[0].Envelope.First = 2 }, "hole without a cause"},
		"unflushed": {func(r *ReadResult) { r.Messages[1].Envelope.Last = 50 }, "may not leave"},
		"nothing":   {func(r *ReadResult) { r.Messages, r.Complete = nil, false }, "gave nothing"},
		"error":     {func(r *ReadResult) { r.Err = rhumb.Errorf(rhumb.KindCorrupt, "file 3 at 77") }, "file 3 at 77"},
	} {
		s, src := flowing(t, 3)
		src.own(1, 0)
		src.own(1, 0)
		src.flushed = src.end
		s.OnSource(src.source())
		actions := s.Actions()
		if len(actions) != 1 || actions[0].Do != DoRead {
			t.Fatalf("%s: %+v", name, actions)
		}
		res := src.read(actions[0].Read)
		c.change(&res)
		s.OnRead(res)
		if st := s.Status(); st.State != Stalled || !strings.Contains(st.Text, c.text) {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestSenderRefusesTheWrongOrigin: an answer for another life proves nothing.
func TestSenderRefusesTheWrongOrigin(t *testing.T) {
	s := NewSender(Config{Region: 1, Life: hostileLife})
	s.Open(1, NewSource())
	s.OnFrame(&wire.State{Session: 1, Watermark: dedup.NewWatermark(1, rhumb.Life{1})})
	if st := s.Status(); st.State != Refused {
		t.Errorf("%+v", st)
	}
}

// TestEmptySourceIsIdle: nothing to send is not stuck.
func TestEmptySourceIsIdle(t *testing.T) {
	s := NewSender(Config{Region: 1, Life: hostileLife, Window: 100, ReadBytes: 100})
	s.Open(1, NewSource())
	s.OnFrame(&wire.State{Session: 1, Window: 100, Watermark: dedup.NewWatermark(1, hostileLife)})
	s.OnQuiet()
	if st := s.Status(); st.State != Idle || len(s.Actions()) != 1 {
		t.Errorf("%+v", st)
	}
	s.Close(wire.CodeIdle, "")
	if a := s.Actions(); len(a) != 1 || a[0].Frame.Type() != wire.TypeClose || s.Status().State != Closed {
		t.Errorf("closing: %+v", a)
	}
	s.Close(wire.CodeIdle, "") // there is no session to close
	if a := s.Actions(); len(a) != 0 {
		t.Errorf("closing twice: %+v", a)
	}
}

// TestSmallGrant: the destination's window counts, down to one message at a time.
func TestSmallGrant(t *testing.T) {
	src := newTwinSource(hostileLife, 0)
	for range 3 {
		src.own(1, 0)
	}
	src.flushed = src.end
	s := NewSender(Config{Region: 1, Life: hostileLife, Window: 10_000, ReadBytes: 10_000})
	s.Open(1, src.source())
	s.OnFrame(&wire.State{Session: 1, Window: 0, Watermark: dedup.NewWatermark(1, hostileLife)})
	for i := range 3 {
		var sent int
		for _, a := range s.Actions() {
			if a.Do == DoRead {
				s.OnRead(src.read(a.Read))
			}
		}
		for _, a := range s.Actions() {
			if d, ok := a.Frame.(*wire.Data); ok {
				sent++
				s.OnFrame(&wire.Confirm{Session: 1, Watermark: d.Envelope.Last, Chain: d.Envelope.Chain})
				break
			}
		}
		if sent != 1 {
			t.Fatalf("step %d: %d messages, %+v", i, sent, s.Status())
		}
	}
	if st := s.Status(); st.State != Idle || st.Confirmed != 2 {
		t.Errorf("%+v", st)
	}
}

func TestStatesHaveWords(t *testing.T) {
	for s, want := range []string{"closed", "opening", "flowing", "idle", "held", "stalled", "diverged", "refused",
		"searching", "settled", "standby", "state-11"} {
		if got := State(s).String(); got != want {
			t.Errorf("state %d is %q, want %q", s, got, want)
		}
	}
}

// BenchmarkSession sends one batch through both machines and confirms it.
func BenchmarkSession(b *testing.B) {
	s := NewSender(Config{Region: 1, Life: hostileLife, Window: 1 << 20, ReadBytes: 1 << 20})
	s.Open(1, NewSource())
	s.OnFrame(&wire.State{Session: 1, Window: 1 << 20, Watermark: dedup.NewWatermark(1, hostileLife)})
	s.Actions()
	r := openReceiver(1 << 20)
	src, w := newTwinSource(hostileLife, 0), dedup.NewWatermark(1, hostileLife)
	src.own(1, 1000)
	m := src.batches[0]
	b.ReportAllocs()
	for i := rhumb.Offset(0); b.Loop(); i++ {
		m.Envelope.First, m.Envelope.Last, m.Envelope.Prev = i, i, i-1
		grown := NewSource()
		grown.Head, grown.End, grown.OwnLast = i+1, i+1, i
		s.OnSource(grown)
		read := s.Actions()[0].Read
		s.OnRead(ReadResult{Gen: read.Gen, Source: grown, Messages: []Message{m}, Complete: true})
		r.OnFrame(s.Actions()[0].Frame)
		ticket := r.Actions()[0].Ticket
		w.Offset, w.Chain = i, m.Envelope.Chain
		r.OnResult(ticket, Result{Watermark: w})
		for _, a := range r.Actions() {
			if a.Do == DoSend {
				s.OnFrame(a.Frame)
			}
		}
	}
	if st := s.Status(); st.State != Idle || st.InFlight != 0 {
		b.Fatalf("%+v", st)
	}
}

// TestGapsHaveTheirReasons: where the log start moved for different reasons, each
// range that will not come has its own.
func TestGapsHaveTheirReasons(t *testing.T) {
	p := newPair(600, t.Fatalf)
	for range 9 {
		p.src.own(1, 0)
	}
	p.src.flushed = p.src.end
	p.src.drop(6)
	p.src.floors = []Floor{{p.src.pointBefore(2), rhumb.ReasonRetention}, {p.src.pointBefore(4), rhumb.ReasonDeleted}}
	p.open()
	p.heal()
	want := []dedup.Skip{
		{From: -1, To: 1, Chain: p.src.pointBefore(2).Chain, Reason: rhumb.ReasonRetention},
		{From: 1, To: 3, Chain: p.src.pointBefore(4).Chain, Reason: rhumb.ReasonDeleted},
		{From: 3, To: 5, Chain: p.src.pointBefore(6).Chain, Reason: rhumb.ReasonRetention},
	}
	if got := p.dst.gaps[p.src.life]; !slices.Equal(got, want) {
		t.Errorf("gaps %+v, want %+v", got, want)
	}
	p.verify()
}
