package session

import (
	"encoding/binary"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
	"pgregory.net/rapid"
)

// compact lets compaction take or thin flushed batches that pick chooses, but for the
// last one of them.
func (s *twinSource) compact(pick func(first rhumb.Offset) (take, thin bool)) {
	n := len(s.batches)
	for n > 0 && s.batches[n-1].Envelope.Last >= s.flushed {
		n--
	}
	for i := range max(0, n-1) {
		m := &s.batches[i]
		take, thin := pick(m.Envelope.First)
		if take {
			s.gone[m.Envelope.First] = true
		}
		if thin && m.Envelope.Count > 1 {
			s.before[m.Envelope.First] = append(s.before[m.Envelope.First], *m)
			*m = thinned(*m)
		}
	}
	s.compacted = s.flushed
}

// thinned is a batch of which one record less is left.
func thinned(m Message) Message {
	b := append([]byte(nil), m.Batch...)
	h, err := codec.ParseBatch(b)
	if err != nil {
		panic(err)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b[57:], uint32(h.Count-1))
	codec.SealBatch(b)
	m.Envelope.OriginCRC = m.Envelope.ChainCRC(h.CRC)
	m.Envelope.Flags |= codec.FlagThinned
	m.Envelope.Count--
	m.Envelope.BatchSize = uint32(len(b))
	m.Batch = b
	return m
}

// TestI3CompactedSource: the same as TestI3NastyLink while the source compacts: what it
// has still comes once and in order, the chain holds over all holes, and compaction is
// never told as a gap, nor taken for a difference.
func TestI3CompactedSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(600, t.Fatalf)
		p.trace = t.Logf
		p.open()
		for range rapid.IntRange(100, 300).Draw(t, "steps") {
			switch roll(t, "step", 40) {
			case 0, 1, 2, 3, 4, 5:
				p.write(t)
			case 6:
				p.faultAtSource(t)
			case 7:
				p.faultAtDestination(t)
			case 8, 9:
				p.faultOnLink(t)
			case 10, 11:
				p.src.compact(func(rhumb.Offset) (take, thin bool) {
					return roll(t, "take", 3) == 0, roll(t, "thin", 3) == 0
				})
				p.grown()
			case 12:
				p.snd.OnQuiet()
				p.settleActions()
			default:
				p.anything(t)
			}
		}
		p.heal()
		if st := p.snd.Status(); st.State != Idle {
			t.Fatalf("ends %+v", st)
		}
		p.verify()
	})
}

// TestI3CompactedRestoredSourceIsDiverged: compaction does not hide from a source that
// it was put back to an old copy, as long as one point is known to both.
func TestI3CompactedRestoredSourceIsDiverged(t *testing.T) {
	p := newPair(3000, t.Fatalf)
	p.open()
	for range 20 {
		p.src.own(2, 0)
	}
	p.heal()
	p.cut()
	p.src.cut(20)
	p.src.written += 500
	for range 20 {
		p.src.own(2, 0)
	}
	p.src.flushed = p.src.end
	p.src.compact(func(first rhumb.Offset) (take, thin bool) { return first%4 == 0 && first != 38, false })
	p.snd = NewSender(p.snd.cfg)
	p.watch = watch{}
	p.open()
	p.heal()
	if st := p.snd.Status(); st.State != Diverged || st.Common.Offset >= 20 {
		t.Fatalf("ends %+v", st)
	}
}

// TestManyHoles: more holes than a destination takes skips at once.
func TestManyHoles(t *testing.T) {
	p := newPair(1<<20, t.Fatalf)
	for range 5 * maxSkipsAhead {
		p.src.own(1, 0)
	}
	p.src.flushed = p.src.end
	p.src.compact(func(first rhumb.Offset) (take, thin bool) { return first%2 == 0, false })
	p.open()
	most := 0
	for p.step() {
		skips := 0
		for _, f := range p.toDst {
			if _, ok := f.(*wire.Skip); ok {
				skips++
			}
		}
		most = max(most, skips)
	}
	p.heal()
	if st := p.snd.Status(); st.State != Idle || most < maxSkipsAhead || most > maxSkipsAhead+1 {
		t.Fatalf("%d skips at once, ends %+v", most, st)
	}
	p.verify()
}
