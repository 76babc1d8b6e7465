package admin

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// hashRecord is what the first version of Rhumb made of a whole record.
func hashRecord(r codec.Record) uint64 {
	var d xxhash.Digest
	d.Reset()
	var n [binary.MaxVarintLen64]byte
	number := func(v int64) { d.Write(n[:binary.PutVarint(n[:], v)]) }
	part := func(b []byte) {
		if b == nil {
			number(-1)
			return
		}
		number(int64(len(b)))
		d.Write(b)
	}
	number(r.Timestamp)
	part(r.Key)
	part(r.Value)
	number(int64(r.Headers.Len()))
	for key, value := range r.Headers.All() {
		part(key)
		part(value)
	}
	return d.Sum64()
}

// randomRecords have parts of all sizes, also such as fit into no window, and null ones.
func randomRecords(random *rand.Rand) []codec.PlainRecord {
	bytes := func() []byte {
		most := []int{0, 1, 10, 1000, 40_000}[random.IntN(5)]
		if most == 0 && random.IntN(2) == 0 {
			return nil
		}
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = byte(random.IntN(1 + random.IntN(256)))
		}
		return b
	}
	records := make([]codec.PlainRecord, 1+random.IntN(20))
	for i := range records {
		records[i] = codec.PlainRecord{Timestamp: random.Int64N(1 << 45), Key: bytes(), Value: bytes()}
		for range random.IntN(4) {
			records[i].Headers = append(records[i].Headers, codec.PlainHeader{Key: string(bytes()), Value: bytes()})
		}
	}
	return records
}

// TestRecordHashesStayAsTheyWere: regions of several versions compare them. The sum of a
// record that goes by in pieces is that of the whole one, however it is packed.
func TestRecordHashesStayAsTheyWere(t *testing.T) {
	s := &Server{expander: codec.NewExpander(recordLimits)}
	for seed := range uint64(15) {
		batch := codec.BuildBatch(codec.NoSender, randomRecords(rand.New(rand.NewPCG(seed, 1))))
		if seed%5 == 0 {
			batch[22] |= codec.AttrLogAppendTime
			codec.SealBatch(batch)
		}
		for _, p := range codectest.Packings {
			packed := p.Batch(batch)
			records, err := s.expander.Open(packed)
			if err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for {
				r, err := records.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, hashRecord(r))
			}
			records.Close()
			if got := hashes(t, s, packed); !slices.Equal(got, want) {
				t.Fatalf("seed %d, %s: %x, want %x", seed, p.Name, got, want)
			}
		}
	}
}

func hashes(t *testing.T, s *Server, batch []byte) (out []uint64) {
	t.Helper()
	if _, err := codec.CheckBatch(batch); err != nil {
		t.Fatal(err)
	}
	h := &hasher{}
	if err := s.eachRecord(batch, h, func(codec.Stamp) error { out = append(out, h.sum.Sum64()); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRecordHashesDoNotDependOnPacking: a record's hash is of what a client sees.
func TestRecordHashesDoNotDependOnPacking(t *testing.T) {
	records := []codec.PlainRecord{
		{Timestamp: 1000, Key: []byte("k"), Value: []byte("v"), Headers: []codec.PlainHeader{{Key: "h", Value: []byte{1}}, {Key: "n"}}},
		{Timestamp: 990, Key: nil, Value: []byte{}},
		{Timestamp: 2000, Key: []byte{}, Value: nil},
	}
	s := &Server{expander: codec.NewExpander(recordLimits)}
	batch := codec.BuildBatch(codec.NoSender, records)
	want := hashes(t, s, batch)
	if len(want) != 3 || want[1] == want[2] {
		t.Fatalf("hashes %x", want)
	}
	for _, p := range codectest.Packings {
		if got := hashes(t, s, p.Batch(batch)); !slices.Equal(got, want) {
			t.Errorf("%s: %x, want %x", p.Name, got, want)
		}
	}
	for i := range records {
		if alone := hashes(t, s, codec.BuildBatch(codec.NoSender, records[i:i+1])); alone[0] != want[i] {
			t.Errorf("record %d has another hash in another batch", i)
		}
	}
}

// What a client could not place or would not take is not shown as if it were right.
func TestRecordsOutsideOfTheirBatchAreRefused(t *testing.T) {
	s := &Server{expander: codec.NewExpander(recordLimits)}
	batch := codec.BuildBatch(codec.NoSender, make([]codec.PlainRecord, 1))
	for name, records := range map[string][]byte{
		"delta 1":       {12, 0, 0, 2, 1, 1, 0},
		"delta -1":      {12, 0, 0, 1, 1, 1, 0},
		"no end":        {12, 0, 0, 0, 1, 1},
		"bytes in rest": {12, 0, 0, 0, 1, 1, 0, 0},
	} {
		err := s.eachRecord(codectest.WithRecords(batch, codec.CodecNone, records), nobody{}, func(codec.Stamp) error { return nil })
		if rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Headers: make([]codec.PlainHeader, maxHeaders+1)}})
	if err := s.eachRecord(many, nobody{}, func(codec.Stamp) error { return nil }); rhumb.KindOf(err) != rhumb.KindCorrupt {
		t.Errorf("many headers: %v", err)
	}
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
