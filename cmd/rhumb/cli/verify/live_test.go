package verify

import (
	"fmt"
	"math"
	"testing"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
)

// real is a real region of one node, on a disk in memory, behind a real API.
type real struct {
	t      *testing.T
	number rhumb.RegionNumber
	region *region.Region
	client *client.Client
}

func startReal(t *testing.T, name rhumb.RegionName, number rhumb.RegionNumber) *real {
	t.Helper()
	r := brokertest.Real(t, func(_ *storage.Config, c *region.Config) { c.Name, c.Number = name, number })
	b, err := broker.New(broker.Config{Region: r})
	if err != nil {
		t.Fatal(err)
	}
	cfg := admintest.New(name, number).Config() // for the mesh around it
	live := admin.Live{Region: r, Broker: b}
	cfg.Topics, cfg.Logs, cfg.Data = live, live, live
	cfg.Edges = func() []admin.Edge { return fullMesh() }
	cfg.Regions = func() []admin.RegionEntry {
		return []admin.RegionEntry{{Name: "us", Number: 1}, {Name: "eu", Number: 2}}
	}
	return &real{t, number, r, serve(t, cfg)}
}

func (r *real) ref() rhumb.PartitionRef {
	info, _ := r.region.Topic(topic("t"))
	return info.Partitions[0].Ref
}

func (r *real) produce(n int) {
	r.t.Helper()
	req := api.ProduceRequest{}
	for i := range n {
		req.Records = append(req.Records, api.ProduceRecord{Key: api.Bytes("k"), Value: fmt.Appendf(nil, "%d", i)})
	}
	if _, err := r.client.Produce(r.t.Context(), topic("t"), req); err != nil {
		r.t.Fatal(err)
	}
}

// copyFrom does what a link does, batch by batch, then skips to the end.
func (r *real) copyFrom(from *real) {
	r.t.Helper()
	st, _ := from.region.State(from.ref())
	w, err := r.region.OpenOrigin(r.t.Context(), r.ref(), from.number, st.Life)
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan region.LinkResult, 1)
	settle := func(res region.LinkResult) {
		if res.Err != nil || res.Verdict != dedup.Accept {
			r.t.Fatalf("%v %v", res.Verdict, res.Err)
		}
		w = res.Watermark
	}
	batches, err := from.region.ReadOrigin(from.ref(), region.OriginQuery{Region: from.number, Life: st.Life, From: w.Offset + 1,
		Limit: math.MaxInt64, MaxBytes: math.MaxInt})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, b := range batches {
		r.region.AppendLink(r.ref(), region.LinkBatch{Envelope: b.Envelope, Batch: append([]byte(nil), b.Batch...)},
			func(res region.LinkResult) { done <- res })
		settle(<-done)
	}
	if w.Offset < st.End-1 {
		r.region.SkipLink(r.ref(), region.LinkSkip{Region: from.number, Life: st.Life,
			Skip: dedup.Skip{From: w.Offset, To: st.End - 1, Chain: w.Chain, Reason: rhumb.ReasonForeign}},
			func(res region.LinkResult) { done <- res })
		settle(<-done)
	}
}

func (r *real) deleteRecords(before rhumb.Offset) {
	r.t.Helper()
	if _, err := r.region.DeleteRecords(r.t.Context(), r.ref(), before); err != nil {
		r.t.Fatal(err)
	}
}

// TestRealRegions holds what verify and the API expect against real regions:
// watermarks, floors, chains and reads.
func TestRealRegions(t *testing.T) {
	us, eu := startReal(t, "us", 1), startReal(t, "eu", 2)
	for _, r := range []*real{us, eu} {
		if _, err := r.client.CreateTopic(t.Context(), api.TopicSpec{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(state State, lines ...string) {
		t.Helper()
		r, err := Run(t.Context(), Options{A: Client(us.client), B: Client(eu.client)})
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, state, lines...)
	}
	check(Equal)
	us.produce(3)
	us.produce(2)
	check(Unknown, "nothing of it has reached eu yet")
	eu.copyFrom(us)
	eu.produce(4)
	us.copyFrom(eu)
	us.produce(5)
	check(Equal, "origin us equal", "late map[eu:5]", "records 5", "origin eu equal", "records 4")
	eu.copyFrom(us)
	check(Equal, "compared 0-13 records 10")
	eu.deleteRecords(5) // us's first two batches
	us.produce(1)
	eu.copyFrom(us)
	check(Equal, "origin us equal", "explained in eu: ", "retention")
	us.deleteRecords(8)
	check(Equal, "origin us equal", "origin eu equal")

	read, err := eu.client.Consume(t.Context(), client.ConsumeQuery{Topic: topic("t"), From: "earliest", Max: 100})
	if err != nil || len(read.Records) != 10 || read.Records[9].Origin.RegionName != "us" || read.Records[0].Origin.RegionName != "eu" {
		t.Errorf("%d records, %v: %+v", len(read.Records), err, read.Records)
	}
}
