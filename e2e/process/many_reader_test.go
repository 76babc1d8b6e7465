package process

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// follower reads many topics in one fetch session, and asks in each fetch only for what
// the last one moved: a client library looks at each of its partitions for each fetch, and
// with ten thousand would be what is measured.
type follower struct {
	t       testing.TB
	c       *kgo.Client
	counts  time.Time // records from here on do
	session int32
	epoch   int32
	moved   map[string]int64 // next offset of topics of which the broker does not know it
	lags    lagList
	fetches atomic.Int64
}

// follow makes a follower of the first n topics, from their ends on.
func (m *many) follow(r *Region, n int, counts time.Time) *follower {
	f := &follower{t: m.t, c: Client(m.t, r.Kafka, kgo.MaxVersions(kversion.V2_8_0())), counts: counts, moved: map[string]int64{}}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for i := range n {
		t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		t.Topic, p.Timestamp, p.CurrentLeaderEpoch = manyTopic(i), -1, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	resp, err := f.c.SeedBrokers()[0].RetriableRequest(context.Background(), req)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		f.moved[t.Topic] = t.Partitions[0].Offset
	}
	return f
}

// run fetches, a hundred times a second at most, until ctx ends.
func (f *follower) run(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		resp, err := f.c.SeedBrokers()[0].Request(ctx, f.request())
		if ctx.Err() != nil {
			return
		}
		got, ok := resp.(*kmsg.FetchResponse)
		if err != nil || !ok || got.ErrorCode != 0 {
			f.t.Errorf("a fetch was not answered: %v, %+v", err, got)
			return
		}
		f.fetches.Add(1)
		f.take(got)
	}
}

func (f *follower) request() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionID, req.SessionEpoch = 500, 1, 50<<20, f.session, f.epoch
	for topic, next := range f.moved {
		t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		t.Topic, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = topic, next, -1, 1<<20
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	clear(f.moved)
	return req
}

// take notes how old the records are that came. Their time is in whole milliseconds.
func (f *follower) take(resp *kmsg.FetchResponse) {
	f.session = resp.SessionID
	f.epoch++
	now := time.Now()
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if p.ErrorCode != 0 {
				f.t.Errorf("%s: error %d", resp.Topics[i].Topic, p.ErrorCode)
				continue
			}
			for rest := p.RecordBatches; len(rest) > 0; {
				h, err := codec.ParseBatch(rest)
				if err != nil {
					break // the last one may be cut
				}
				rest = rest[h.Size:]
				f.moved[resp.Topics[i].Topic] = int64(h.LastOffset() + rhumb.Offset(1))
				for n := range int64(h.Count) { // of several they came evenly, a second apart
					at := h.FirstTimestamp + (h.MaxTimestamp-h.FirstTimestamp)*n/max(1, int64(h.Count)-1)
					if at >= f.counts.UnixMilli() {
						f.lags.add(now.Sub(time.UnixMilli(at)))
					}
				}
			}
		}
	}
}
