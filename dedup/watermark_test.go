package dedup

import (
	"reflect"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

var testLife = rhumb.Life{1, 2, 3}

// TestI3AcceptRuleBorders compares the rule with its words for every small
// batch at every small watermark.
func TestI3AcceptRuleBorders(t *testing.T) { checkBorders(t) }

func checkBorders(t rapid.TB) {
	const top = rhumb.Offset(6)
	for at := rhumb.NoOffset; at < top; at++ {
		w := NewWatermark(1, testLife)
		w.Offset, w.Chain = at, 77
		for first := rhumb.NoOffset; first < top; first++ {
			for last := first - 1; last < top; last++ {
				for prev := rhumb.Offset(-2); prev < top; prev++ {
					b := OriginBatch{First: first, Last: last, Prev: prev, CRC: 5}
					b.Chain = codec.NextChain(77, first, last, 5)
					if last == at {
						b.Chain = 77 // the very batch that brought the watermark here
					}
					if got, want := w.Judge(b), inWords(w.Offset, b); got != want {
						t.Fatalf("watermark %d, batch %+v: %s, want %s", at, b, got, want)
					}
				}
			}
		}
	}
}

// inWords is the rule as the package comment has it, by looking at each offset.
func inWords(watermark rhumb.Offset, b OriginBatch) Verdict {
	if b.First < 0 || b.Last < b.First || b.Prev >= b.First || b.Prev < rhumb.NoOffset {
		return Invalid
	}
	accounted, all := 0, 0
	for o := b.First; o <= b.Last; o++ {
		all++
		if o <= watermark {
			accounted++
		}
	}
	switch {
	case accounted == all:
		return Duplicate
	case accounted > 0:
		return Diverged
	}
	for o := watermark + 1; o < b.First; o++ {
		if o == b.Prev {
			return Missing
		}
	}
	return Accept
}

// TestI3SkipBorders does the same for skips.
func TestI3SkipBorders(t *testing.T) { checkSkipBorders(t) }

func checkSkipBorders(t rapid.TB) {
	for at := rhumb.NoOffset; at < 6; at++ {
		w := NewWatermark(1, testLife)
		w.Offset, w.Chain = at, 77
		for from := rhumb.Offset(-2); from < 6; from++ {
			for to := rhumb.Offset(-1); to < 6; to++ {
				for reason := rhumb.ReasonNone; reason <= rhumb.ReasonLast+1; reason++ {
					s := Skip{From: from, To: to, Chain: 77, Reason: reason}
					want := Accept
					switch {
					case from < rhumb.NoOffset || to <= from || reason == rhumb.ReasonNone || reason > rhumb.ReasonLast:
						want = Invalid
					case to <= at:
						want = Duplicate
					case from > at:
						want = Missing
					}
					if got := w.JudgeSkip(s); got != want {
						t.Fatalf("watermark %d, skip %+v: %s, want %s", at, s, got, want)
					}
				}
			}
		}
	}
}

// TestI3SkipRaisesFloor: only what left something out makes the region vouch for
// less, and every skip takes over the chain at its end.
func TestI3SkipRaisesFloor(t *testing.T) { checkFloor(t) }

func checkFloor(t rapid.TB) {
	raises := map[rhumb.Reason]bool{rhumb.ReasonPolicy: true, rhumb.ReasonRetention: true, rhumb.ReasonDeleted: true, rhumb.ReasonLost: true}
	for reason := rhumb.ReasonForeign; reason <= rhumb.ReasonLost; reason++ {
		w := NewWatermark(1, testLife)
		w.Offset, w.Chain, w.Floor = 4, 77, 2
		got := w.Skip(Skip{From: 4, To: 9, Chain: 78, Reason: reason})
		floor := rhumb.Offset(2)
		if raises[reason] {
			floor = 9
		}
		if got.Offset != 9 || got.Chain != 78 || got.Floor != floor || got.Recent[0] != (ChainPoint{4, 77}) {
			t.Fatalf("after skip %s: %+v, want floor %d", reason, got, floor)
		}
	}
}

// TestForeignSkipCannotChangeTheChain: nothing of the origin lies in it.
func TestForeignSkipCannotChangeTheChain(t *testing.T) {
	w := NewWatermark(1, testLife)
	w.Offset, w.Chain = 4, 77
	if v := w.JudgeSkip(Skip{From: 4, To: 9, Chain: 78, Reason: rhumb.ReasonForeign}); v != Diverged {
		t.Errorf("foreign skip with another chain: %s", v)
	}
	if v := w.JudgeSkip(Skip{From: 2, To: 4, Chain: 78, Reason: rhumb.ReasonMarker}); v != Diverged {
		t.Errorf("skip to the watermark with another chain: %s", v)
	}
}

// TestRecentPoints: the points are true, newest first, and reach back further
// the longer the log is.
func TestRecentPoints(t *testing.T) { rapid.Check(t, checkRecentPoints) }

func checkRecentPoints(t *rapid.T) {
	size := rhumb.Offset(rapid.Int64Range(1, 40).Draw(t, "records per batch"))
	n := rapid.IntRange(1, 2000).Draw(t, "batches")
	w, history := NewWatermark(1, testLife), map[rhumb.Offset]uint64{}
	for i := range n {
		first := rhumb.Offset(i) * size
		b := OriginBatch{First: first, Last: first + size - 1, Prev: first - 1, CRC: uint32(i)}
		b.Chain = codec.NextChain(w.Chain, b.First, b.Last, b.CRC)
		if v := w.Judge(b); v != Accept {
			t.Fatalf("batch %d: %s", i, v)
		}
		w = w.Accept(b)
		history[b.Last] = b.Chain
	}
	newer := w.Offset
	for i, p := range w.Recent {
		if !p.Known() {
			if n > i+1 && w.Offset > 300<<(8*i) {
				t.Fatalf("after %d offsets there is no point %d: %+v", w.Offset, i, w.Recent)
			}
			break
		}
		if history[p.Offset] != p.Chain || p.Offset >= newer {
			t.Fatalf("point %d is wrong: %+v", i, w.Recent)
		}
		newer = p.Offset
	}
	if oldest := w.Offset - newer; w.Offset > 700 && oldest < 256 {
		t.Fatalf("after %d offsets the points reach back only %d", w.Offset, oldest)
	}
}

// TestChainBefore: the chain can be followed backwards.
func TestChainBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.Uint64().Draw(t, "chain")
		b := OriginBatch{First: rhumb.Offset(rapid.Int64Range(0, 1<<60).Draw(t, "first")), CRC: rapid.Uint32().Draw(t, "crc")}
		b.Last = b.First + rhumb.Offset(rapid.Int64Range(0, maxBatchOffsets-1).Draw(t, "more"))
		b.Chain = codec.NextChain(before, b.First, b.Last, b.CRC)
		if got := ChainBefore(b); got != before {
			t.Fatalf("chain before is %#x, want %#x", got, before)
		}
	})
}

func TestOriginBatchOf(t *testing.T) {
	e := codec.Envelope{First: 4, Last: 6, Prev: 2, Chain: 9}
	want := OriginBatch{First: 4, Last: 6, Prev: 2, Chain: 9, CRC: 8}
	if got := OriginBatchOf(&e, codec.BatchHeader{CRC: 8}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestVerdictsHaveWords(t *testing.T) {
	for v, want := range []string{"accept", "duplicate", "missing", "diverged", "invalid", "verdict-5"} {
		if got := Verdict(v).String(); got != want {
			t.Errorf("verdict %d is %q, want %q", v, got, want)
		}
	}
}
