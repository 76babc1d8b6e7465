package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// TestShrinkIsMeasured: what does not shrink is soon left alone, what does is always
// compressed, and a partition that changes is noticed.
func TestShrinkIsMeasured(t *testing.T) {
	noise := make([]byte, 4096)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	text := bytes.Repeat([]byte("again and again "), 256)
	var s Shrink
	w := NewWriter(io.Discard, true)
	compressed := func(body []byte) bool {
		var out bytes.Buffer
		w.w = &out
		d := testDataFrame(42, 2, testBatch(0, 2, body))
		d.Shrink = &s
		if err := w.Write(d); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()[5]&flagCompressed != 0
	}
	for range 100 {
		if !compressed(text) {
			t.Fatal("text goes as it is")
		}
	}
	tries := 0
	for range 10_000 {
		if s.skip == 0 {
			tries++
		}
		if compressed(noise) {
			t.Fatal("noise is compressed")
		}
	}
	if tries > 30 {
		t.Errorf("%d of 10,000 batches of noise were tried", tries)
	}
	first := 0
	for first < 2*mostPause && !compressed(text) {
		first++
	}
	if first > mostPause || !compressed(text) {
		t.Errorf("text is noticed after %d batches", first)
	}
}
