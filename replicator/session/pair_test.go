package session

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// pair is a source and a destination, joined by a link that does what it is
// told: nothing moves by itself.
type pair struct {
	window int // bytes; a read is at most two thirds of it
	fatal  func(format string, args ...any)
	trace  func(format string, args ...any)

	src *twinSource
	old []*twinSource // former lives
	snd *Sender
	dst *twinRegion
	rcv *Receiver
	// alone are the receivers of sessions of one batch, which the source sends beside.
	alone map[wire.SessionID]*Receiver

	toDst, toSrc []wire.Frame
	reads        []Read
	checks       []Action // and searches
	results      []func() // answers of the region on their way to a receiver

	session  wire.SessionID
	reliable bool   // nothing was lost or came out of order in this session
	held     int    // bytes that receivers hold
	slow     [6]int // for how many steps of [pair.anything] each kind of thing does not happen

	watch watch
}

func newPair(window int, fatal func(string, ...any)) *pair {
	p := &pair{window: window, fatal: fatal, trace: func(string, ...any) {}, dst: newTwinRegion()}
	p.dst.onGap = func(life rhumb.Life, gap dedup.Skip) {
		if s := p.sourceOf(life); gap.To > s.pointBefore(s.dropped).Offset {
			p.fatal("gap %+v though the floor is at %d", gap, s.pointBefore(s.dropped).Offset)
		}
	}
	p.create()
	return p
}

// create makes the topic anew: a new life on the same partition.
func (p *pair) create() {
	seed := uint32(1000 * len(p.old))
	if p.src != nil {
		p.old = append(p.old, p.src)
		p.snd.Close(wire.CodeReplaced, "")
		p.settleActions()
		seed += 1000
	}
	p.src = newTwinSource(rhumb.Life{byte(len(p.old) + 1)}, seed)
	p.snd = NewSender(Config{
		Partition: rhumb.Partition{Topic: rhumb.Topic{Tenant: "public", Namespace: "default", Name: "t"}},
		Region:    1, Life: p.src.life, Producer: "rhumb.repl.a.b", Window: p.window, ReadBytes: p.window * 2 / 3})
	p.watch = watch{}
}

func (p *pair) sourceOf(life rhumb.Life) *twinSource {
	for _, s := range p.old {
		if s.life == life {
			return s
		}
	}
	return p.src
}

func (p *pair) open() {
	p.session++
	p.reliable = true
	p.snd.Open(p.session, p.src.source())
	p.settleActions()
}

// cut loses the connection and all that is on it.
func (p *pair) cut() {
	p.toDst, p.toSrc, p.rcv, p.alone = nil, nil, nil, nil
	p.snd.Disconnected()
	p.settleActions()
}

// settleActions takes what both machines want done. It does not move frames.
func (p *pair) settleActions() {
	for _, a := range p.snd.Actions() {
		switch a.Do {
		case DoSend:
			p.trace("source > %s", describe(a.Frame))
			p.watch.sent(p, a.Frame)
			p.toDst = append(p.toDst, overTheWire(a.Frame))
		case DoRead:
			p.reads = append(p.reads, a.Read)
		case DoCheck, DoSearch:
			a.Points = append([]dedup.ChainPoint(nil), a.Points...)
			p.checks = append(p.checks, a)
		default:
			p.fatal("sender asks for %d", a.Do)
		}
	}
	if p.rcv != nil {
		p.settleReceiver(p.rcv)
	}
	p.watch.look(p)
}

func (p *pair) settleReceiver(rcv *Receiver) {
	for _, a := range rcv.Actions() {
		answer := func(res Result) {
			p.results = append(p.results, func() {
				rcv.OnResult(a.Ticket, res)
				p.settleReceiver(rcv)
			})
		}
		life := rcv.request.Life
		switch a.Do {
		case DoSend:
			if _, refused := a.Frame.(*wire.Refuse); refused && rcv.Status().Pending > 0 {
				p.fatal("%s while the region has not answered for %d messages", describe(a.Frame), rcv.Status().Pending)
			}
			if rcv.request.Alone {
				p.saidAlone(rcv, a.Frame)
			}
			if rcv == p.rcv {
				p.trace("dest   > %s", describe(a.Frame))
				p.toSrc = append(p.toSrc, overTheWire(a.Frame))
			}
		case DoAppend:
			p.dst.propose(proposal{life: life, message: a.Message, done: answer})
		case DoSkip:
			p.dst.propose(proposal{life: life, skip: a.Skip, done: answer})
		case DoRelease:
			p.held -= a.Bytes
		default:
			p.fatal("receiver asks for %d", a.Do)
		}
	}
}

// deliver brings the i-th frame that is on its way to the destination.
func (p *pair) deliver(i int) {
	f := p.toDst[i]
	p.toDst = append(p.toDst[:i:i], p.toDst[i+1:]...)
	if d, ok := f.(*wire.Data); ok {
		p.held += d.Size()
	}
	if p.deliverAlone(f) {
		return
	}
	if o, ok := f.(*wire.Open); ok {
		if p.rcv == nil || o.Session > p.rcv.request.Session {
			p.rcv = NewReceiver(o, p.window)
			p.rcv.Opened(p.dst.open(o.Life), p.dst.chains(o)...)
		}
	} else if p.rcv != nil {
		p.rcv.OnFrame(f)
	} else if d, ok := f.(*wire.Data); ok {
		p.held -= d.Size()
	}
	p.settleActions()
}

// sendAlone sends the life's first batch in a session of its own, if it may leave: beside
// whatever else goes on, as it may be under way from a connection before.
func (p *pair) sendAlone() {
	if len(p.src.batches) == 0 || p.src.start.Offset != rhumb.NoOffset || p.src.dropped > 0 {
		return
	}
	m := p.src.batches[0]
	if m.Envelope.Last >= p.src.flushed {
		return
	}
	p.session++
	c := &p.snd.cfg
	p.toDst = append(p.toDst,
		overTheWire(&wire.Open{Session: p.session, Partition: c.Partition, Region: c.Region, Life: c.Life, Head: p.src.flushed, Producer: c.Producer, Alone: true}),
		overTheWire(&wire.Data{Session: p.session, Head: p.src.flushed, Envelope: m.Envelope, Batch: m.Batch}))
}

// deliverAlone brings a frame of a session of one batch, and reports whether it was one.
func (p *pair) deliverAlone(f wire.Frame) bool {
	id := wire.SessionID(0)
	switch f := f.(type) {
	case *wire.Open:
		if !f.Alone {
			return false
		}
		if id = f.Session; p.alone[id] == nil {
			if p.alone == nil {
				p.alone = map[wire.SessionID]*Receiver{}
			}
			p.dst.open(f.Life)
			p.alone[id] = NewReceiver(f, p.window)
		}
	case *wire.Data:
		if id = f.Session; p.alone[id] == nil {
			return false
		}
		p.alone[id].OnFrame(f)
	default:
		return false
	}
	p.settleReceiver(p.alone[id])
	return true
}

// saidAlone checks what the source would take for the word that its batch is there.
func (p *pair) saidAlone(rcv *Receiver, f wire.Frame) {
	c, ok := f.(*wire.Confirm)
	if w := p.dst.applied[rcv.request.Life]; ok && c.Watermark > w.Offset {
		p.fatal("a session of one batch confirms %d, the region has %d", c.Watermark, w.Offset)
	}
}

// answer brings the i-th frame that is on its way to the source.
func (p *pair) answer(i int) {
	f := p.toSrc[i]
	p.toSrc = append(p.toSrc[:i:i], p.toSrc[i+1:]...)
	p.watch.answered(p, f)
	p.snd.OnFrame(f)
	p.settleActions()
}

func (p *pair) read(i int) {
	r := p.reads[i]
	p.reads = append(p.reads[:i:i], p.reads[i+1:]...)
	p.snd.OnRead(p.src.read(r))
	p.settleActions()
}

func (p *pair) check(i int) {
	c := p.checks[i]
	p.checks = append(p.checks[:i:i], p.checks[i+1:]...)
	if c.Do == DoSearch {
		p.snd.OnBorders(c.Gen, p.src.borders(c.From, c.To))
		p.settleActions()
		return
	}
	answers := make([]ChainAnswer, len(c.Points))
	for i, point := range c.Points {
		answers[i] = p.src.chainAt(point)
	}
	p.snd.OnChains(c.Gen, answers)
	p.settleActions()
}

func (p *pair) apply() {
	p.dst.apply()
	p.settleActions()
}

// result brings the i-th answer of the region to its receiver.
func (p *pair) result(i int) {
	fn := p.results[i]
	p.results = append(p.results[:i:i], p.results[i+1:]...)
	fn()
	p.settleActions()
}

func (p *pair) grown() {
	p.snd.OnSource(p.src.source())
	p.settleActions()
}

// step does the next thing of a world without faults. It is false if there is
// nothing to do.
func (p *pair) step() bool {
	switch {
	case len(p.results) > 0:
		p.result(0)
	case len(p.checks) > 0:
		p.check(0)
	case len(p.reads) > 0:
		p.read(0)
	case len(p.toDst) > 0:
		p.deliver(0)
	case len(p.dst.queue) > 0:
		p.apply()
	case len(p.toSrc) > 0:
		p.answer(0)
	default:
		return false
	}
	return true
}

// heal lets everything run without faults until nothing moves any more. A
// session on a link that lost nothing must get there by itself; others are
// rebuilt, as the watchdog of a link does.
func (p *pair) heal() {
	p.src.flushed = p.src.end
	p.grown()
	for range 20_000 {
		if p.step() {
			continue
		}
		st := p.snd.Status()
		switch {
		case st.State == Idle:
			p.snd.OnQuiet()
			p.settleActions()
			if len(p.toDst) == 0 {
				return
			}
		case st.State == Diverged:
			return
		case st.State.Open() && p.reliable:
			p.fatal("stuck while nothing was lost: %+v", st)
		case st.State == Refused:
			p.fatal("refused: %+v", st)
		default:
			p.open()
		}
	}
	p.fatal("no end: %+v", p.snd.Status())
}

// verify holds the destination against the sources.
func (p *pair) verify() {
	for _, s := range append(p.old[:len(p.old):len(p.old)], p.src) {
		p.verifyLife(s, s == p.src)
	}
	if st := p.snd.Status(); st.InFlight != 0 {
		p.fatal("%d bytes stay in flight: %+v", st.InFlight, st)
	}
	if p.held != 0 || p.rcv != nil && (p.rcv.Status().Bytes != 0 || p.rcv.Status().Pending != 0) {
		p.fatal("receivers hold %d bytes", p.held)
	}
}

func (p *pair) verifyLife(s *twinSource, complete bool) {
	w, stored := p.dst.open(s.life), p.dst.stored[s.life]
	if complete && w.Offset != s.end-1 {
		p.fatal("watermark %d, the log ends with %d", w.Offset, s.end-1)
	}
	for _, m := range s.batches {
		e := m.Envelope
		switch {
		case e.Last > w.Offset && !complete:
			return // never sent, and its life is over
		case e.Last <= s.start.Offset || p.gapCovers(s.life, e.First):
			continue // not meant to come, or given up: then it must not be stored
		case s.gone[e.First] && (len(stored) == 0 || stored[0].Envelope.First != e.First):
			continue // compaction was faster
		case len(stored) == 0:
			p.fatal("batch %d to %d is missing", e.First, e.Last)
		case slices.ContainsFunc(s.before[e.First], func(m Message) bool { return stored[0].Envelope == m.Envelope && bytes.Equal(stored[0].Batch, m.Batch) }):
			// it came before it was thinned
		case stored[0].Envelope != e || !bytes.Equal(stored[0].Batch, m.Batch):
			p.fatal("batch %d to %d is stored where %d to %d belongs", stored[0].Envelope.First, stored[0].Envelope.Last, e.First, e.Last)
		}
		stored = stored[1:]
	}
	if len(stored) > 0 {
		p.fatal("%d batches too many, from %d on", len(stored), stored[0].Envelope.First)
	}
}

func (p *pair) gapCovers(life rhumb.Life, o rhumb.Offset) bool {
	for _, g := range p.dst.gaps[life] {
		if g.From < o && o <= g.To {
			return true
		}
	}
	return false
}

// overTheWire writes a frame and reads it again.
func overTheWire(f wire.Frame) wire.Frame {
	got, err := wire.NewReader(bytes.NewReader(wire.Append(nil, f)), nil).Next()
	if err != nil {
		panic(fmt.Sprintf("%s: %v", f.Type(), err))
	}
	return got
}

// describe tells a frame in a few words.
func describe(f wire.Frame) string {
	switch f := f.(type) {
	case *wire.State:
		return fmt.Sprintf("state at %d", f.Watermark.Offset)
	case *wire.Data:
		return fmt.Sprintf("data %d..%d prev %d%s", f.Envelope.First, f.Envelope.Last, f.Envelope.Prev, inRound(f.Round))
	case *wire.Skip:
		return fmt.Sprintf("%s %d..%d %s%s", f.Type(), f.Skip.From+1, f.Skip.To, f.Skip.Reason, inRound(f.Round))
	case *wire.Confirm:
		return fmt.Sprintf("confirm %d", f.Watermark)
	case *wire.Refuse:
		return strings.TrimSpace(fmt.Sprintf("refuse %s at %d%s %s", f.Code, f.Watermark, inRound(f.Round), f.Text))
	case *wire.Close:
		return fmt.Sprintf("close %s", f.Code)
	}
	return f.Type().String()
}

func inRound(round uint32) string {
	if round == 0 {
		return ""
	}
	return fmt.Sprintf(" (round %d)", round)
}
