package index

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares b with a file that every later version must still read.
func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s: the format has changed", name)
	}
}

func sampleRefs() []Ref {
	return []Ref{
		{Base: 10, Span: 3, Size: 500, First: 10, Source: sources[0], MaxTime: 1700000000000, AppendTime: 1700000000005, Raft: 4, Pos: 1100},
		{Base: 13, Span: 1, Size: 250, First: 77, Source: sources[1], MaxTime: 1600000000000, AppendTime: 1700000000004, Raft: 6, Pos: 1700},
		{Base: 20, Span: 100, Size: 9000, First: 20, Source: sources[0], MaxTime: -1, AppendTime: 1700000000100, Raft: 6, Pos: 1950},
	}
}

func sampleBlock() *Block {
	return &Block{Key: Key{3, 42}, Refs: sampleRefs(), Start: Vector{
		{Source: sources[0], Watermark: 9, Floor: 4}, {Source: sources[2], Watermark: 1 << 40, Floor: rhumb.NoOffset}}}
}

// sampleTable is a whole index file.
func sampleTable(t testing.TB) []byte {
	f := &memFile{}
	_, _ = f.WriteAt(AppendHeader(nil, MagicIndex, 5), 0)
	w := NewWriter(f, HeaderSize)
	for _, key := range []Key{{1, 7}, {3, 42}} {
		if err := w.Partition(key, sampleBlock().Start); err != nil {
			t.Fatal(err)
		}
		for _, r := range sampleRefs() {
			if err := w.Add(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := w.Finish([]ShardEnd{{1, 6, 2}, {3, 9, 2}}); err != nil {
		t.Fatal(err)
	}
	return f.b
}

func TestGoldenBlock(t *testing.T) {
	b := AppendBlock(nil, sampleBlock())
	golden(t, "block.bin", b)
	blk, n, err := ParseBlock(b, 5)
	if err != nil || n != len(b) {
		t.Fatalf("%d of %d bytes, %v", n, len(b), err)
	}
	for i, want := range sampleRefs() {
		got := blk.Refs[i]
		if *got.Source != *want.Source || got.File != 5 {
			t.Errorf("ref %d: got %+v", i, got)
		}
		got.Source, got.File = want.Source, want.File
		if got != want {
			t.Errorf("ref %d: got %+v, want %+v", i, got, want)
		}
	}
	if w := blk.Start.Watermark(*sources[0]); w != 9 || blk.Start[0].Floor != 4 {
		t.Errorf("start vector %+v", blk.Start)
	}
	if w := blk.Start.Watermark(*sources[1]); w != rhumb.NoOffset {
		t.Errorf("a life that is new in the block has watermark %d", w)
	}
}

func TestGoldenIndexFile(t *testing.T) {
	b := sampleTable(t)
	golden(t, "table.idx", b)
	if file, err := ParseHeader(b, MagicIndex); file != 5 || err != nil {
		t.Errorf("header: %d, %v", file, err)
	}
	dir, footer, err := ReadDirectory(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(dir.Parts) != 2 || footer.Batches != 6 || len(dir.Shards) != 2 || dir.Shards[1] != (ShardEnd{3, 9, 2}) {
		t.Errorf("directory %+v, footer %+v", dir, footer)
	}
	p := dir.Parts[1]
	if p.Key != (Key{3, 42}) || p.Base != 10 || p.Last != 119 || p.MaxTime != 1700000000000 || p.Bytes != 9750 {
		t.Errorf("part %+v", p)
	}
	if p.RetentionTime != 1700000000100 { // the append time of the batch without a timestamp
		t.Errorf("retention time %d", p.RetentionTime)
	}
	if w := p.End.Watermark(*sources[1]); w != 77 {
		t.Errorf("end vector %+v", p.End)
	}
}

// TestEveryDamagedByteIsFound flips each byte of an index file in turn: it is
// refused, or what it holds reads as before (bytes that no field uses).
func TestEveryDamagedByteIsFound(t *testing.T) {
	good := sampleTable(t)
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x40
		if _, err := ParseHeader(b, MagicIndex); err != nil {
			continue
		}
		dir, _, err := ReadDirectory(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			continue
		}
		found := false
		f := &memFile{b}
		NewTable(5, dir, NewCache(0), f.open).Walk(func(_ *Part, _ uint64, _ *Block, err error) { found = found || err != nil })
		if !found {
			t.Errorf("byte %d may be anything", i)
		}
	}
}

func FuzzBlock(f *testing.F) {
	f.Add(AppendBlock(nil, sampleBlock()))
	f.Add([]byte{0x0c, 0xb1})
	f.Fuzz(func(t *testing.T, b []byte) {
		blk, n, err := ParseBlock(b, 1)
		if err != nil {
			return
		}
		if n > len(b) || len(blk.Refs) == 0 {
			t.Fatalf("%d of %d bytes, %d refs", n, len(b), len(blk.Refs))
		}
		if again, _, err := ParseBlock(AppendBlock(nil, blk), 1); err != nil || len(again.Refs) != len(blk.Refs) {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add(sampleTable(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseHeader(b, MagicIndex)
		dir, _, err := ReadDirectory(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		file := &memFile{b}
		NewTable(1, dir, NewCache(1<<20), file.open).Walk(func(*Part, uint64, *Block, error) {})
	})
}

func FuzzDirectory(f *testing.F) {
	b := sampleTable(f)
	foot, err := ParseFooter(b[len(b)-FooterSize:], int64(len(b)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[foot.DirectoryPos : foot.DirectoryPos+foot.DirectoryLen])
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDirectory(b)
		if err == nil && !bytes.Equal(appendDirectory(nil, d), b) && len(d.Parts)+len(d.Shards) > 0 {
			if again, err := ParseDirectory(appendDirectory(nil, d)); err != nil || len(again.Parts) != len(d.Parts) {
				t.Fatalf("what was read cannot be written: %v", err)
			}
		}
	})
}

func FuzzHandles(f *testing.F) {
	f.Add(appendHandles(nil, []Handle{{Base: 1, Last: 5, Length: 100, Refs: 1}, {Base: 6, Last: 9, Length: 90, Refs: 3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if hs, err := ParseHandles(b); err == nil && !bytes.Equal(appendHandles(nil, hs), b) {
			t.Fatal("handles differ when written again")
		}
	})
}
