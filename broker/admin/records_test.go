package admin

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"net/http"
	"slices"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var someRecords = []PlainRecord{
	{Timestamp: 1000, Key: []byte("k"), Value: []byte("v"), Headers: []PlainHeader{{"h", []byte{1}}, {"n", nil}}},
	{Timestamp: 990, Key: nil, Value: []byte{}},
	{Timestamp: 2000, Key: []byte{}, Value: nil},
}

// packed compresses the records of a batch.
func packed(t testing.TB, batch []byte, kind byte, pack func([]byte) []byte) []byte {
	t.Helper()
	out := append(slices.Clone(batch[:codec.BatchHeaderSize]), pack(batch[codec.BatchHeaderSize:])...)
	out[22] = out[22]&^7 | kind
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[17:], codec.Checksum(out[crcStart:]))
	return out
}

func packings(t testing.TB, batch []byte) map[string][]byte {
	through := func(open func(*bytes.Buffer) interface {
		Write([]byte) (int, error)
		Close() error
	}) func([]byte) []byte {
		return func(b []byte) []byte {
			var out bytes.Buffer
			w := open(&out)
			w.Write(b)
			w.Close()
			return out.Bytes()
		}
	}
	type writer = interface {
		Write([]byte) (int, error)
		Close() error
	}
	return map[string][]byte{
		"plain":  batch,
		"gzip":   packed(t, batch, 1, through(func(b *bytes.Buffer) writer { return gzip.NewWriter(b) })),
		"snappy": packed(t, batch, 2, func(b []byte) []byte { return snappy.Encode(nil, b) }),
		"xerial": packed(t, batch, 2, func(b []byte) []byte {
			out := append(slices.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
			for _, part := range [][]byte{b[:5], b[5:]} {
				block := snappy.Encode(nil, part)
				out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
				out = append(out, block...)
			}
			return out
		}),
		"lz4": packed(t, batch, 3, through(func(b *bytes.Buffer) writer { return lz4.NewWriter(b) })),
		"zstd": packed(t, batch, 4, through(func(b *bytes.Buffer) writer {
			w, err := zstd.NewWriter(b)
			if err != nil {
				t.Fatal(err)
			}
			return w
		})),
	}
}

// TestRecordHashesDoNotDependOnPacking: a record's hash is of what a client sees.
func TestRecordHashesDoNotDependOnPacking(t *testing.T) {
	var want []uint64
	hashes := func(batch []byte) (out []uint64) {
		if _, err := codec.CheckBatch(batch); err != nil {
			t.Fatal(err)
		}
		if err := eachRecord(batch, func(r record) error { out = append(out, r.hash()); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	batch := EncodeBatch(someRecords)
	want = hashes(batch)
	if len(want) != 3 || want[1] == want[2] {
		t.Fatalf("hashes %x", want)
	}
	for name, b := range packings(t, batch) {
		if got := hashes(b); !slices.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	for i, r := range someRecords {
		if alone := hashes(EncodeBatch([]PlainRecord{r})); alone[0] != want[i] {
			t.Errorf("record %d has another hash in another batch", i)
		}
	}
}

func TestRecordsComeBackAsTheyWent(t *testing.T) {
	i := 0
	err := eachRecord(EncodeBatch(someRecords), func(r record) error {
		w := someRecords[i]
		same := r.timestamp == w.Timestamp && bytes.Equal(r.key, w.Key) && (r.key == nil) == (w.Key == nil) &&
			bytes.Equal(r.value, w.Value) && (r.value == nil) == (w.Value == nil) && len(r.headers) == len(w.Headers)
		if !same || int(r.delta) != i {
			t.Errorf("record %d: %+v, want %+v", i, r, w)
		}
		i++
		return nil
	})
	if err != nil || i != len(someRecords) {
		t.Errorf("%d records, %v", i, err)
	}
}

func FuzzRecords(f *testing.F) {
	for _, b := range packings(f, EncodeBatch(someRecords)) {
		f.Add(b)
		f.Add(b[:len(b)-3])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		err := eachRecord(b, func(r record) error {
			n++
			_ = r.hash()
			return nil
		})
		if h, bad := codec.ParseBatch(b); bad == nil && err == nil && n != int(max(h.Count, 0)) {
			t.Errorf("%d of %d records and no error", n, h.Count)
		}
	})
}

// TestEveryKindHasAStatus: a kind added to rhumb must be thought of here.
func TestEveryKindHasAStatus(t *testing.T) {
	internal := 0
	for k := rhumb.KindInternal; k <= rhumb.KindUnknownProducer; k++ {
		if statusOf(k) == http.StatusInternalServerError {
			internal++
		}
	}
	if internal != 2 {
		t.Errorf("%d kinds are server errors, want internal and corrupt only", internal)
	}
	if next := (rhumb.KindUnknownProducer + 1).String(); next != "kind-18" {
		t.Errorf("kind %q is new: give it a status in errors.go and a word in openapi.yaml", next)
	}
}
