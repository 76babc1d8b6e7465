package verify

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// mesh is three in-memory regions behind real API servers; topic "t" with one
// partition is in all of them, and their namespace flows everywhere.
type mesh struct {
	us, eu, ap *admintest.Region
	api        map[*admintest.Region]Source
}

func newMesh(t testing.TB) *mesh {
	m := &mesh{us: admintest.New("us", 1), eu: admintest.New("eu", 2), ap: admintest.New("ap", 3), api: map[*admintest.Region]Source{}}
	all := []*admintest.Region{m.us, m.eu, m.ap}
	var entries []admin.RegionEntry
	for _, r := range all {
		entries = append(entries, admin.RegionEntry{Name: r.Identity.Name, Number: r.Identity.Number, State: "active"})
	}
	for _, r := range all {
		r.SetMesh(entries, fullMesh())
		if _, err := r.CreateTopic(t.Context(), topic("t"), 1, nil); err != nil {
			t.Fatal(err)
		}
		m.api[r] = Client(serve(t, r.Config()))
	}
	return m
}

// serve gives a client of an API that serves until the test ends.
func serve(t testing.TB, cfg admin.Config) *client.Client {
	t.Helper()
	s, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	c, err := client.New(client.Config{URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func fullMesh() (edges []admin.Edge) {
	for _, from := range []rhumb.RegionName{"us", "eu", "ap"} {
		for _, to := range []rhumb.RegionName{"us", "eu", "ap"} {
			if from != to {
				edges = append(edges, admin.Edge{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, From: from, To: to})
			}
		}
	}
	return edges
}

func topic(name string) rhumb.Topic {
	return rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: rhumb.TopicName(name)}
}

// log gives the region's partition 0 of topic t.
func log(r *admintest.Region) *admintest.Log { return r.Log("t", 0) }

// publish appends batches of the given sizes in a region.
func publish(r *admintest.Region, sizes ...int) {
	for i, n := range sizes {
		var records []codec.PlainRecord
		for j := range n {
			records = append(records, codec.PlainRecord{Timestamp: int64(1000*i + j), Key: fmt.Appendf(nil, "k%d", j),
				Value: fmt.Appendf(nil, "%s batch %d record %d", r.Identity.Name, i, j)})
		}
		log(r).Publish(records...)
	}
}

func (m *mesh) verify(t testing.TB, topics ...rhumb.Topic) Report {
	t.Helper()
	r, err := Run(t.Context(), Options{A: m.api[m.us], B: m.api[m.eu], Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// describe gives a report as lines, one per origin, finding and explanation.
func describe(r Report) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.State)
	for _, o := range r.Origins {
		fmt.Fprintf(&b, "origin %s %s compared %s records %d late %v\n", o.Name, o.State, o.Compared, o.Records, o.Late)
		for _, f := range o.Findings {
			fmt.Fprintf(&b, "  %s in %s: %d at %v %s\n", f.Kind, f.Region, f.Records, f.Ranges, f.Detail)
		}
		for _, e := range o.Explained {
			fmt.Fprintf(&b, "  explained in %s: %d at %v: %s\n", e.Region, e.Records, e.Ranges, e.Reason)
		}
		if o.Note != "" {
			fmt.Fprintf(&b, "  note: %s\n", o.Note)
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "problem %s: %s\n", p.Topic, p.Message)
	}
	return b.String()
}

func want(t *testing.T, r Report, state State, lines ...string) {
	t.Helper()
	text := describe(r)
	if r.State != state {
		t.Errorf("state %s, want %s:\n%s", r.State, state, text)
	}
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in:\n%s", line, text)
		}
	}
}

// filled is a mesh where every region published and received all.
func filled(t testing.TB) *mesh {
	m := newMesh(t)
	publish(m.us, 3, 2, 5)
	publish(m.eu, 4, 1)
	log(m.us).CopyFrom(log(m.eu))
	log(m.eu).CopyFrom(log(m.us))
	publish(m.us, 2, 2)
	publish(m.ap, 6, 6)
	log(m.eu).CopyFrom(log(m.us))
	log(m.eu).CopyFrom(log(m.ap))
	log(m.us).CopyFrom(log(m.ap))
	return m
}

func TestEqualRegions(t *testing.T) {
	m := filled(t)
	want(t, m.verify(t), Equal, "origin us equal", "records 14", "origin eu equal", "records 5", "origin ap equal", "records 12")
}

func TestLateIsShownAndNoDifference(t *testing.T) {
	m := filled(t)
	publish(m.us, 7)
	r := m.verify(t)
	want(t, r, Equal, "late map[eu:7]") // of offsets 15 to 33 of us; the others are its copies
}

// TestPlantedDifferences plants each kind of difference in eu's copy.
func TestPlantedDifferences(t *testing.T) {
	isOf := func(r *admintest.Region) func(admin.Batch) bool {
		return func(b admin.Batch) bool { return b.Region == r.Identity.Number }
	}
	for _, c := range []struct {
		name   string
		plant  func(m *mesh, b []admin.Batch) []admin.Batch
		expect []string
	}{
		{"missing from us", func(m *mesh, b []admin.Batch) []admin.Batch {
			return slices.DeleteFunc(b, func(x admin.Batch) bool { return x.Region == 1 && x.First == 3 })
		}, []string{"missing in eu: 2 at [3-4]"}},
		{"missing from third region", func(m *mesh, b []admin.Batch) []admin.Batch {
			return slices.DeleteFunc(b, func(x admin.Batch) bool { return x.Region == 3 && x.First == 6 })
		}, []string{"missing in eu: 6 at [6-11]"}},
		{"own records lost, the copy has them", func(m *mesh, b []admin.Batch) []admin.Batch {
			return slices.DeleteFunc(b, func(x admin.Batch) bool { return x.Region == 2 && x.First == 4 })
		}, []string{"extra in us: 1 at [4]"}},
		{"out of order", func(m *mesh, b []admin.Batch) []admin.Batch {
			i := slices.IndexFunc(b, isOf(m.us))
			b[i], b[i+1] = b[i+1], b[i]
			return b
		}, []string{"out of order in eu: 3 at [0-2]"}},
		{"twice", func(m *mesh, b []admin.Batch) []admin.Batch {
			i := slices.IndexFunc(b, isOf(m.us))
			twin := b[i]
			twin.Bytes = slices.Clone(twin.Bytes)
			return append(b, twin)
		}, []string{"extra in eu: 3 at [0-2] stored more than once"}},
		{"one record differs", func(m *mesh, b []admin.Batch) []admin.Batch {
			i := slices.IndexFunc(b, isOf(m.us))
			b[i].Bytes = codec.BuildBatch(codec.NoSender, []codec.PlainRecord{
				{Timestamp: 0, Key: []byte("k0"), Value: []byte("us batch 0 record 0")},
				{Timestamp: 1, Key: []byte("k1"), Value: []byte("us batch 0 record X")},
				{Timestamp: 2, Key: []byte("k2"), Value: []byte("us batch 0 record 2")}})
			return b
		}, []string{"different in eu: 1 at [1]", "records 13"}},
		{"a byte of a batch flipped", func(m *mesh, b []admin.Batch) []admin.Batch {
			i := slices.IndexFunc(b, isOf(m.us))
			b[i].Bytes[codec.BatchHeaderSize] ^= 0x40 // length of the first record
			return b
		}, []string{"different in eu: 3 at [0-2] CRC"}},
		{"only the batch's CRC field differs", func(m *mesh, b []admin.Batch) []admin.Batch {
			i := slices.IndexFunc(b, isOf(m.us))
			b[i].Bytes[17] ^= 1
			return b
		}, []string{"different in eu: 3 at [0-2] CRC"}},
		{"a timestamp differs", func(m *mesh, b []admin.Batch) []admin.Batch {
			i := slices.IndexFunc(b, isOf(m.us))
			b[i].Bytes = codec.BuildBatch(codec.NoSender, []codec.PlainRecord{
				{Timestamp: 0, Key: []byte("k0"), Value: []byte("us batch 0 record 0")},
				{Timestamp: 9, Key: []byte("k1"), Value: []byte("us batch 0 record 1")},
				{Timestamp: 2, Key: []byte("k2"), Value: []byte("us batch 0 record 2")}})
			return b
		}, []string{"different in eu: 1 at [1]"}},
		{"an invented batch in a hole", func(m *mesh, b []admin.Batch) []admin.Batch {
			return append(b[:len(b)-1], admin.Batch{Region: 1, Life: log(m.us).Life(), First: 10, Last: 10,
				Bytes: codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: []byte("invented")}})}, b[len(b)-1])
		}, []string{"extra in eu: 1 at [10] stored more than once"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := filled(t)
			log(m.eu).Tamper(func(b []admin.Batch) []admin.Batch { return c.plant(m, b) })
			want(t, m.verify(t), Differs, c.expect...)
		})
	}
}

func TestDivergedCopyIsAheadOfItsOrigin(t *testing.T) {
	m := filled(t)
	log(m.eu).Account(log(m.us), 999, rhumb.NoOffset)
	want(t, m.verify(t), Differs, "extra in eu", "diverged")
}

func TestChainsAreCompared(t *testing.T) {
	m := newMesh(t)
	publish(m.us, 1)
	b := log(m.us).Batches()[0]
	log(m.eu).Receive(b)
	want(t, m.verify(t), Equal)
	// The same records again under a watermark whose chain counts both.
	log(m.eu).Receive(b)
	want(t, m.verify(t), Differs, "chain values at offset 0", "extra in eu: 1 at [0]")
}

func TestG08GapsAreExplainedNotHidden(t *testing.T) {
	m := newMesh(t)
	publish(m.us, 2, 2, 2)
	batches := log(m.us).Batches()
	log(m.eu).Receive(batches[0])
	log(m.eu).Gap(log(m.us), 2, 3, rhumb.ReasonRetention)
	log(m.eu).Receive(batches[2])
	want(t, m.verify(t), Equal, "compared 4-5 records 4", "explained in eu: 2 at [2-3]: gap: retention")
}

func TestRetentionIsExplained(t *testing.T) {
	m := filled(t)
	log(m.eu).Trim(4) // 4 of its 5 own records
	want(t, m.verify(t), Equal, "explained in eu: 4 at [0-3]: retention or deletion")
	log(m.us).Trim(3)
	want(t, m.verify(t), Equal, "explained in us: 3 at [0-2]: retention")
	log(m.eu).Trim(7) // all own, and us's first batch up to its middle
	want(t, m.verify(t), Unknown, "origin us equal", "explained in eu: 5 at [0-4]: retention", "nothing to compare")
}

// What was deleted from the middle of a batch is stored with the batch and served by
// nobody: it is not among the equal records.
func TestRecordsBelowTheLogStartAreNotCounted(t *testing.T) {
	m := newMesh(t)
	publish(m.us, 10, 90)
	log(m.eu).CopyFrom(log(m.us))
	log(m.us).Trim(50)
	want(t, m.verify(t), Equal, "compared 50-99 records 50", "explained in us: 10 at [0-9]: retention or deletion")
	log(m.eu).Trim(70)
	want(t, m.verify(t), Equal, "compared 70-99 records 30")
}

func TestStartOfEdgeIsExplained(t *testing.T) {
	m := newMesh(t)
	publish(m.us, 2, 2)
	log(m.eu).Account(log(m.us), 1, 1)
	log(m.eu).Receive(log(m.us).Batches()[1])
	want(t, m.verify(t), Equal, "compared 2-3 records 2", "explained in eu: 2 at [0-1]: retention, deletion, or before the edge's start")
}

func TestUnknownWhereNothingCanBeCompared(t *testing.T) {
	t.Run("nothing arrived", func(t *testing.T) {
		m := newMesh(t)
		publish(m.us, 2)
		want(t, m.verify(t), Unknown, "nothing of it has reached eu yet", "late map[eu:2]")
	})
	t.Run("one side knows that a third region published nothing", func(t *testing.T) {
		m := newMesh(t)
		publish(m.us, 2)
		log(m.eu).CopyFrom(log(m.us))
		log(m.ap).CopyFrom(log(m.us))
		log(m.eu).Account(log(m.ap), 1, -1)
		want(t, m.verify(t), Equal, "records 2")
		log(m.us).Account(log(m.ap), -1, -1)
		want(t, m.verify(t), Equal, "records 2")
		log(m.eu).Account(log(m.ap), 1, 1) // it may have, and retention dropped it
		want(t, m.verify(t), Unknown, "nothing of it has arrived yet")
	})
	t.Run("all below the floor", func(t *testing.T) {
		m := newMesh(t)
		publish(m.us, 2)
		log(m.eu).Account(log(m.us), 1, 1)
		want(t, m.verify(t), Unknown, "nothing to compare")
	})
	t.Run("topic is not there", func(t *testing.T) {
		m := newMesh(t)
		if err := m.eu.DeleteTopic(t.Context(), topic("t"), "", false); err != nil {
			t.Fatal(err)
		}
		want(t, m.verify(t), Unknown, "is not in region eu")
	})
	t.Run("no such topic", func(t *testing.T) {
		want(t, newMesh(t).verify(t, topic("none")), Unknown, "problem none: is in neither region")
	})
	t.Run("no edge", func(t *testing.T) {
		m := newMesh(t)
		m.us.SetMesh(nil, nil)
		want(t, m.verify(t), Unknown, "no topic in a namespace that flows")
	})
	t.Run("region is down", func(t *testing.T) {
		m := newMesh(t)
		dead, err := client.New(client.Config{URL: "127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(context.Background(), Options{A: m.api[m.us], B: Client(dead)})
		if rhumb.KindOf(err) != rhumb.KindUnavailable {
			t.Errorf("error %v", err)
		}
	})
	t.Run("same region twice", func(t *testing.T) {
		m := newMesh(t)
		_, err := Run(context.Background(), Options{A: m.api[m.us], B: m.api[m.us]})
		if rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("error %v", err)
		}
	})
}

func TestOneWayEdgeIsNotComparedBack(t *testing.T) {
	m := newMesh(t)
	m.us.SetMesh(nil, []admin.Edge{{Tenant: "public", Namespace: "default", From: "us", To: "eu"}})
	publish(m.us, 2)
	publish(m.eu, 2)
	log(m.eu).CopyFrom(log(m.us))
	r := m.verify(t)
	want(t, r, Equal, "origin us equal", "skipped", "no edge brings records of")
}

// Two sources of a fan-in have nothing in common: that none of it is compared is no
// equality, which a script would take it for, whether topics are named or not. A source
// that has published nothing is another thing.
func TestSourcesOfAFanInProveNothing(t *testing.T) {
	m := newMesh(t)
	e := func(from, to rhumb.RegionName) admin.Edge {
		return admin.Edge{Tenant: "public", Namespace: "default", From: from, To: to}
	}
	m.us.SetMesh(nil, []admin.Edge{e("us", "ap"), e("eu", "ap")})
	want(t, m.verify(t, topic("t")), Equal) // empty in both
	publish(m.us, 2)
	want(t, m.verify(t, topic("t")), Unknown, "origin us skipped", "no edge leads between us and eu, or to both from a third region")
	want(t, m.verify(t), Unknown, "compare a region with one that it sends to")
	m.us.SetMesh(nil, []admin.Edge{e("eu", "us")})
	want(t, m.verify(t, topic("t")), Equal, "origin us skipped")
}

// What came while an edge was there is compared; what was published after the edge
// went is not on its way, whoever holds it.
func TestWhatNoEdgeCarriesIsNotLate(t *testing.T) {
	e := func(from, to rhumb.RegionName, forward bool) admin.Edge {
		return admin.Edge{Tenant: "public", Namespace: "default", From: from, To: to, Forward: forward}
	}
	m := filled(t)
	publish(m.us, 4)
	publish(m.ap, 3)
	log(m.eu).CopyFrom(log(m.ap))
	for _, c := range []struct {
		name                  string
		edges                 []admin.Edge
		us, ap                string // how eu stands to us's records, us to ap's
		uncarriedEU, uncarUSA int64
	}{
		{"full mesh", fullMesh(), "late map[eu:4]", "late map[us:3]", 0, 0},
		{"fan-in to ap", []admin.Edge{e("us", "ap", false), e("eu", "ap", false)}, "4 records of us that us has are not compared: no edge carries them to eu",
			"3 records of ap that eu has are not compared: no edge carries them to us", 4, 3},
		{"over ap, which forwards", []admin.Edge{e("us", "ap", false), e("ap", "eu", true), e("ap", "us", true)}, "late map[eu:4]", "late map[us:3]", 0, 0},
		{"over ap, which does not", []admin.Edge{e("us", "ap", false), e("ap", "eu", false)}, "no edge carries them to eu", "no edge carries them to us", 4, 3},
	} {
		m.us.SetMesh(nil, c.edges)
		r := m.verify(t, topic("t"))
		want(t, r, Equal, c.us, c.ap)
		var eu, us int64
		for _, o := range r.Origins {
			eu, us = eu+o.Uncarried["eu"], us+o.Uncarried["us"]
		}
		if eu != c.uncarriedEU || us != c.uncarUSA {
			t.Errorf("%s: %d records uncarried to eu, %d to us: %s", c.name, eu, us, describe(r))
		}
	}
}

// A region that was rebuilt gets its earlier life back while it is compared: as long as
// some of it is on its way the two do not hold the same, and waiting waits for it.
func TestEarlierLifeOnItsWayBackIsNotProven(t *testing.T) {
	m := newMesh(t)
	receiveEarlier(m.us, 0, 5)
	receiveEarlier(m.eu, 0, 5)
	receiveEarlier(m.eu, 5, 2)
	want(t, m.verify(t), Unknown, "late map[us:2]", "an earlier life of us that is on its way back to it")
	m.us.SetMesh(nil, []admin.Edge{{Tenant: "public", Namespace: "default", From: "us", To: "eu"}})
	r := m.verify(t)
	if want(t, r, Incomplete); r.Origins[0].Alone["eu"] != 2 {
		t.Errorf("no edge brings them back: %s", describe(r))
	}
	m.us.SetMesh(nil, fullMesh())
	receiveEarlier(m.us, 5, 2)
	want(t, m.verify(t), Equal)
}

func TestForwardingReachesThroughAHub(t *testing.T) {
	e := func(from, to rhumb.RegionName, forward bool) admin.Edge {
		return admin.Edge{Tenant: "public", Namespace: "default", From: from, To: to, Forward: forward}
	}
	m := newMesh(t)
	for _, c := range []struct {
		forward bool
		want    State
	}{{true, Unknown}, {false, Skipped}} {
		m.us.SetMesh(nil, []admin.Edge{e("us", "ap", false), e("ap", "eu", c.forward)})
		publish(m.us, 1)
		r := m.verify(t, topic("t"))
		if len(r.Origins) != 1 || r.Origins[0].State != c.want {
			t.Errorf("forward %v: %s", c.forward, describe(r))
		}
	}
}

func TestCompactedTopicsMayHaveHoles(t *testing.T) {
	m := newMesh(t)
	for _, r := range []*admintest.Region{m.us, m.eu} {
		if _, err := r.CreateTopic(t.Context(), topic("c"), 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
			t.Fatal(err)
		}
	}
	us, eu := m.us.Log("c", 0), m.eu.Log("c", 0)
	us.Publish(codec.PlainRecord{Value: []byte("1")})
	us.Publish(codec.PlainRecord{Value: []byte("2")})
	eu.CopyFrom(us)
	eu.Tamper(func(b []admin.Batch) []admin.Batch { return b[1:] })
	want(t, m.verify(t, topic("c")), Equal, "explained in eu: 1 at [0]: compacted")
}
