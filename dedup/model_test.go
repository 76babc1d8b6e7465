package dedup

import (
	"fmt"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// originLog is a source's log of one life: batches, holes that other origins'
// records left, and a floor below which it has dropped everything.
type originLog struct {
	life    rhumb.Life
	batches []OriginBatch
	end     rhumb.Offset
	floor   int // number of batches dropped
}

func (l *originLog) lastPoint() ChainPoint { return l.pointBefore(len(l.batches)) }

// pointBefore is the end of the batch before the i-th.
func (l *originLog) pointBefore(i int) ChainPoint {
	if i == 0 {
		return ChainPoint{rhumb.NoOffset, 0}
	}
	return ChainPoint{l.batches[i-1].Last, l.batches[i-1].Chain}
}

func (l *originLog) add(size int, crc uint32) {
	p := l.lastPoint()
	b := OriginBatch{First: l.end, Last: l.end + rhumb.Offset(size) - 1, Prev: p.Offset, CRC: crc}
	b.Chain = codec.NextChain(p.Chain, b.First, b.Last, crc)
	l.batches = append(l.batches, b)
	l.end = b.Last + 1
}

// obvious is what a destination must have: for each life the batches in order,
// and the offsets that it gave up. It is a page of plain lists; the package's
// answers are held against it.
type obvious struct {
	data  []OriginBatch
	given map[rhumb.Offset]bool // offsets of dropped batches
	upTo  rhumb.Offset
	floor rhumb.Offset
}

// has reports whether the log's batches up to upTo are what is here, apart from
// what was given up.
func (o *obvious) agreesWith(l *originLog) bool {
	var want []OriginBatch
	for _, b := range l.batches {
		if b.Last <= o.upTo && !o.given[b.First] {
			want = append(want, b)
		}
	}
	if len(want) != len(o.data) {
		return false
	}
	for i := range want {
		if want[i] != o.data[i] {
			return false
		}
	}
	return true
}

// world is one destination and the sources of a partition: the present one, and
// what became of it.
type world struct {
	crc   uint32
	logs  []*originLog // lives that were created, oldest first
	dest  map[rhumb.Life]Watermark
	model map[rhumb.Life]*obvious
}

func (w *world) create() {
	w.crc++
	l := &originLog{life: rhumb.Life{byte(len(w.logs) + 1)}}
	w.logs = append(w.logs, l)
	w.dest[l.life] = NewWatermark(1, l.life)
	w.model[l.life] = &obvious{given: map[rhumb.Offset]bool{}, upTo: rhumb.NoOffset, floor: rhumb.NoOffset}
}

// TestI3AcceptRuleKeepsOrderAndOnce: whatever is delivered, in whatever order
// and how often, with restarts, retention, new lives and restored sources, each
// life at the destination is a true copy.
func TestI3AcceptRuleKeepsOrderAndOnce(t *testing.T) { rapid.Check(t, checkAcceptRule) }

func checkAcceptRule(t *rapid.T) {
	w := &world{dest: map[rhumb.Life]Watermark{}, model: map[rhumb.Life]*obvious{}}
	w.create()
	for range rapid.IntRange(5, 120).Draw(t, "steps") {
		l := w.logs[len(w.logs)-1]
		if rapid.IntRange(0, 3).Draw(t, "which") == 0 {
			l = rapid.SampledFrom(w.logs).Draw(t, "life")
		}
		switch rapid.IntRange(0, 11).Draw(t, "step") {
		case 0, 1, 2:
			w.crc++
			l.add(rapid.IntRange(1, 3).Draw(t, "records"), w.crc)
		case 3:
			l.end += rhumb.Offset(rapid.IntRange(1, 3).Draw(t, "foreign"))
		case 4:
			if rapid.IntRange(0, 5).Draw(t, "re-create") == 0 && len(w.logs) < 4 {
				w.create()
			}
		case 5:
			w.restartDestination(t, l.life)
		case 6:
			w.retain(t, l)
		case 7:
			w.forked(t, l)
		default:
			w.deliver(t, l)
		}
	}
	for _, l := range w.logs {
		w.catchUp(t, l)
		w.catchUp(t, l) // once more changes nothing
	}
}

func (w *world) restartDestination(t *rapid.T, life rhumb.Life) {
	b := w.dest[life].Append(nil)
	got, n, err := ParseWatermark(b)
	if err != nil || n != len(b) || got != w.dest[life] {
		t.Fatalf("restart: %+v becomes %+v, %v", w.dest[life], got, err)
	}
	w.dest[life] = got
}

// retain drops a few batches at the source's beginning.
func (w *world) retain(t *rapid.T, l *originLog) {
	l.floor = rapid.IntRange(l.floor, len(l.batches)).Draw(t, "floor")
}

// deliver brings any batch, or the gap up to the floor, or the skip at the end.
func (w *world) deliver(t *rapid.T, l *originLog) {
	next := 0
	for next < len(l.batches) && l.batches[next].Last <= w.dest[l.life].Offset {
		next++
	}
	// Mostly near the watermark: that is where the borders are.
	i := next + rapid.IntRange(-2, 2).Draw(t, "near")
	switch {
	case rapid.IntRange(0, 5).Draw(t, "hole") == 0:
		w.holes(t, l)
	case i >= l.floor && i < len(l.batches):
		w.batch(t, l, l.batches[i])
	}
}

// holes sends what a source says about offsets with nothing in them.
func (w *world) holes(t *rapid.T, l *originLog) {
	if floor := l.pointBefore(l.floor); floor.Offset > w.dest[l.life].Offset {
		w.skip(t, l, Skip{From: w.dest[l.life].Offset, To: floor.Offset, Chain: floor.Chain, Reason: rhumb.ReasonRetention})
		return
	}
	if p := l.lastPoint(); l.end-1 > p.Offset {
		w.skip(t, l, Skip{From: p.Offset, To: l.end - 1, Chain: p.Chain, Reason: rhumb.ReasonForeign})
	}
}

func (w *world) batch(t *rapid.T, l *originLog, b OriginBatch) Verdict {
	m, mark := w.model[l.life], w.dest[l.life]
	want := Accept
	if inWords(m.upTo, b) != Accept {
		want = inWords(m.upTo, b)
	}
	got := mark.Judge(b)
	if got != want {
		t.Fatalf("batch %+v at %+v: %s, want %s", b, mark, got, want)
	}
	if got == Accept {
		w.dest[l.life] = mark.Accept(b)
		m.data, m.upTo = append(m.data, b), b.Last
	}
	w.check(t, l)
	return got
}

func (w *world) skip(t *rapid.T, l *originLog, s Skip) {
	m, mark := w.model[l.life], w.dest[l.life]
	want := Accept
	switch {
	case s.To <= m.upTo:
		want = Duplicate
	case s.From > m.upTo:
		want = Missing
	}
	if got := mark.JudgeSkip(s); got != want {
		t.Fatalf("skip %+v at %+v: %s, want %s", s, mark, got, want)
	}
	if want != Accept {
		return
	}
	for _, b := range l.batches {
		if b.First > m.upTo && b.Last <= s.To {
			if !s.Reason.IsGap() {
				t.Fatalf("skip %+v covers batch %+v", s, b)
			}
			m.given[b.First] = true
		}
	}
	m.upTo = s.To
	if s.Reason.IsGap() {
		m.floor = s.To
	}
	w.dest[l.life] = mark.Skip(s)
	w.check(t, l)
}

// check holds the watermark and the data against the model.
func (w *world) check(t *rapid.T, l *originLog) {
	m, mark := w.model[l.life], w.dest[l.life]
	if mark.Offset != m.upTo || mark.Floor != m.floor || mark.Life != l.life {
		t.Fatalf("watermark %+v, want offset %d, floor %d", mark, m.upTo, m.floor)
	}
	if !m.agreesWith(l) {
		t.Fatalf("the copy up to %d is %+v, the source has %+v", m.upTo, m.data, l.batches)
	}
}

// forked is a source that was restored from an old copy and has grown since: no
// batch that it wrote after the copy may be accepted where the true log went on.
func (w *world) forked(t *rapid.T, l *originLog) {
	keep := rapid.IntRange(0, len(l.batches)).Draw(t, "kept batches")
	fork := &originLog{life: l.life, batches: l.batches[:keep:keep], end: l.pointBefore(keep).Offset + 1}
	for range rapid.IntRange(1, 4).Draw(t, "new batches") {
		w.crc++
		fork.add(rapid.IntRange(1, 3).Draw(t, "records"), w.crc)
	}
	mark := w.dest[l.life]
	common := fork.pointBefore(keep).Offset
	for _, b := range fork.batches[keep:] {
		v := mark.Judge(b)
		switch {
		case mark.Offset <= common: // it forks later than what is here: nothing to find yet
		case v == Accept:
			t.Fatalf("%+v accepts %+v of a source that forked at %d", mark, b, common)
		case b.Last == mark.Offset && v != Diverged:
			t.Fatalf("%+v calls %+v of a fork %s", mark, b, v)
		case b.First <= mark.Offset && b.Last > mark.Offset && v != Diverged:
			t.Fatalf("%+v calls overlapping %+v %s", mark, b, v)
		case b.Prev <= mark.Offset && b.First > mark.Offset && v != Diverged:
			t.Fatalf("%+v calls following %+v of a fork %s", mark, b, v)
		}
	}
}

// catchUp delivers everything in order, as a source does that knows the watermark.
func (w *world) catchUp(t *rapid.T, l *originLog) {
	for range 2 {
		for _, b := range l.batches[l.floor:] {
			if p := l.pointBefore(l.floor); p.Offset > w.dest[l.life].Offset {
				w.holes(t, l)
			}
			if v := w.batch(t, l, b); v != Accept && v != Duplicate {
				t.Fatalf("in order, %+v is %s", b, v)
			}
		}
		w.holes(t, l)
	}
	if got, want := w.dest[l.life].Offset, max(l.end-1, l.lastPoint().Offset); got != want {
		t.Fatalf("the watermark stops at %d, the log ends with %d", got, want)
	}
}

// TestG02ProducersSequencesDoNotMatter: batches of several producers with equal
// sequences cross as one origin; only their place at the origin counts.
func TestG02ProducersSequencesDoNotMatter(t *testing.T) {
	l := &originLog{life: testLife}
	for i := range 4 {
		l.add(1, uint32(i)) // sequences 0, 1 of P1 and 0, 1 of P2: nothing of them is looked at
	}
	mark := NewWatermark(1, testLife)
	var order string
	for _, i := range []int{0, 1, 2, 1, 2, 3, 3, 0} { // a reconnect in the middle re-sends 1 and 2
		v := mark.Judge(l.batches[i])
		if v == Accept {
			mark = mark.Accept(l.batches[i])
		}
		order += fmt.Sprint(i, " ", v, "; ")
	}
	want := "0 accept; 1 accept; 2 accept; 1 duplicate; 2 duplicate; 3 accept; 3 duplicate; 0 duplicate; "
	if order != want {
		t.Errorf("got  %s\nwant %s", order, want)
	}
}

// TestG40SameClientIDsTwiceAtTheSource: the source accepted a message id twice;
// here both are messages of their own.
func TestG40SameClientIDsTwiceAtTheSource(t *testing.T) {
	l := &originLog{life: testLife}
	l.add(1, 99)
	l.add(1, 99) // the very same bytes
	mark := NewWatermark(1, testLife)
	for _, b := range l.batches {
		if v := mark.Judge(b); v != Accept {
			t.Fatalf("%+v: %s", b, v)
		}
		mark = mark.Accept(b)
	}
}

// TestG10NewLifeStartsFromItsBeginning: a re-created source at offset 0 is taken
// at once, though the life before it had come further.
func TestG10NewLifeStartsFromItsBeginning(t *testing.T) {
	old, recreated := &originLog{life: rhumb.Life{1}}, &originLog{life: rhumb.Life{2}}
	marks := map[rhumb.Life]Watermark{old.life: NewWatermark(1, old.life)}
	for i := range 994 {
		old.add(1, uint32(i))
		marks[old.life] = marks[old.life].Accept(old.batches[i])
	}
	recreated.add(1, 5000)
	if v := NewWatermark(1, recreated.life).Judge(recreated.batches[0]); v != Accept {
		t.Errorf("first batch of the new life: %s", v)
	}
	if v := marks[old.life].Judge(recreated.batches[0]); v == Accept {
		t.Errorf("the old life takes a batch of the new one")
	}
}
