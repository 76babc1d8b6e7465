package session

import (
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
	"pgregory.net/rapid"
)

// TestMain runs more cases than rapid's default: one takes a few milliseconds.
func TestMain(m *testing.M) {
	flag.Parse()
	explicit := false
	flag.Visit(func(f *flag.Flag) { explicit = explicit || f.Name == "rapid.checks" })
	if !explicit {
		if err := flag.Set("rapid.checks", "500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// even rolls a die: unlike rapid's integers, which are mostly small, each value
// is as likely as the others.
var even = rapid.Custom(func(t *rapid.T) int {
	n := 0
	for range 10 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n
})

func roll(t *rapid.T, what string, sides int) int { return even.Draw(t, what) % sides }

// TestI3NastyLink: whatever the link, the source and the destination go
// through, once all is well again the destination has each life's batches in
// order, once, with gaps only where the source had dropped them.
func TestI3NastyLink(t *testing.T) { rapid.Check(t, checkNastyLink) }

func checkNastyLink(t *rapid.T) {
	p := newPair(600, t.Fatalf)
	p.trace = t.Logf
	if rapid.Bool().Draw(t, "start at latest") {
		p.src.own(3, 0)
		p.src.flushed = p.src.end
		p.src.start = p.src.pointBefore(1)
	}
	p.open()
	for range rapid.IntRange(100, 300).Draw(t, "steps") {
		switch roll(t, "step", 40) {
		case 0, 1, 2, 3, 4, 5:
			p.write(t)
		case 6:
			p.faultAtSource(t)
		case 7:
			p.faultAtDestination(t)
		case 8, 9, 10:
			p.faultOnLink(t)
		case 11:
			p.snd.OnQuiet()
			p.settleActions()
		case 13:
			p.sendAlone()
		case 12:
			p.slow[roll(t, "slow", len(p.slow))] = 10 + roll(t, "for steps", 50)
		default:
			p.anything(t)
		}
	}
	p.heal()
	if st := p.snd.Status(); st.State != Idle {
		t.Fatalf("ends %+v", st)
	}
	p.verify()
}

func (p *pair) write(t *rapid.T) {
	for range 1 + roll(t, "batches", 4) {
		if roll(t, "foreign", 4) == 0 {
			p.src.end += rhumb.Offset(1 + roll(t, "records", 3))
			continue
		}
		p.src.own(int32(1+roll(t, "records", 3)), []int{0, 0, 40, 150, 700}[roll(t, "bytes", 5)])
	}
	if roll(t, "flush", 3) > 0 {
		p.src.flushed = p.src.end
	}
	p.grown()
}

func (p *pair) faultAtSource(t *rapid.T) {
	switch roll(t, "fault at the source", 8) {
	case 0, 1, 2, 3:
		p.src.drop(p.src.dropped + 1 + roll(t, "batches", 3))
		p.grown()
	case 4, 5: // crash: a new process knows only its log
		p.cut()
		p.src.crash()
		p.snd = NewSender(p.snd.cfg)
		p.reads, p.checks = nil, nil
	case 6:
		if len(p.old) < 2 {
			p.create()
			p.reads, p.checks = nil, nil
		}
	case 7:
		if len(p.reads) > 0 {
			p.snd.OnRead(ReadResult{Gen: p.reads[0].Gen, Err: errors.New("disk")})
		}
	}
}

func (p *pair) faultAtDestination(t *rapid.T) {
	switch roll(t, "fault at the destination", 7) {
	case 0:
		p.dst.crash()
		p.results = nil
		p.held = 0
		p.cut()
	case 1, 2:
		kind := []rhumb.Kind{rhumb.KindUnavailable, rhumb.KindNoSpace, rhumb.KindTimeout}[roll(t, "kind", 3)]
		p.dst.failNext = rhumb.Errorf(kind, "the region says %s", kind)
	case 3, 4, 5:
		p.dst.loseLeader(roll(t, "stay in the log", 4), rhumb.Errorf(rhumb.KindNotLeader, "no leader"))
		p.settleActions()
	case 6:
		if p.rcv != nil {
			p.rcv.Close(wire.CodeShutdown, "")
			p.settleActions()
		}
	}
}

func (p *pair) faultOnLink(t *rapid.T) {
	list := &p.toDst
	if roll(t, "on the way back", 3) == 0 {
		list = &p.toSrc
	}
	if len(*list) == 0 {
		return
	}
	i := roll(t, "frame", len(*list))
	f := (*list)[i]
	switch roll(t, "fault on the link", 8) {
	case 0, 1, 2: // lost
		p.reliable = false
		*list = append((*list)[:i:i], (*list)[i+1:]...)
	case 3, 4: // twice
		*list = append(append((*list)[:i:i], f), (*list)[i:]...)
	case 5, 6: // late
		p.reliable = false
		*list = append(append((*list)[:i:i], (*list)[i+1:]...), f)
	case 7:
		p.cut()
	}
}

// anything lets one of the things that are under way happen: frames in their
// order, reads, checks and answers of the region in any. What is slow just now
// does not happen.
func (p *pair) anything(t *rapid.T) {
	var can []func()
	some := func(kind, n int, do func(i int)) {
		if p.slow[kind] > 0 {
			p.slow[kind]--
		} else if n > 0 {
			can = append(can, func() { do(roll(t, "which", n)) })
		}
	}
	some(0, min(1, len(p.toDst)), p.deliver)
	some(1, min(1, len(p.toSrc)), p.answer)
	some(2, min(1, len(p.dst.queue)), func(int) { p.apply() })
	some(3, len(p.reads), p.read)
	some(4, len(p.results), p.result)
	some(5, len(p.checks), p.check)
	if !p.snd.Status().State.Open() {
		can = append(can, p.open)
	}
	if len(can) > 0 {
		can[roll(t, "happens", len(can))]()
	}
}

// TestI3RestoredSourceIsDiverged: a source that was put back to an old copy, and
// has perhaps grown since, never adds to what the destination has, and says so.
func TestI3RestoredSourceIsDiverged(t *testing.T) { rapid.Check(t, checkRestored) }

func checkRestored(t *rapid.T) {
	p := newPair(600, t.Fatalf)
	p.trace = t.Logf
	p.open()
	for range rapid.IntRange(1, 30).Draw(t, "batches") {
		p.src.own(rapid.Int32Range(1, 3).Draw(t, "records"), 0)
		if rapid.IntRange(0, 4).Draw(t, "deliver") == 0 {
			p.heal()
		}
	}
	p.heal()
	truth := p.src.batches
	kept := rapid.IntRange(0, len(truth)-1).Draw(t, "kept batches")
	common := p.src.pointBefore(kept)
	p.cut()
	p.src.cut(common.Offset + 1)
	p.src.written += 500
	for range rapid.IntRange(0, 2*(len(truth)-kept)).Draw(t, "written since") {
		p.src.own(rapid.Int32Range(1, 3).Draw(t, "records"), 0)
	}
	p.src.flushed = p.src.end
	p.snd = NewSender(p.snd.cfg) // it is another process
	p.watch = watch{}
	p.open()
	p.heal()
	st := p.snd.Status()
	if st.State != Diverged {
		t.Fatalf("kept up to %d of %d batches, and is %+v", common.Offset, len(truth), st)
	}
	if st.Common.Offset != common.Offset || !st.Exact {
		t.Fatalf("says that %d is common (exact: %v), the copy ended at %d", st.Common.Offset, st.Exact, common.Offset)
	}
	stored := p.dst.stored[p.src.life]
	if len(stored) != len(truth) || stored[len(stored)-1].Envelope != truth[len(truth)-1].Envelope {
		t.Fatalf("the destination has %d batches, had %d", len(stored), len(truth))
	}
	if w := p.dst.open(p.src.life); w.Offset != truth[len(truth)-1].Envelope.Last || w.Floor != rhumb.NoOffset {
		t.Fatalf("watermark became %+v", w)
	}
}
