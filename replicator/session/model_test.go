package session

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// TestI3NastyLink: whatever the link, the source and the destination go
// through, once all is well again the destination has each life's batches in
// order, once, with gaps only where the source had dropped them.
func TestI3NastyLink(t *testing.T) { rapid.Check(t, checkNastyLink) }

func checkNastyLink(t *rapid.T) {
	p := newPair(t.Fatalf)
	p.trace = t.Logf
	if rapid.Bool().Draw(t, "start at latest") {
		p.src.own(3, 0)
		p.src.flushed = p.src.end
		p.src.start = p.src.pointBefore(1)
	}
	p.open()
	for range rapid.IntRange(10, 250).Draw(t, "steps") {
		switch rapid.IntRange(0, 19).Draw(t, "step") {
		case 0, 1, 2, 3:
			p.write(t)
		case 4:
			p.faultAtSource(t)
		case 5:
			p.faultAtDestination(t)
		case 6:
			p.faultOnLink(t)
		case 7:
			p.snd.OnQuiet()
			p.settleActions()
		case 8:
			if st := p.snd.Status().State; !st.Open() {
				p.open()
			}
		case 9, 10:
			p.outOfOrder(t)
		default:
			p.step()
		}
	}
	p.heal()
	if st := p.snd.Status(); st.State != Idle {
		t.Fatalf("ends %+v", st)
	}
	p.verify()
}

func (p *pair) write(t *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		if rapid.IntRange(0, 3).Draw(t, "foreign") == 0 {
			p.src.end += rhumb.Offset(rapid.IntRange(1, 3).Draw(t, "records"))
			continue
		}
		size := rapid.SampledFrom([]int{0, 40, 150, 700}).Draw(t, "bytes")
		p.src.own(rapid.Int32Range(1, 3).Draw(t, "records"), size)
	}
	if rapid.IntRange(0, 2).Draw(t, "flush") > 0 {
		p.src.flushed = p.src.end
	}
	p.grown()
}

func (p *pair) faultAtSource(t *rapid.T) {
	switch rapid.IntRange(0, 4).Draw(t, "fault at the source") {
	case 0, 1:
		p.src.drop(p.src.dropped + rapid.IntRange(1, 3).Draw(t, "batches"))
		p.grown()
	case 2: // crash: a new process knows only its log
		p.cut()
		p.src.crash()
		p.snd = NewSender(p.snd.cfg)
		p.reads, p.checks = nil, nil
	case 3:
		if len(p.old) < 2 {
			p.create()
			p.reads, p.checks = nil, nil
		}
	case 4:
		p.snd.stall("read failed") // as OnRead with an error does
	}
}

func (p *pair) faultAtDestination(t *rapid.T) {
	switch rapid.IntRange(0, 4).Draw(t, "fault at the destination") {
	case 0:
		p.dst.crash()
		p.results = nil
		p.held = 0
		p.cut()
	case 1:
		kind := rapid.SampledFrom([]rhumb.Kind{rhumb.KindUnavailable, rhumb.KindNoSpace, rhumb.KindTimeout}).Draw(t, "kind")
		p.dst.failNext = rhumb.Errorf(kind, "the region says %s", kind)
	case 2, 3:
		keep := rapid.IntRange(0, 3).Draw(t, "stay in the log")
		p.dst.loseLeader(keep, rhumb.Errorf(rhumb.KindNotLeader, "no leader"))
		p.settleActions()
	case 4:
		if p.rcv != nil {
			p.rcv.Close(2, "")
			p.settleActions()
		}
	}
}

func (p *pair) faultOnLink(t *rapid.T) {
	list := &p.toDst
	if rapid.Bool().Draw(t, "on the way back") {
		list = &p.toSrc
	}
	if len(*list) == 0 {
		return
	}
	i := rapid.IntRange(0, len(*list)-1).Draw(t, "frame")
	f := (*list)[i]
	switch rapid.IntRange(0, 3).Draw(t, "fault on the link") {
	case 0: // lost
		p.reliable = false
		*list = append((*list)[:i:i], (*list)[i+1:]...)
	case 1: // twice
		*list = append(append((*list)[:i:i], f), (*list)[i:]...)
	case 2: // late
		p.reliable = false
		*list = append(append((*list)[:i:i], (*list)[i+1:]...), f)
	case 3:
		p.cut()
	}
}

// outOfOrder lets reads, checks and the region's answers come in any order.
func (p *pair) outOfOrder(t *rapid.T) {
	any := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "any") }
	switch {
	case len(p.reads) > 0 && rapid.Bool().Draw(t, "read"):
		p.read(any(len(p.reads)))
	case len(p.checks) > 0:
		p.check(any(len(p.checks)))
	case len(p.results) > 0 && rapid.Bool().Draw(t, "result"):
		p.result(any(len(p.results)))
	case len(p.dst.queue) > 0:
		p.apply()
	}
}

// TestI3RestoredSourceIsDiverged: a source that was put back to an old copy, and
// has perhaps grown since, never adds to what the destination has, and says so.
func TestI3RestoredSourceIsDiverged(t *testing.T) { rapid.Check(t, checkRestored) }

func checkRestored(t *rapid.T) {
	p := newPair(t.Fatalf)
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
	if st.Common.Offset > common.Offset {
		t.Fatalf("says that %d is common, the copy ended at %d", st.Common.Offset, common.Offset)
	}
	stored := p.dst.stored[p.src.life]
	if len(stored) != len(truth) || stored[len(stored)-1].Envelope != truth[len(truth)-1].Envelope {
		t.Fatalf("the destination has %d batches, had %d", len(stored), len(truth))
	}
	if w := p.dst.open(p.src.life); w.Offset != truth[len(truth)-1].Envelope.Last || w.Floor != rhumb.NoOffset {
		t.Fatalf("watermark became %+v", w)
	}
}
