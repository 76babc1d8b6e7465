package verify

import (
	"context"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// receiveEarlier gives a region one batch of n records of an earlier life of us.
func receiveEarlier(r *admintest.Region, first, n int) {
	var records []codec.PlainRecord
	for range n {
		records = append(records, codec.PlainRecord{Value: []byte("of before")})
	}
	log(r).Receive(admin.Batch{Region: 1, Life: rhumb.Life{0xe1}, First: rhumb.Offset(first), Last: rhumb.Offset(first + n - 1),
		Bytes: codec.BuildBatch(codec.NoSender, records)})
}

// A region that was rebuilt lacks for good what others have of its earlier life:
// what can be compared being equal does not make the two hold the same.
func TestRebuiltRegionIsIncomplete(t *testing.T) {
	m := newMesh(t)
	receiveEarlier(m.eu, 0, 70)
	receiveEarlier(m.eu, 70, 40)
	publish(m.us, 4, 6)
	log(m.eu).CopyFrom(log(m.us))
	want(t, m.verify(t), Incomplete, "origin us incomplete", "records 10", "an earlier life of us: us holds nothing of it")
	if o := m.verify(t).Origins; o[0].Alone["eu"]+o[1].Alone["eu"] != 110 {
		t.Errorf("eu has 110 records that us has not: %+v", o)
	}

	log(m.eu).Tamper(func(b []admin.Batch) []admin.Batch { return b[2:] }) // retention has dropped them
	want(t, m.verify(t), Equal, "origin us skipped")
	log(m.eu).Tamper(func(b []admin.Batch) []admin.Batch { return b[:0] })
	want(t, m.verify(t), Differs)
}

// Two regions got different shares of what a third one published before it lost
// its disk. Nothing brings them together; while the third region cannot be asked, one
// of them is late.
func TestEarlierLifeOfAThirdRegionIsIncomplete(t *testing.T) {
	m := newMesh(t)
	run := func(ask bool) Report {
		t.Helper()
		o := Options{A: m.api[m.eu], B: m.api[m.ap]}
		if ask {
			o.Third = func(context.Context, rhumb.RegionName) (Source, error) { return m.api[m.us], nil }
		}
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	receiveEarlier(m.eu, 0, 5)
	want(t, run(true), Incomplete, "an earlier life of us: ap holds nothing of it")
	want(t, run(false), Unknown, "nothing of it has reached ap yet")
	receiveEarlier(m.ap, 0, 5)
	want(t, run(true), Equal, "origin us equal compared 0-4 records 5")
	receiveEarlier(m.ap, 5, 3)
	want(t, run(true), Incomplete, "origin us incomplete compared 0-4 records 5", "an earlier life of us, which has it no more")
	want(t, run(false), Equal, "origin us equal compared 0-4 records 5 late map[eu:3]")
}
