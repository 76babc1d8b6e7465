package codec_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const limit = 1 << 20

func newExpander() *codec.Expander {
	return codec.NewExpander(codec.Limits{Bytes: limit, Window: 8 << 20})
}

// someRecords has all that a record can have, and one that fits into no window.
func someRecords() []codec.PlainRecord {
	noise := make([]byte, 100_000)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise) // never fails
	return []codec.PlainRecord{
		{Timestamp: 1000, Key: []byte("k"), Value: []byte("v"), Headers: []codec.PlainHeader{{Key: "h", Value: []byte{1}}, {Key: "", Value: nil}}},
		{Timestamp: 990, Key: nil, Value: []byte{}},
		{Timestamp: 2000, Key: []byte{}, Value: nil},
		{Timestamp: 5, Key: noise[:9000], Value: noise, Headers: []codec.PlainHeader{{Key: string(noise[:20_000])}}},
		{Timestamp: 7, Value: []byte("last")},
	}
}

// plain copies a record that was read.
func plain(r codec.Record) codec.PlainRecord {
	p := codec.PlainRecord{Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for key, value := range r.Headers.All() {
		p.Headers = append(p.Headers, codec.PlainHeader{Key: string(key), Value: bytes.Clone(value)})
	}
	return p
}

func readAll(x *codec.Expander, batch []byte) (out []codec.PlainRecord, err error) {
	r, err := x.Open(batch)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if rec.Delta != int64(len(out)) || rec.HasKey != (rec.Key != nil) || rec.Headers.Len() > 2 {
			return out, fmt.Errorf("record %d is %+v", len(out), rec.Stamp)
		}
		out = append(out, plain(rec))
	}
}

func stamps(x *codec.Expander, batch []byte) (out []codec.Stamp, err error) {
	r, err := x.Open(batch)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		s, err := r.NextStamp()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, s)
	}
}

// sameRecords compares without taking null for empty.
func sameRecords(a, b []codec.PlainRecord) bool {
	return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
}

func TestRecordsComeBackAsTheyWent(t *testing.T) {
	want := someRecords()
	batch := codec.BuildBatch(codec.Sender{ID: 7, Epoch: 2, Sequence: 9}, want)
	h, err := codec.CheckBatch(batch)
	if err != nil || h.ProducerID != 7 || h.ProducerEpoch != 2 || h.BaseSequence != 9 || h.MaxTimestamp != 2000 {
		t.Fatalf("%+v, %v", h, err)
	}
	x := newExpander()
	for range 2 { // the second time with what was kept
		for _, p := range codectest.Packings {
			packed := p.Batch(batch)
			if got, err := readAll(x, packed); err != nil || !sameRecords(got, want) {
				t.Errorf("%s: %d records, %v", p.Name, len(got), err)
			}
			got, err := stamps(x, packed)
			for i, s := range got {
				if s != (codec.Stamp{Delta: int64(i), Timestamp: want[i].Timestamp, HasKey: want[i].Key != nil}) {
					t.Errorf("%s: stamp %d is %+v", p.Name, i, s)
				}
			}
			if err != nil || len(got) != len(want) {
				t.Errorf("%s: %d stamps, %v", p.Name, len(got), err)
			}
		}
	}
}

// A topic of LogAppendTime has one time for the whole batch.
func TestLogAppendTimeIsTheBatchs(t *testing.T) {
	batch := codec.BuildBatch(codec.NoSender, someRecords())
	batch[22] |= codec.AttrLogAppendTime
	got, err := stamps(newExpander(), batch)
	if err != nil || slices.ContainsFunc(got, func(s codec.Stamp) bool { return s.Timestamp != 2000 }) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Null is any negative length, as in Kafka, but a header has a key.
func TestRecordsThatAreNotRight(t *testing.T) {
	batch := codec.BuildBatch(codec.NoSender, someRecords()[1:2])
	records := batch[codec.BatchHeaderSize:]
	for name, tc := range map[string]struct {
		records []byte
		ok      bool
	}{
		"as it is":               {records, true},
		"key of length -5":       {[]byte{12, 0, 0, 0, 9, 0, 0}, true},
		"nothing":                {nil, false},
		"negative length":        {[]byte{1}, false},
		"cut":                    {records[:len(records)-1], false},
		"a byte behind":          {append(slices.Clone(records), 0), false},
		"a byte left over":       {[]byte{14, 0, 0, 0, 1, 0, 0, 0}, false},
		"key past the record":    {[]byte{12, 0, 0, 0, 200, 1, 0}, false},
		"header with a null key": {[]byte{16, 0, 0, 0, 1, 0, 2, 1, 0}, false},
		"headers past the end":   {[]byte{12, 0, 0, 0, 1, 0, 100}, false},
		"a number without end":   {[]byte{24, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, false},
	} {
		for _, p := range codectest.Packings {
			b := codectest.WithRecords(batch, p.Codec, p.Pack(tc.records))
			_, err := readAll(newExpander(), b)
			_, err2 := stamps(newExpander(), b)
			if (err == nil) != tc.ok || (err2 == nil) != tc.ok {
				t.Errorf("%s, %s: %v, %v", name, p.Name, err, err2)
			}
			if kind := rhumb.KindOf(err); err != nil && kind != rhumb.KindCorrupt {
				t.Errorf("%s, %s: kind %v of %v", name, p.Name, kind, err)
			}
		}
	}
}

func TestCompressedBytesThatAreNotRight(t *testing.T) {
	batch := codec.BuildBatch(codec.NoSender, someRecords())
	for _, p := range codectest.Packings[1:] {
		packed := p.Pack(batch[codec.BatchHeaderSize:])
		for name, bad := range map[string][]byte{"empty": {}, "cut": packed[:len(packed)/2], "cut early": packed[:min(18, len(packed))],
			"noise": []byte("this is nothing compressed at all"), "a lie": {255, 255, 63, 0, 0}} {
			if _, err := readAll(newExpander(), codectest.WithRecords(batch, p.Codec, bad)); rhumb.KindOf(err) != rhumb.KindCorrupt {
				t.Errorf("%s, %s: %v", p.Name, name, err)
			}
		}
	}
	if _, err := newExpander().Open(codectest.WithRecords(batch, 5, nil)); rhumb.KindOf(err) != rhumb.KindCorrupt {
		t.Errorf("codec 5: %v", err)
	}
}

// A small batch that expands to much is refused before it has expanded, be it
// one record or many.
func TestExpansionIsBounded(t *testing.T) {
	one := []codec.PlainRecord{{Timestamp: 1, Value: make([]byte, 8*limit)}}
	many := make([]codec.PlainRecord, 300_000)
	for _, records := range [][]codec.PlainRecord{one, many} {
		batch := codec.BuildBatch(codec.NoSender, records)
		for _, p := range codectest.Packings {
			packed := p.Batch(batch)
			x := newExpander()
			_, err := stamps(x, packed)
			_, err2 := readAll(x, packed)
			if rhumb.KindOf(err) != rhumb.KindTooLarge || rhumb.KindOf(err2) != rhumb.KindTooLarge {
				t.Errorf("%s, %d records: %v, %v", p.Name, len(records), err, err2)
			}
		}
	}
}

// What an Expander keeps does not leave its bubble, as the next one proves.
func TestBubblesShareNothing(t *testing.T) {
	want := someRecords()
	batch := codec.BuildBatch(codec.NoSender, want)
	for range 3 {
		bubble.Test(t, func(t *testing.T) {
			x := newExpander()
			for range 2 {
				for _, p := range codectest.Packings {
					if got, err := readAll(x, p.Batch(batch)); err != nil || len(got) != len(want) {
						t.Errorf("%s: %d records, %v", p.Name, len(got), err)
					}
				}
			}
		})
	}
}

// FuzzRecords: whatever the records are, reading them ends, and stamps and parts tell the
// same as whole records.
func FuzzRecords(f *testing.F) {
	batch := codec.BuildBatch(codec.NoSender, someRecords()[:3])
	for _, p := range codectest.Packings {
		packed := p.Pack(batch[codec.BatchHeaderSize:])
		f.Add(p.Codec, packed, int32(3))
		f.Add(p.Codec, packed[:len(packed)-3], int32(3))
	}
	f.Add(int16(codec.CodecLZ4), []byte{4, 0x22, 0x4d, 0x18}, int32(1))
	x := newExpander()
	f.Fuzz(func(t *testing.T, kind int16, records []byte, count int32) {
		b := codectest.WithRecords(batch, kind&codec.AttrCodecMask, records)
		b[57], b[58], b[59], b[60] = byte(count>>24), byte(count>>16), byte(count>>8), byte(count)
		brief, err := stamps(x, b)
		r, openErr := x.Open(b)
		if openErr != nil {
			if err == nil {
				t.Fatalf("opened once, not again: %v", openErr)
			}
			return
		}
		defer r.Close()
		byParts, openErr := x.Open(b)
		if openErr != nil {
			t.Fatalf("opened once, not again: %v", openErr)
		}
		defer byParts.Close()
		_ = codec.LargestBlock(b)
		for i := 0; ; i++ {
			rec, err2 := r.Next()
			var g gathered
			s, err3 := byParts.NextParts(&g)
			if (err2 == nil) != (err3 == nil) || err2 == io.EOF != (err3 == io.EOF) || rhumb.KindOf(err2) != rhumb.KindOf(err3) {
				t.Fatalf("record %d: %v, by its parts %v", i, err2, err3)
			}
			if err2 == nil {
				if err := sameParts(&g, s, rec); err != nil {
					t.Fatalf("record %d, by its parts: %v", i, err)
				}
			}
			if err2 == io.EOF && err == nil && i == len(brief) {
				return
			}
			if err2 != nil {
				if err2 == io.EOF || err == nil {
					t.Fatalf("after %d records of %d: %v, stamps %v", i, len(brief), err2, err)
				}
				return
			}
			if i < len(brief) && rec.Stamp != brief[i] {
				t.Fatalf("record %d: %+v, stamp %+v", i, rec.Stamp, brief[i])
			}
			_ = plain(rec)
		}
	})
}

func BenchmarkRecords(b *testing.B) {
	records := make([]codec.PlainRecord, 64)
	text := bytes.Repeat([]byte("some words that come again; "), 40)
	for i := range records {
		records[i] = codec.PlainRecord{Timestamp: int64(i), Key: fmt.Append(nil, i), Value: text[i%7 : i%7+1024]}
	}
	batch := codec.BuildBatch(codec.NoSender, records)
	for _, p := range codectest.Packings {
		packed := p.Batch(batch)
		for name, next := range map[string]func(*codec.Records) error{
			"stamps": func(r *codec.Records) error { _, err := r.NextStamp(); return err },
			"whole":  func(r *codec.Records) error { _, err := r.Next(); return err },
		} {
			b.Run(p.Name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				x := newExpander()
				for b.Loop() {
					r, err := x.Open(packed)
					for err == nil {
						err = next(r)
					}
					if err != io.EOF {
						b.Fatal(err)
					}
					r.Close()
				}
			})
		}
	}
}

func BenchmarkBuildBatch(b *testing.B) {
	records := make([]codec.PlainRecord, 64)
	for i := range records {
		records[i] = codec.PlainRecord{Timestamp: int64(i), Key: fmt.Append(nil, i), Value: make([]byte, 1024)}
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(codec.BuildBatch(codec.NoSender, records))))
	}
}
