package dedup

import (
	"math"
	"slices"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

const testTTL = 1000

// sent is one batch that the model's partition took.
type sent struct {
	epoch       int16
	first, last int32
	base        rhumb.Offset
}

// partition is the obvious model: the whole history since the state was lost.
type partition struct {
	history []sent
	next    rhumb.Offset
	used    int64
}

// judge is Kafka's rule over the whole history.
func (p *partition) judge(epoch int16, first, last int32) (SequenceVerdict, rhumb.Offset) {
	if len(p.history) == 0 {
		return SequenceNew, rhumb.NoOffset
	}
	latest := p.history[len(p.history)-1]
	if epoch < latest.epoch {
		return SequenceFenced, rhumb.NoOffset
	}
	if epoch > latest.epoch {
		if first == 0 {
			return SequenceNew, rhumb.NoOffset
		}
		return SequenceOutOfOrder, rhumb.NoOffset
	}
	remembered := 0
	for _, s := range slices.Backward(p.history) {
		if remembered == 5 || s.epoch != epoch {
			break
		}
		if s.first == first && s.last == last {
			return SequenceDuplicate, s.base
		}
		remembered++
	}
	if latest.last == math.MaxInt32 && first == 0 || first == latest.last+1 && first > 0 {
		return SequenceNew, rhumb.NoOffset
	}
	return SequenceOutOfOrder, rhumb.NoOffset
}

// TestProducerTable: any sequences, epochs, retries and expiries get the
// verdicts of the obvious model.
func TestProducerTable(t *testing.T) { rapid.Check(t, checkProducer) }

func checkProducer(t *rapid.T) {
	var state *Producer
	model, now := partition{}, int64(0)
	for range rapid.IntRange(1, 60).Draw(t, "batches") {
		now += rapid.SampledFrom([]int64{0, 1, 7, testTTL - 1, testTTL, testTTL + 1}).Draw(t, "passes")
		expired := state != nil && now-model.used > testTTL
		if state != nil && state.Expired(now, testTTL) != expired {
			t.Fatalf("expired %v, want %v", !expired, expired)
		}
		if expired {
			state, model = nil, partition{next: model.next}
		}
		epoch, first, last := drawBatch(t, &model)
		verdict, base := state.Judge(epoch, first, last)
		wantVerdict, wantBase := model.judge(epoch, first, last)
		if verdict != wantVerdict || base != wantBase {
			t.Fatalf("epoch %d, sequences %d to %d after %+v: %s %d, want %s %d",
				epoch, first, last, model.history, verdict, base, wantVerdict, wantBase)
		}
		if verdict == SequenceNew {
			var from Producer
			if state != nil {
				from = *state
			}
			next := from.Accept(epoch, SeqRange{First: first, Last: last, Base: model.next, Time: now})
			state = restart(t, &next)
			model.history = append(model.history, sent{epoch, first, last, model.next})
			model.next++
			model.used = now
		}
	}
}

// drawBatch makes something that a client could send: the next batch, a retry
// of a recent one, one with a hole before it, another epoch, near the wrap.
func drawBatch(t *rapid.T, p *partition) (epoch int16, first, last int32) {
	count := rapid.Int32Range(1, 3).Draw(t, "records")
	if len(p.history) == 0 {
		first = rapid.SampledFrom([]int32{0, 1, 5, math.MaxInt32 - 4, math.MaxInt32}).Draw(t, "first")
		return 3, first, wrap(int64(first) + int64(count) - 1)
	}
	latest := p.history[len(p.history)-1]
	next := wrap(int64(latest.last) + 1)
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0, 1:
		back := rapid.IntRange(1, 7).Draw(t, "retry")
		if back <= len(p.history) {
			s := p.history[len(p.history)-back]
			return s.epoch, s.first, s.last
		}
	case 2:
		first = wrap(int64(next) + rapid.SampledFrom([]int64{1, 2, -1}).Draw(t, "hole"))
		return latest.epoch, first, wrap(int64(first) + int64(count) - 1)
	case 3:
		epoch = latest.epoch + rapid.SampledFrom([]int16{-1, 1}).Draw(t, "epoch")
		first = rapid.SampledFrom([]int32{0, next, 1}).Draw(t, "first")
		return max(epoch, 0), first, wrap(int64(first) + int64(count) - 1)
	case 4:
		s := latest // same start, other length
		return s.epoch, s.first, wrap(int64(s.last) + 1)
	}
	return latest.epoch, next, LastSequence(next, count)
}

// wrap counts on a circle of 2^31 in the long way.
func wrap(n int64) int32 {
	for n < 0 {
		n += 1 << 31
	}
	for n > math.MaxInt32 {
		n -= 1 << 31
	}
	return int32(n)
}

// restart writes the state and reads it again.
func restart(t *rapid.T, p *Producer) *Producer {
	b := p.Append(nil)
	got, n, err := ParseProducer(b)
	if err != nil || n != len(b) || got != *p {
		t.Fatalf("%+v becomes %+v, %v", p, got, err)
	}
	return &got
}

// TestLastSequence: after 2^31-1 comes 0, also inside a batch.
func TestLastSequence(t *testing.T) { checkLastSequence(t) }

func checkLastSequence(t rapid.TB) {
	for _, c := range []struct{ first, count, last int32 }{
		{0, 1, 0}, {0, 5, 4}, {math.MaxInt32, 1, math.MaxInt32}, {math.MaxInt32, 2, 0},
		{math.MaxInt32 - 1, 5, 2}, {7, math.MaxInt32, 5},
	} {
		if got := LastSequence(c.first, c.count); got != c.last {
			t.Fatalf("%d records from %d end with %d, want %d", c.count, c.first, got, c.last)
		}
	}
}

// TestProducerRefusesNonsense: negative numbers are no sequences.
func TestProducerRefusesNonsense(t *testing.T) {
	var none *Producer
	for _, c := range [][3]int32{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}} {
		if v, base := none.Judge(int16(c[0]), c[1], c[2]); v != SequenceInvalid || base != rhumb.NoOffset {
			t.Errorf("%v: %s, %d", c, v, base)
		}
	}
	for v, want := range []string{"new", "duplicate", "out of order", "fenced", "invalid", "sequence-verdict-5"} {
		if got := SequenceVerdict(v).String(); got != want {
			t.Errorf("verdict %d is %q, want %q", v, got, want)
		}
	}
}

// TestProducerTimeNeverGoesBack: entries of a new leader may carry an earlier
// time; that does not make the producer look unused.
func TestProducerTimeNeverGoesBack(t *testing.T) {
	p := Producer{}.Accept(0, SeqRange{Time: 50})
	if p = p.Accept(0, SeqRange{First: 1, Last: 1, Time: 40}); p.LastUse != 50 {
		t.Errorf("last use %d, want 50", p.LastUse)
	}
}
