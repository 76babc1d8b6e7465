package index

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// memFile is a file in memory that grows as it is written.
type memFile struct{ b []byte }

func (m *memFile) WriteAt(b []byte, off int64) (int, error) {
	if need := int(off) + len(b); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[off:], b), nil
}

func (m *memFile) open() (ReadCloser, error) { return nopCloser{bytes.NewReader(m.b)}, nil }

type nopCloser struct{ io.ReaderAt }

func (nopCloser) Close() error { return nil }

var sources = []*Source{{Region: 1, Life: rhumb.Life{1}}, {Region: 2, Life: rhumb.Life{2}}, {Region: 2, Life: rhumb.Life{3}}}

// slowIndex is the slow, obvious index: all refs that the log still has, in order.
type slowIndex struct {
	start rhumb.Offset
	refs  []Ref
}

func (l *slowIndex) kept() []Ref {
	i := 0
	for i < len(l.refs) && l.refs[i].Last() < l.start {
		i++
	}
	return l.refs[i:]
}

// machine plays random appends, settlings and log starts on both.
type machine struct {
	p     *Partition
	l     slowIndex
	cache *Cache
	file  uint64
	end   rhumb.Offset
	orig  map[*Source]rhumb.Offset
}

func (m *machine) append(t *rapid.T) {
	for range rapid.IntRange(1, 150).Draw(t, "refs") {
		src := sources[rapid.IntRange(0, len(sources)-1).Draw(t, "source")]
		r := Ref{
			Base: m.end + rhumb.Offset(rapid.IntRange(0, 1).Draw(t, "hole")), Span: uint32(rapid.IntRange(1, 5).Draw(t, "span")),
			Size: uint32(rapid.IntRange(100, 300).Draw(t, "size")), Source: src,
			First:   m.orig[src] + rhumb.Offset(rapid.IntRange(0, 3).Draw(t, "skip")),
			MaxTime: rapid.Int64Range(-1, 1000).Draw(t, "time"), AppendTime: rapid.Int64Range(0, 1000).Draw(t, "append"),
			Raft: uint64(len(m.l.refs) + 1), Pos: uint64(len(m.l.refs) * 300),
		}
		if !m.p.Append(r) {
			t.Fatal("append refused")
		}
		m.l.refs = append(m.l.refs, r)
		m.end, m.orig[src] = r.Last()+1, r.OriginLast()+1
	}
}

// settle moves a prefix of the dense refs into a table, as a settled file does.
func (m *machine) settle(t *rapid.T) {
	m.file++
	upTo := uint64(rapid.IntRange(0, len(m.l.refs)).Draw(t, "settle"))
	start, refs, err := m.p.Unsettled(nil, func(r *Ref) bool { return r.Raft <= upTo })
	if err != nil {
		t.Fatal(err)
	}
	if len(refs) == 0 {
		return
	}
	f := &memFile{}
	w := NewWriter(f, HeaderSize)
	if err := w.Partition(m.p.Key, start); err != nil {
		t.Fatal(err)
	}
	for _, r := range refs {
		r.File = m.file
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	_, size, err := w.Finish([]ShardEnd{{Shard: 1, Index: upTo, Term: 1}})
	if err != nil {
		t.Fatal(err)
	}
	dir, _, err := ReadDirectory(bytes.NewReader(f.b), size)
	if err != nil {
		t.Fatal(err)
	}
	m.p.Settle(NewTable(m.file, dir, m.cache, f.open).Dir.Parts[0])
}

func (m *machine) setStart(t *rapid.T) {
	start := rhumb.Offset(rapid.Int64Range(0, int64(m.end)).Draw(t, "start"))
	m.p.SetStart(start)
	m.l.start = max(m.l.start, start)
}

func (m *machine) collect(t *rapid.T, c *Cursor, err error, keep func(*Ref) bool) (got []Ref) {
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			return got
		}
		if keep(r) {
			got = append(got, *r)
		}
	}
}

func same(t *rapid.T, what string, got, want []Ref) {
	t.Helper()
	equal := func(a, b Ref) bool {
		return a.Base == b.Base && a.Span == b.Span && a.Size == b.Size && a.First == b.First && *a.Source == *b.Source &&
			a.MaxTime == b.MaxTime && a.AppendTime == b.AppendTime && a.Raft == b.Raft && a.Pos == b.Pos
	}
	if !slices.EqualFunc(got, want, equal) {
		t.Fatalf("%s: got %d refs, want %d\ngot  %+v\nwant %+v", what, len(got), len(want), got, want)
	}
}

func (m *machine) check(t *rapid.T) {
	v, kept := m.p.View(), m.l.kept()
	from := rhumb.Offset(rapid.Int64Range(int64(m.l.start), int64(m.end)+1).Draw(t, "from"))
	i := slices.IndexFunc(kept, func(r Ref) bool { return r.Last() >= from })
	if i < 0 {
		i = len(kept)
	}
	c, err := v.Seek(from)
	same(t, "seek", m.collect(t, c, err, func(*Ref) bool { return true }), kept[i:])

	src := sources[rapid.IntRange(0, len(sources)-1).Draw(t, "origin")]
	ofrom := rhumb.Offset(rapid.Int64Range(0, int64(m.orig[src])+1).Draw(t, "origin from"))
	match := func(r *Ref) bool { return *r.Source == *src && r.OriginLast() >= ofrom && r.Last() >= v.Start }
	var want []Ref
	for i := range kept {
		if match(&kept[i]) {
			want = append(want, kept[i])
		}
	}
	c, err = v.SeekOrigin(*src, ofrom)
	same(t, "origin", m.collect(t, c, err, match), want)

	m.checkTimes(t, &v, kept)
	var size int64
	for i := range kept {
		size += int64(kept[i].Size)
	}
	if got, err := v.Bytes(); got != size || err != nil {
		t.Fatalf("bytes %d, %v, want %d", got, err, size)
	}
}

func (m *machine) checkTimes(t *rapid.T, v *View, kept []Ref) {
	limit := rhumb.Offset(rapid.Int64Range(0, int64(m.end)+1).Draw(t, "limit"))
	ts := rapid.Int64Range(-1, 1001).Draw(t, "ts")
	var byTime, latest *Ref
	for i := range kept {
		r := &kept[i]
		if r.Base >= limit {
			break
		}
		if byTime == nil && r.MaxTime >= ts {
			byTime = r
		}
		if latest == nil || r.MaxTime > latest.MaxTime {
			latest = r
		}
	}
	one := func(what string, got *Ref, err error, want *Ref) {
		if err != nil || (got == nil) != (want == nil) || got != nil && got.Base != want.Base {
			t.Fatalf("%s: got %+v, %v, want %+v", what, got, err, want)
		}
	}
	got, err := v.ByTime(ts, limit)
	one("by time", got, err, byTime)
	got, err = v.Latest(limit)
	one("latest", got, err, latest)

	before, most := rapid.Int64Range(0, 500).Draw(t, "before"), rapid.Int64Range(-1, 20000).Draw(t, "most")
	start, left := m.l.start, int64(0)
	for i := range kept {
		left += int64(kept[i].Size)
	}
	for i := range kept {
		if r := &kept[i]; (r.RetentionTime() < before || most >= 0 && left > most) && r.Last() < limit {
			start, left = r.Last()+1, left-int64(r.Size)
			continue
		}
		break
	}
	if s, err := v.RetentionStart(before, most, limit); s != start || err != nil {
		t.Fatalf("retention: got %d, %v, want %d", s, err, start)
	}
}

func TestPartitionAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{p: NewPartition(Key{1, 7}, 0), cache: NewCache(20_000), orig: map[*Source]rhumb.Offset{}}
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append, "settle": m.settle, "start": m.setStart, "": m.check,
		})
		if m.cache.Used() > 20_000 {
			t.Fatalf("cache holds %d bytes", m.cache.Used())
		}
	})
}

// TestViewStaysAsItWas checks that what a view shares is never changed in place.
func TestViewStaysAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{p: NewPartition(Key{1, 7}, 0), cache: NewCache(0), orig: map[*Source]rhumb.Offset{}}
		m.append(t)
		m.settle(t)
		m.append(t)
		v, want := m.p.View(), slices.Clone(m.l.kept())
		t.Repeat(map[string]func(*rapid.T){"append": m.append, "settle": m.settle, "start": m.setStart})
		c, err := v.Seek(0)
		same(t, "old view", m.collect(t, c, err, func(*Ref) bool { return true }), want)
	})
}

func TestUnsettledRefusesAnotherOrder(t *testing.T) {
	p := NewPartition(Key{Shard: 1, Partition: 2}, 0)
	for i, file := range []uint64{4, 6, 5, 5} {
		p.Append(Ref{Base: rhumb.Offset(i), Span: 1, Source: &Source{}, File: file})
	}
	if _, refs, err := p.Unsettled(nil, func(r *Ref) bool { return r.File == 4 }); err != nil || len(refs) != 1 {
		t.Errorf("file 4: %d refs, %v", len(refs), err)
	}
	if _, _, err := p.Unsettled(nil, func(r *Ref) bool { return r.File == 5 }); err == nil {
		t.Error("file 5 settles behind file 6")
	}
}
