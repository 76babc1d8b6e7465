package codec_test

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
)

// NextKey gives the keys that Next gives, CopyNext the bytes, however a batch is packed.
func TestStreamedRecordsAreTheSame(t *testing.T) {
	x := newExpander()
	records := someRecords()
	records = append(records, codec.PlainRecord{Timestamp: 9, Key: bytes.Repeat([]byte("long key "), 5000), Value: bytes.Repeat([]byte("v"), 70_000)})
	plain := codec.BuildBatch(codec.NoSender, records)
	for _, p := range codectest.Packings {
		batch := p.Batch(plain)
		whole, err := x.Open(batch)
		if err != nil {
			t.Fatal(err)
		}
		keys, _ := x.Open(batch)
		copies, _ := x.Open(batch)
		var copied bytes.Buffer
		for i := 0; ; i++ {
			rec, err := whole.Next()
			var key bytes.Buffer
			stamp, null, kerr := keys.NextKey(&key)
			cstamp, cerr := copies.CopyNext(&copied)
			if err != kerr || err != cerr {
				t.Fatalf("%s, record %d: %v, %v, %v", p.Name, i, err, kerr, cerr)
			}
			if err == io.EOF {
				break
			}
			if stamp != rec.Stamp || cstamp != rec.Stamp || null != (rec.Value == nil) || !bytes.Equal(key.Bytes(), rec.Key) {
				t.Fatalf("%s, record %d: %+v, %+v, want %+v", p.Name, i, stamp, cstamp, rec.Stamp)
			}
		}
		if !bytes.Equal(copied.Bytes(), plain[codec.BatchHeaderSize:]) {
			t.Errorf("%s: the copy differs", p.Name)
		}
		whole.Close()
		keys.Close()
		copies.Close()
	}
}

// allocated tells how many bytes fn allocates.
func allocated(fn func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// A batch that expands to much goes through keys and thinning in pieces: what is
// allocated does not follow what it expands to.
func TestI9ThinningABombTakesLittle(t *testing.T) {
	const large = 96 << 20
	x := codec.NewExpander(codec.Limits{Bytes: 128 << 20, Window: 8 << 20})
	plain := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{
		{Key: []byte("a"), Value: make([]byte, large)}, {Key: []byte("b"), Value: []byte("x")},
	})
	for _, p := range codectest.Packings {
		if p.Codec == codec.CodecNone || p.Codec == codec.CodecSnappy {
			continue // as large as what they hold, or nearly: snappy's ratio is 22 at most
		}
		t.Run(p.Name, func(t *testing.T) {
			batch := p.Batch(plain)
			thinner := &codec.Thinner{}
			got := allocated(func() {
				r, err := x.Open(batch)
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, _, err = r.NextKey(io.Discard)
				}
				if r.Close(); err != io.EOF {
					t.Fatal(err)
				}
				if _, err := thinner.Thin(x, batch, func(i int) bool { return i == 0 }); err != nil {
					t.Fatal(err)
				}
			})
			t.Logf("%d bytes, %d allocated", len(batch), got)
			if got > 40<<20 {
				t.Errorf("%d bytes are allocated for a batch of %d", got, len(batch))
			}
		})
	}
}
