package codec_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
)

// rawRecords gives the records of a batch as they lie in it.
func rawRecords(x *codec.Expander, b []byte) (list [][]byte, latest int64, err error) {
	r, err := x.Open(b)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return list, latest, nil
		}
		if err != nil {
			return nil, 0, err
		}
		list = append(list, bytes.Clone(rec.Raw))
		latest = max(latest, rec.Timestamp)
	}
}

func everyOther(i int) bool { return i%2 == 1 }

func TestThin(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // encoders must not leave their bubble
		x, thinner := newExpander(), &codec.Thinner{}
		plain := codec.BuildBatch(codec.Sender{ID: 7, Epoch: 2, Sequence: 40}, someRecords())
		codec.PatchBatch(plain, 1000, 5)
		for _, p := range codectest.Packings {
			batch := p.Batch(plain)
			before, _, err := rawRecords(x, batch)
			if err != nil {
				t.Fatal(err)
			}
			thin, err := thinner.Thin(x, batch, everyOther)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			old, _ := codec.ParseBatch(batch)
			h, err := codec.CheckThinned(thin)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			after, latest, err := rawRecords(x, thin)
			want := slices.DeleteFunc(slices.Clone(before), func(b []byte) bool {
				i := slices.IndexFunc(before, func(o []byte) bool { return bytes.Equal(o, b) })
				return i%2 == 0
			})
			if err != nil || !slices.EqualFunc(after, want, bytes.Equal) {
				t.Errorf("%s: %d records of %d are left, want %d: %v", p.Name, len(after), len(before), len(want), err)
			}
			if _, err := codec.CheckBatch(thin); err == nil {
				t.Errorf("%s: a producer could send a batch with holes", p.Name)
			}
			old.CRC, old.Size, old.Count, old.MaxTimestamp = h.CRC, h.Size, int32(len(want)), latest
			if h != old {
				t.Errorf("%s: header %+v, want %+v", p.Name, h, old)
			}
		}
		if _, err := thinner.Thin(x, plain, func(int) bool { return false }); err == nil {
			t.Error("a batch without records was made")
		}
	})
}

// FuzzThin: whatever the records are, thinning ends, and what is left is what was
// to be left.
func FuzzThin(f *testing.F) {
	batch := codec.BuildBatch(codec.NoSender, someRecords()[:4])
	for _, p := range codectest.Packings {
		packed := p.Pack(batch[codec.BatchHeaderSize:])
		f.Add(p.Codec, packed, uint32(4))
		f.Add(p.Codec, packed[:len(packed)-3], uint32(4))
	}
	x, thinner := newExpander(), &codec.Thinner{}
	f.Fuzz(func(t *testing.T, kind int16, records []byte, count uint32) {
		b := codectest.WithRecords(batch, kind&codec.AttrCodecMask, records)
		binary.BigEndian.PutUint32(b[57:], count)
		binary.BigEndian.PutUint32(b[23:], count-1)
		codec.SealBatch(b)
		thin, err := thinner.Thin(x, b, everyOther)
		if err != nil {
			return
		}
		if _, err := codec.CheckThinned(thin); err != nil {
			t.Fatal(err)
		}
		before, _, err1 := rawRecords(x, b)
		after, _, err2 := rawRecords(x, thin)
		if err1 != nil || err2 != nil || len(after) != len(before)/2 {
			t.Fatalf("%d of %d records: %v, %v", len(after), len(before), err1, err2)
		}
		for i := range after {
			if !bytes.Equal(after[i], before[2*i+1]) {
				t.Fatalf("record %d is not the one that it was", i)
			}
		}
	})
}
