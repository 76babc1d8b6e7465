package wire

import (
	"bytes"
	"io"
	"testing"
)

func benchmarkWrite(b *testing.B, compress bool, body []byte) {
	f := testDataFrame(1, 1, testBatch(0, 1, body))
	w := NewWriter(io.Discard, compress)
	b.SetBytes(int64(f.Size()))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteSmall(b *testing.B) { benchmarkWrite(b, false, make([]byte, 1<<10)) }
func BenchmarkWriteLarge(b *testing.B) { benchmarkWrite(b, false, make([]byte, 1<<20)) }
func BenchmarkWriteCompressed(b *testing.B) {
	benchmarkWrite(b, true, bytes.Repeat([]byte("again and again "), 1<<12))
}

func BenchmarkRead(b *testing.B) {
	frame := Append(nil, testDataFrame(1, 1, testBatch(0, 1, make([]byte, 1<<10))))
	frame = Append(frame, &Confirm{Session: 1, Watermark: 2})
	r := NewReader(nil, nil)
	in := bytes.NewReader(nil)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(frame)
		r.r.Reset(in)
		for range 2 {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
