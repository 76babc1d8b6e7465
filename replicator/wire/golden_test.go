package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew: only for a format that no release has")

var dumpText = regexp.MustCompile(`(?m)^[0-9a-f]{8}|\|.*\|$|\s`)

// golden compares the bytes with a hex dump in testdata and gives the bytes of
// the file.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *rewrite {
		if err := os.WriteFile(path, []byte(hex.Dump(got)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(dumpText.ReplaceAllString(string(text), ""))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed:\n%s", path, hex.Dump(got))
	}
	return want
}

// TestGoldenFrames: what this version writes, and what it must read for ever.
func TestGoldenFrames(t *testing.T) {
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			want := golden(t, e.name, Append(nil, e.frame))
			got, err := NewReader(bytes.NewReader(want), nil).Next()
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, e.frame) {
				t.Errorf("read\n%+v, want\n%+v", got, e.frame)
			}
		})
	}
}

// TestGoldenCompressed: compressed bytes may change with the library, so only
// reading is frozen.
func TestGoldenCompressed(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, true)
	if err := w.Write(compressible()); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "data-compressed.hex")
	if *rewrite {
		if err := os.WriteFile(path, []byte(hex.Dump(out.Bytes())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := hex.DecodeString(dumpText.ReplaceAllString(string(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{stored, out.Bytes()} {
		if len(b) >= compressible().Size() {
			t.Errorf("%d bytes: not compressed", len(b))
		}
		got, err := NewReader(bytes.NewReader(b), nil).Next()
		if err != nil || !reflect.DeepEqual(got, compressible()) {
			t.Errorf("read %+v, %v", got, err)
		}
	}
}
