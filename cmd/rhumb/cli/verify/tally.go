package verify

import (
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// tally turns what a comparison sees into findings and explanations. It is the
// comparison's observer.
type tally struct {
	names     [2]string
	source    int             // side that published the life, -1 if neither did
	floors    [2]rhumb.Offset // what each side vouches for nothing up to
	gaps      [2][]api.Gap    // of this life
	compacted bool            // the topic is compacted: records may be gone on either side

	records   int64
	alone     [2]int64 // that only one side has, since an operator left copies that differ as they are
	found     map[findingKey]*Finding
	explained map[explainedKey]*Finding
	lates     [2][]lateBatch
}

type findingKey struct {
	side  int
	kind  Kind
	twice bool // extra because it is there a second time
}

type explainedKey struct {
	side   int
	reason string
}

type lateBatch struct {
	Range
	records int64
}

func newTally(names [2]string, source int) *tally {
	return &tally{names: names, source: source, found: map[findingKey]*Finding{}, explained: map[explainedKey]*Finding{}}
}

func (t *tally) finding(side int, kind Kind) *Finding {
	return t.findingOf(findingKey{side: side, kind: kind})
}

func (t *tally) findingOf(k findingKey) *Finding {
	if t.found[k] == nil {
		t.found[k] = &Finding{Kind: k.kind, Region: t.names[k.side]}
	}
	return t.found[k]
}

func (t *tally) equal(records int64) { t.records += records }

func (t *tally) differ(r Range, records int64, detail string) {
	if detail == "" && t.leftApart(r) {
		t.alone[0] += records
		t.alone[1] += records
		return
	}
	side := 1 // where it is told: in the copy
	if t.source == 1 {
		side = 0
	}
	f := t.finding(side, Different)
	f.add(r, records)
	if detail != "" {
		f.Detail = detail
	}
}

// lone tells records that only one side has: explained if the other one vouches
// for nothing there, else missing there, or extra here if the other one is where
// they would have been published.
func (t *tally) lone(side int, r Range, records int64) {
	if t.leftApart(r) {
		t.alone[side] += records
		return
	}
	other := 1 - side
	floor := t.floors[other]
	if r.From <= floor {
		low := Range{r.From, min(r.To, floor)}
		n := share(r, low, records)
		t.explain(other, low, n)
		if low.To == r.To {
			return
		}
		r, records = Range{low.To + 1, r.To}, records-n
	}
	switch {
	case t.compacted:
		t.explainAs(other, "compacted", r, records)
	case other == t.source:
		t.finding(side, Extra).add(r, records)
	default:
		t.finding(other, Missing).add(r, records)
	}
}

// leftApart reports whether a gap of either side says of a range that the copies of it
// differ and were left so. It begins where they part.
func (t *tally) leftApart(r Range) bool {
	return slices.ContainsFunc(slices.Concat(t.gaps[0], t.gaps[1]), func(g api.Gap) bool {
		return g.Reason == rhumb.ReasonDiverged.String() && g.From <= r.From && r.To <= g.To
	})
}

// share estimates how many of a batch's records lie in a part of it; it is exact
// unless compaction made holes.
func share(whole, part Range, records int64) int64 {
	return min(records, int64(part.To-part.From)+1)
}

// explain tells why a side does not hold records at or below its floor.
func (t *tally) explain(side int, r Range, records int64) {
	for _, g := range t.gaps[side] {
		if (Range{g.From, g.To}).overlaps(r) {
			t.explainAs(side, "gap: "+g.Reason, r, records)
			return
		}
	}
	reason := "retention, deletion, or before the edge's start"
	if side == t.source {
		reason = "retention or deletion"
	}
	t.explainAs(side, reason, r, records)
}

func (t *tally) explainAs(side int, reason string, r Range, records int64) {
	k := explainedKey{side, reason}
	if t.explained[k] == nil {
		t.explained[k] = &Finding{Region: t.names[side]}
	}
	t.explained[k].add(r, records)
}

// late keeps what stands behind later offsets: whether it is out of order or a
// second copy is known at the end.
func (t *tally) late(side int, r Range, records int64) {
	if len(t.lates[side]) < maxRanges {
		t.lates[side] = append(t.lates[side], lateBatch{r, records})
		return
	}
	t.finding(side, OutOfOrder).add(r, records)
}

// finish sorts out what was late: where the same range was found missing, it is
// only out of order; else it is there a second time.
func (t *tally) finish() {
	for side := range t.lates {
		for _, l := range t.lates[side] {
			if !t.unmiss(side, l) {
				f := t.findingOf(findingKey{side, Extra, true})
				f.add(l.Range, l.records)
				f.Detail = "stored more than once"
				continue
			}
			t.finding(side, OutOfOrder).add(l.Range, l.records)
		}
	}
}

// unmiss takes a late range out of what is missing on its side; it gives false if
// it is not there. On the origin's own side what the copy has earlier counts as extra.
func (t *tally) unmiss(side int, l lateBatch) bool {
	key := findingKey{side: side, kind: Missing}
	if side == t.source {
		key = findingKey{side: 1 - side, kind: Extra}
	}
	f := t.found[key]
	if f == nil {
		return false
	}
	for i, r := range f.Ranges {
		if l.From < r.From || l.To > r.To {
			continue
		}
		var rest []Range
		if r.From < l.From {
			rest = append(rest, Range{r.From, l.From - 1})
		}
		if l.To < r.To {
			rest = append(rest, Range{l.To + 1, r.To})
		}
		f.Ranges = slices.Replace(f.Ranges, i, i+1, rest...)
		f.Records -= l.records
		if len(f.Ranges) == 0 && !f.More {
			delete(t.found, key)
		}
		return true
	}
	return false
}

// refloor explains what was told as missing or extra but lies at or below floors
// that were taken after both logs were read: retention dropped it meanwhile.
// It gives false if not all ranges are known, so that only a new comparison can tell.
func (t *tally) refloor(floors [2]rhumb.Offset) bool {
	complete := true
	for side := range t.names {
		for _, kind := range []Kind{Missing, Extra} {
			lacks := side
			if kind == Extra {
				lacks = 1 - side
			}
			key := findingKey{side: side, kind: kind}
			f := t.found[key]
			if f == nil || floors[lacks] <= t.floors[lacks] {
				continue
			}
			complete = complete && !f.More
			t.lower(key, lacks, floors[lacks])
		}
	}
	return complete
}

// lower moves the part of a finding that lies at or below a floor to what is explained.
func (t *tally) lower(key findingKey, lacks int, floor rhumb.Offset) {
	f := t.found[key]
	var rest []Range
	for _, r := range f.Ranges {
		low := Range{r.From, min(r.To, floor)}
		if low.From <= low.To {
			n := min(f.Records, int64(low.To-low.From)+1)
			f.Records -= n
			t.explain(lacks, low, n)
		}
		if r.To > floor {
			rest = append(rest, Range{max(r.From, floor+1), r.To})
		}
	}
	if f.Ranges = rest; len(rest) == 0 && !f.More {
		delete(t.found, key)
	}
}

// results gives findings and explanations in a fixed order.
func (t *tally) results() ([]Finding, []Explained) {
	findings, explained := []Finding{}, []Explained{}
	for side := range t.names {
		for _, kind := range []Kind{Missing, Extra, OutOfOrder, Different} {
			for _, twice := range []bool{false, true} {
				if f := t.found[findingKey{side, kind, twice}]; f != nil {
					findings = append(findings, *f)
				}
			}
		}
	}
	for k, f := range t.explained {
		explained = append(explained, Explained{t.names[k.side], k.reason, f.Records, f.Ranges, f.More})
	}
	slices.SortFunc(explained, func(x, y Explained) int {
		switch {
		case x.Region+x.Reason < y.Region+y.Reason:
			return -1
		case x.Region+x.Reason > y.Region+y.Reason:
			return 1
		}
		return 0
	})
	return findings, explained
}
