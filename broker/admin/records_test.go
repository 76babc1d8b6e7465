package admin

import (
	"net/http"
	"slices"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestRecordHashesDoNotDependOnPacking: a record's hash is of what a client sees.
func TestRecordHashesDoNotDependOnPacking(t *testing.T) {
	records := []codec.PlainRecord{
		{Timestamp: 1000, Key: []byte("k"), Value: []byte("v"), Headers: []codec.PlainHeader{{Key: "h", Value: []byte{1}}, {Key: "n"}}},
		{Timestamp: 990, Key: nil, Value: []byte{}},
		{Timestamp: 2000, Key: []byte{}, Value: nil},
	}
	s := &Server{expander: codec.NewExpander(recordLimits)}
	hashes := func(batch []byte) (out []uint64) {
		if _, err := codec.CheckBatch(batch); err != nil {
			t.Fatal(err)
		}
		if err := s.eachRecord(batch, func(r codec.Record) error { out = append(out, hashRecord(r)); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	batch := codec.BuildBatch(codec.NoSender, records)
	want := hashes(batch)
	if len(want) != 3 || want[1] == want[2] {
		t.Fatalf("hashes %x", want)
	}
	for _, p := range codectest.Packings {
		if got := hashes(p.Batch(batch)); !slices.Equal(got, want) {
			t.Errorf("%s: %x, want %x", p.Name, got, want)
		}
	}
	for i := range records {
		if alone := hashes(codec.BuildBatch(codec.NoSender, records[i:i+1])); alone[0] != want[i] {
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
		err := s.eachRecord(codectest.WithRecords(batch, codec.CodecNone, records), func(codec.Record) error { return nil })
		if rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Headers: make([]codec.PlainHeader, maxHeaders+1)}})
	if err := s.eachRecord(many, func(codec.Record) error { return nil }); rhumb.KindOf(err) != rhumb.KindCorrupt {
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
