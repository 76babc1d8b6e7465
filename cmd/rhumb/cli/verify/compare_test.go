package verify

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// memory is a digest of records cut into batches, as a server would stream it.
type memory struct {
	records map[rhumb.Offset]string // offset: hash
	cuts    map[rhumb.Offset]bool   // a batch ends at these
}

type slice struct{ lines []api.DigestLine }

func (s *slice) Next() (api.DigestLine, error) {
	if len(s.lines) == 0 {
		return api.DigestLine{}, io.EOF
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	return line, nil
}

func (s *slice) Close() error { return nil }

func (m memory) open(_ context.Context, from, to rhumb.Offset, records bool) (Stream, error) {
	s := &slice{}
	var group []rhumb.Offset
	flush := func() {
		if len(group) == 0 {
			return
		}
		first, last := group[0], group[len(group)-1]
		content := ""
		for _, o := range group {
			content += m.records[o] + ","
		}
		if last >= from && first <= to {
			s.lines = append(s.lines, api.DigestLine{Batch: &api.DigestBatch{First: first, Last: last, Count: int32(len(group)), Hash: content}})
			for _, o := range group {
				if records && o >= from && o <= to {
					s.lines = append(s.lines, api.DigestLine{Record: &api.DigestRecord{Offset: o, Hash: m.records[o]}})
				}
			}
		}
		group = nil
	}
	for _, o := range slices.Sorted(maps.Keys(m.records)) {
		group = append(group, o)
		if m.cuts[o] {
			flush()
		}
	}
	flush()
	return s, nil
}

// seen writes down what a comparison tells.
type seen struct {
	same   int64
	loners [2]map[rhumb.Offset]bool
	count  [2]int64
	others []string
}

func (s *seen) equal(n int64) { s.same += n }
func (s *seen) lone(side int, r Range, n int64) {
	s.count[side] += n
	for o := r.From; o <= r.To; o++ {
		s.loners[side][o] = true
	}
}
func (s *seen) differ(r Range, n int64, _ string) {
	s.others = append(s.others, fmt.Sprintf("differ %s", r))
}
func (s *seen) late(side int, r Range, _ int64) {
	s.others = append(s.others, fmt.Sprintf("late %d %s", side, r))
}

const lastOffset = 40

func drawCuts(t *rapid.T, name string) map[rhumb.Offset]bool {
	cuts := map[rhumb.Offset]bool{}
	for _, o := range rapid.SliceOfN(rapid.IntRange(0, lastOffset), 0, 30).Draw(t, name) {
		cuts[rhumb.Offset(o)] = true
	}
	return cuts
}

func drawRecords(t *rapid.T) map[rhumb.Offset]string {
	records := map[rhumb.Offset]string{}
	for o := rhumb.Offset(0); o <= lastOffset; o++ {
		if rapid.IntRange(0, 9).Draw(t, "there") > 0 {
			records[o] = fmt.Sprintf("h%d", o)
		}
	}
	return records
}

// TestChunkingDoesNotMatter: the same records cut into batches in any two ways
// are equal, and all of them are compared.
func TestChunkingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		a, b := memory{records, drawCuts(t, "a")}, memory{records, drawCuts(t, "b")}
		to := rhumb.Offset(rapid.IntRange(0, lastOffset).Draw(t, "to"))
		got := &seen{loners: [2]map[rhumb.Offset]bool{{}, {}}}
		c := comparison{open: [2]opener{a.open, b.open}, to: to, span: rhumb.Offset(rapid.IntRange(1, 60).Draw(t, "span")), note: got}
		if err := c.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var want int64
		for o := range records {
			if o <= to {
				want++
			}
		}
		if got.same != want || len(got.loners[0])+len(got.loners[1])+len(got.others) != 0 {
			t.Fatalf("want %d equal records, got %+v", want, got)
		}
	})
}

// TestFindsExactlyWhatDiffers compares with the obvious way: two maps.
func TestFindsExactlyWhatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ra, rb := drawRecords(t), map[rhumb.Offset]string{}
		differ := 0
		for o, h := range ra {
			rb[o] = h
		}
		for _, o := range rapid.SliceOfNDistinct(rapid.IntRange(0, lastOffset), 0, 6, rapid.ID[int]).Draw(t, "changed") {
			at := rhumb.Offset(o)
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				delete(rb, at)
			case 1:
				if _, there := ra[at]; there {
					rb[at] = "other"
					differ++
				}
			case 2:
				delete(ra, at)
				rb[at] = "new"
			}
		}
		a, b := memory{ra, drawCuts(t, "a")}, memory{rb, drawCuts(t, "b")}
		got := &seen{loners: [2]map[rhumb.Offset]bool{{}, {}}}
		c := comparison{open: [2]opener{a.open, b.open}, to: lastOffset, span: rhumb.Offset(rapid.IntRange(1, 60).Draw(t, "span")), note: got}
		if err := c.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkLone(t, "a", ra, rb, got.loners[0], got.count[0])
		checkLone(t, "b", rb, ra, got.loners[1], got.count[1])
		if len(got.others) != differ {
			t.Fatalf("%d records differ, told %v", differ, got.others)
		}
	})
}

// checkLone: what was told covers every record that the other side lacks, none
// that it has, and is counted right.
func checkLone(t *rapid.T, name string, here, there map[rhumb.Offset]string, told map[rhumb.Offset]bool, count int64) {
	var want int64
	for o := range here {
		_, both := there[o]
		if both == told[o] {
			t.Fatalf("offset %d of %s: on both sides %v, told as lone %v", o, name, both, told[o])
		}
		if !both {
			want++
		}
	}
	if count != want {
		t.Fatalf("%s: %d lone records told, want %d", name, count, want)
	}
}

func TestRangesAreBounded(t *testing.T) {
	var f Finding
	for i := range 10 * maxRanges {
		f.add(Range{rhumb.Offset(2 * i), rhumb.Offset(2 * i)}, 1)
	}
	if len(f.Ranges) != maxRanges || !f.More || f.Records != 10*maxRanges {
		t.Errorf("%d ranges, more %v, %d records", len(f.Ranges), f.More, f.Records)
	}
	var g Finding
	g.add(Range{0, 4}, 5)
	g.add(Range{5, 5}, 1)
	if len(g.Ranges) != 1 || g.Ranges[0] != (Range{0, 5}) {
		t.Errorf("neighbours are not joined: %v", g.Ranges)
	}
}
