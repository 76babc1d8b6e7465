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

// In a fan-in from us and eu to ap, eu lacks nothing of what us published before it
// lost its disk, as it lacked nothing before that: no edge ever was to bring it.
func TestEarlierLifeThatNoEdgeCarriesIsNotCompared(t *testing.T) {
	m := newMesh(t)
	e := func(from, to rhumb.RegionName) admin.Edge {
		return admin.Edge{Tenant: "public", Namespace: "default", From: from, To: to}
	}
	var entries []admin.RegionEntry
	for i, name := range []rhumb.RegionName{"us", "eu", "ap"} {
		entries = append(entries, admin.RegionEntry{Name: name, Number: rhumb.RegionNumber(i + 1), State: "active"})
	}
	run := func(edges ...admin.Edge) Report {
		t.Helper()
		for _, r := range []*admintest.Region{m.us, m.eu, m.ap} {
			r.SetMesh(entries, edges)
		}
		third := func(context.Context, rhumb.RegionName) (Source, error) { return m.api[m.us], nil }
		r, err := Run(t.Context(), Options{A: m.api[m.eu], B: m.api[m.ap], Third: third})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	fanIn, mesh := []admin.Edge{e("us", "ap"), e("eu", "ap")}, []admin.Edge{e("us", "ap"), e("us", "eu"), e("eu", "ap")}
	receiveEarlier(m.ap, 0, 5)
	want(t, run(fanIn...), Equal, "origin us skipped", "no edge brings records of us to eu")
	want(t, run(mesh...), Incomplete, "an earlier life of us: eu holds nothing of it")

	receiveEarlier(m.eu, 0, 5) // an edge was there once
	receiveEarlier(m.ap, 5, 3)
	r := run(fanIn...)
	want(t, r, Equal, "origin us equal compared 0-4 records 5", "3 records of us that ap has are not compared: no edge carries them to eu")
	if r.Origins[0].Uncarried["eu"] != 3 {
		t.Errorf("eu lacks %+v", r.Origins)
	}
	want(t, run(mesh...), Incomplete, "an earlier life of us, which has it no more")
}

// What a region had published before somebody deleted the topic there alone reaches
// nobody any more: the region that lacks some of it is not late.
func TestDeletedAtItsOriginIsIncomplete(t *testing.T) {
	m := newMesh(t)
	publish(m.us, 4, 6)
	for _, n := range []*admintest.Region{m.eu, m.ap} {
		log(n).CopyFrom(log(m.us))
	}
	publish(m.us, 3)
	log(m.eu).CopyFrom(log(m.us))
	run := func() Report {
		t.Helper()
		third := func(context.Context, rhumb.RegionName) (Source, error) { return m.api[m.us], nil }
		r, err := Run(t.Context(), Options{A: m.api[m.eu], B: m.api[m.ap], Third: third})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want(t, run(), Equal, "late map[ap:3]")
	if err := m.us.DeleteTopic(t.Context(), topic("t"), "region", true); err != nil {
		t.Fatal(err)
	}
	want(t, run(), Incomplete, "us, which has it no more")
}
