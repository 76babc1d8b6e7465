package dedup

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew: only for a format that no release has")

func exampleWatermark() Watermark {
	w := NewWatermark(3, rhumb.Life{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf})
	w.Offset, w.Chain, w.Floor = 1<<40+1, 0x1122334455667788, 77
	w.Recent = [RecentPoints]ChainPoint{{1 << 40, 0x99}, {1<<40 - 300, 0x98}}
	return w
}

func exampleProducer() Producer {
	p := Producer{}.Accept(4, SeqRange{First: 0, Last: 9, Base: 100, Time: 1700000000000})
	return p.Accept(4, SeqRange{First: 10, Last: 10, Base: 117, Time: 1700000000500})
}

// golden holds bytes against a hex dump in testdata and gives those of the file.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(hex.EncodeToString(got)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has changed: %x (%v)", path, got, err)
	}
	return want
}

func TestGolden(t *testing.T) {
	w, _, err := ParseWatermark(golden(t, "watermark.hex", exampleWatermark().Append(nil)))
	if err != nil || w != exampleWatermark() {
		t.Errorf("watermark %+v, %v", w, err)
	}
	want := exampleProducer()
	p, _, err := ParseProducer(golden(t, "producer.hex", want.Append(nil)))
	if err != nil || p != want {
		t.Errorf("producer %+v, %v", p, err)
	}
}

// TestLaterVersionsAreRead: appended fields are passed over, and a value that an
// older reader must not use is refused.
func TestLaterVersionsAreRead(t *testing.T) {
	w, p := exampleWatermark().Append(nil), exampleProducer()
	for name, c := range map[string]struct {
		b     []byte
		parse func([]byte) (int, error)
	}{
		"watermark": {w, func(b []byte) (int, error) { _, n, err := ParseWatermark(b); return n, err }},
		"producer":  {p.Append(nil), func(b []byte) (int, error) { _, n, err := ParseProducer(b); return n, err }},
	} {
		longer := append(bytes.Clone(c.b), "new field"...)
		longer[0] = 2
		binary.LittleEndian.PutUint16(longer[2:], uint16(len(longer)))
		if n, err := c.parse(append(longer, "what follows"...)); err != nil || n != len(longer) {
			t.Errorf("%s of version 2: %d bytes, %v", name, n, err)
		}
		longer[1] |= requiredFlag
		if _, err := c.parse(longer); rhumb.KindOf(err) != rhumb.KindUnsupported {
			t.Errorf("%s that needs a newer reader: %v", name, err)
		}
		for cut := range c.b {
			if _, err := c.parse(c.b[:cut]); rhumb.KindOf(err) != rhumb.KindCorrupt {
				t.Errorf("%s cut at %d: %v", name, cut, err)
			}
		}
	}
	w[38+7] = 0x7f // a floor above the watermark
	if _, _, err := ParseWatermark(w); rhumb.KindOf(err) != rhumb.KindCorrupt {
		t.Errorf("impossible watermark: %v", err)
	}
}

func FuzzParseWatermark(f *testing.F) {
	f.Add(exampleWatermark().Append(nil))
	f.Add(NewWatermark(1, testLife).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, n, err := ParseWatermark(b)
		if err != nil {
			return
		}
		if again, _, err := ParseWatermark(w.Append(nil)); n > len(b) || err != nil || again != w {
			t.Fatalf("%+v of %d bytes becomes %+v, %v", w, n, again, err)
		}
	})
}

func FuzzParseProducer(f *testing.F) {
	p := exampleProducer()
	f.Add(p.Append(nil))
	f.Add((&Producer{}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, n, err := ParseProducer(b)
		if err != nil {
			return
		}
		if again, _, err := ParseProducer(p.Append(nil)); n > len(b) || err != nil || again != p {
			t.Fatalf("%+v of %d bytes becomes %+v, %v", p, n, again, err)
		}
	})
}

func BenchmarkWatermark(b *testing.B) {
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = exampleWatermark().Append(buf[:0])
		if _, _, err := ParseWatermark(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProducer(b *testing.B) {
	p := exampleProducer()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = p.Append(buf[:0])
		if _, _, err := ParseProducer(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJudgeAndAccept(b *testing.B) {
	l := &originLog{life: testLife}
	l.add(10, 1)
	w := NewWatermark(1, testLife)
	b.ReportAllocs()
	for b.Loop() {
		if w.Judge(l.batches[0]) == Accept {
			_ = w.Accept(l.batches[0])
		}
	}
}
