package kafka

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
)

func mustTopic(t testing.TB, name string) rhumb.Topic {
	t.Helper()
	topic, err := rhumb.ParseTopic(name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// ref finds partition 0 of a topic.
func (h *harness) ref(topic string) rhumb.PartitionRef {
	h.Helper()
	info, ok := h.region.Topic(mustTopic(h.TB, topic))
	if !ok {
		h.Fatalf("no topic %s", topic)
	}
	return info.Partitions[0].Ref
}

// append stores batches in partition 0.
func (h *harness) append(topic string, batches ...brokertest.Batch) {
	h.Helper()
	for _, b := range batches {
		resp := ask[*kmsg.ProduceResponse](h.dial(), produceRequestOf(topic, -1, b.Bytes()))
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 {
			h.Fatalf("append: code %d, %s", p.ErrorCode, *p.ErrorMessage)
		}
	}
}

func fetchRequest(topic string, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, 5000, 1, 1<<20
	req.SessionEpoch = sessionless
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = offset, 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (c *rawConn) fetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	c.h.Helper()
	return ask[*kmsg.FetchResponse](c, req)
}

// The response that is written by hand reads, at each version, as what the
// codec writes.
func TestFetchResponseIsWhatTheCodecWrites(t *testing.T) {
	batch := oneRecord()
	state := broker.PartitionState{LogStart: 3, End: 9}
	id := [16]byte{1, 2}
	for v := int16(4); v <= 18; v++ {
		a := fetchAnswer{version: v, session: 77}
		want := kmsg.NewPtrFetchResponse()
		want.Version = v
		want.SessionID = 77
		for i, topic := range []string{"a", "b"} {
			wt := kmsg.NewFetchResponseTopic()
			wt.Topic, wt.TopicID = topic, id
			for p := range int32(3) {
				answer := broker.FetchAnswer{State: state, Batches: []broker.Stored{{Batch: batch}, {Batch: batch}}, Bytes: 2 * len(batch)}
				if p == int32(i) {
					answer.Batches, answer.Bytes = nil, 0
				}
				key := partKey{topic: topic, partition: p, id: id}
				a.parts = append(a.parts, fetchPart{part: &sessionPart{key: key}, answer: &answer, code: int16(p)})
				wp := kmsg.NewFetchResponseTopicPartition()
				wp.Partition, wp.ErrorCode, wp.HighWatermark, wp.LastStableOffset, wp.LogStartOffset = p, int16(p), 9, 9, 3
				wp.AbortedTransactions, wp.PreferredReadReplica = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}, -1
				wp.RecordBatches = bytes.Repeat(batch, len(answer.Batches))
				if wp.RecordBatches == nil {
					wp.RecordBatches = []byte{}
				}
				wt.Partitions = append(wt.Partitions, wp)
			}
			want.Topics = append(want.Topics, wt)
		}
		bufs, _ := encodeFetch(a)
		if got := bytes.Join(bufs, nil); !bytes.Equal(got, want.AppendTo(nil)) {
			t.Errorf("version %d:\n%x\n%x", v, got, want.AppendTo(nil))
		}
	}
}

func TestP80MinBytesAndMaxWait(t *testing.T) { both(t, p80MinBytesAndMaxWait) }

func p80MinBytesAndMaxWait(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.append("t", brokertest.Batch{Times: []int64{1}})
	c := h.dial()
	req := fetchRequest("t", 0)
	req.MinBytes, req.MaxWaitMillis = 1000, 50
	began := time.Now()
	if resp := c.fetch(req); len(resp.Topics[0].Partitions[0].RecordBatches) == 0 || time.Since(began) < 50*time.Millisecond {
		t.Fatalf("answered after %v", time.Since(began))
	}
	req.MaxWaitMillis = 60_000
	id := c.send(req)
	big := brokertest.Batch{Times: []int64{1}, Value: make([]byte, 1000)}
	h.append("t", big)
	resp := decodeAnswer[*kmsg.FetchResponse](c, req, c.receive(id))
	if n := len(resp.Topics[0].Partitions[0].RecordBatches); n < 1000 {
		t.Fatalf("%d bytes", n)
	}
}

func TestP81LimitsHoldExceptForTheFirstBatch(t *testing.T) {
	both(t, p81LimitsHoldExceptForTheFirstBatch)
}

func p81LimitsHoldExceptForTheFirstBatch(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.topic("u", 1, nil)
	batch := brokertest.Batch{Times: []int64{1}, Value: make([]byte, 1000)}
	h.append("t", batch, batch, batch)
	h.append("u", batch)
	size := len(batch.Bytes()) // the store counts its envelope, too, so limits have some room below
	for _, tc := range []struct{ max, part, wantT, wantU int }{
		{1, 1 << 20, 1, 0},
		{1 << 20, 1, 1, 0},
		{2*size + 200, 1 << 20, 2, 0},
		{1 << 20, 2*size + 200, 2, 1},
		{4 * size, 1 << 20, 3, 1},
	} {
		req := fetchRequest("t", 0)
		req.Topics = append(req.Topics, fetchRequest("u", 0).Topics...)
		req.MaxBytes = int32(tc.max)
		req.Topics[0].Partitions[0].PartitionMaxBytes = int32(tc.part)
		req.Topics[1].Partitions[0].PartitionMaxBytes = int32(tc.part)
		resp := h.dial().fetch(req)
		gotT, gotU := len(resp.Topics[0].Partitions[0].RecordBatches), len(resp.Topics[1].Partitions[0].RecordBatches)
		if gotT != tc.wantT*size || gotU != tc.wantU*size {
			t.Errorf("max %d, partition %d: %d and %d bytes, want %d and %d batches", tc.max, tc.part, gotT, gotU, tc.wantT, tc.wantU)
		}
	}
}

func TestP126EmptyRecordsAreNotNull(t *testing.T) { both(t, p126EmptyRecordsAreNotNull) }

func p126EmptyRecordsAreNotNull(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	req := fetchRequest("t", 0)
	req.MaxWaitMillis, req.IsolationLevel = 1, 1
	p := h.dial().fetch(req).Topics[0].Partitions[0]
	if p.RecordBatches == nil || p.ErrorCode != 0 || p.HighWatermark != 0 || p.LastStableOffset != 0 {
		t.Fatalf("%+v", p)
	}
}

func TestP86SessionAnswersNameOnlyWhatChanged(t *testing.T) {
	both(t, p86SessionAnswersNameOnlyWhatChanged)
}

func p86SessionAnswersNameOnlyWhatChanged(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	h.topic("u", 1, nil)
	c := h.dial()
	req := fetchRequest("t", 0)
	req.Topics = append(req.Topics, fetchRequest("u", 0).Topics...)
	req.SessionEpoch, req.MaxWaitMillis = sessionInitial, 1
	first := c.fetch(req)
	if first.SessionID == 0 || len(first.Topics) != 2 {
		t.Fatalf("%+v", first)
	}
	next := kmsg.NewPtrFetchRequest()
	next.Version, next.MaxWaitMillis, next.MinBytes, next.MaxBytes = 12, 1, 1, 1<<20
	next.SessionID, next.SessionEpoch = first.SessionID, 1
	if resp := c.fetch(next); len(resp.Topics) != 0 || resp.ErrorCode != 0 {
		t.Fatalf("nothing changed: %+v", resp)
	}
	h.append("u", brokertest.Batch{Times: []int64{1}})
	next.SessionEpoch++
	if resp := c.fetch(next); len(resp.Topics) != 1 || resp.Topics[0].Topic != "u" || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("u has a record: %+v", resp)
	}
	next.SessionEpoch = 9
	if resp := c.fetch(next); resp.ErrorCode != codeInvalidFetchSessionEpoch {
		t.Fatalf("%+v", resp)
	}
	next.SessionEpoch, next.Version = 3, 13
	if resp := c.fetch(next); resp.ErrorCode != codeFetchSessionTopicIDError {
		t.Fatalf("%+v", resp)
	}
	next.Version = 12
	next.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "u", Partitions: []int32{0}}}
	if resp := c.fetch(next); len(resp.Topics) != 0 {
		t.Fatalf("u is forgotten: %+v", resp)
	}
	next.SessionEpoch, next.ForgottenTopics = sessionless, nil // closes
	c.fetch(next)
	next.SessionEpoch = 4
	if resp := c.fetch(next); resp.ErrorCode != codeFetchSessionNotFound {
		t.Fatalf("%+v", resp)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	h := start(t, func(_ *broker.Config, c *Config) { c.MaxSessions = 2 })
	h.topic("t", 1, nil)
	c := h.dial()
	req := fetchRequest("t", 0)
	req.SessionEpoch, req.MaxWaitMillis = sessionInitial, 1
	oldest := c.fetch(req).SessionID
	c.fetch(req)
	c.fetch(req)
	req.SessionID, req.SessionEpoch, req.Topics = oldest, 1, nil
	if resp := c.fetch(req); resp.ErrorCode != codeFetchSessionNotFound {
		t.Fatalf("%+v", resp)
	}
	if n := len(h.sessionIDs()); n != 2 {
		t.Fatalf("%d sessions", n)
	}
}

func TestP88RecreatedTopicInASession(t *testing.T) { both(t, p88RecreatedTopicInASession) }

func p88RecreatedTopicInASession(t *testing.T, h *harness) {
	info := h.topic("t", 1, nil)
	c := h.dial()
	req := fetchRequest("", 0)
	req.Version, req.SessionEpoch, req.Topics[0].TopicID = 13, sessionInitial, info.ID
	req.MaxWaitMillis = 60_000
	id := c.send(req)
	waitFor(t, "the session", func() bool { return len(h.sessionIDs()) == 1 })
	if err := h.broker.DeleteTopic(h.ctx(), info); err != nil { // under the fetch: P91
		t.Fatal(err)
	}
	h.topic("t", 1, nil)
	resp := decodeAnswer[*kmsg.FetchResponse](c, req, c.receive(id))
	if p := resp.Topics[0]; p.TopicID != info.ID || p.Partitions[0].ErrorCode != codeUnknownTopicID {
		t.Fatalf("%+v", resp)
	}
	req.SessionID, req.SessionEpoch, req.Topics = resp.SessionID, 1, nil
	resp = c.fetch(req)
	if p := resp.Topics[0]; p.TopicID != info.ID || p.Partitions[0].ErrorCode != codeUnknownTopicID {
		t.Fatalf("%+v", resp)
	}
}

func (h *harness) sessionIDs() []int32 {
	s := h.server.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []int32
	for id := range s.byID {
		ids = append(ids, id)
	}
	return ids
}

func TestP98AndP101EpochAndRange(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.append("t", brokertest.Batch{Times: []int64{1, 2, 3}})
	h.region.NextEpoch()
	for _, tc := range []struct {
		offset int64
		epoch  int32
		code   int16
	}{
		{0, -1, 0}, {0, 2, 0}, {0, 1, codeFencedLeaderEpoch}, {0, 3, codeUnknownLeaderEpoch},
		{4, -1, codeOffsetOutOfRange}, {4, 1, codeOffsetOutOfRange}, {-1, -1, codeOffsetOutOfRange},
	} {
		req := fetchRequest("t", tc.offset)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = tc.epoch
		p := h.dial().fetch(req).Topics[0].Partitions[0]
		if p.ErrorCode != tc.code || p.HighWatermark != 3 || p.LogStartOffset != 0 {
			t.Errorf("offset %d epoch %d: %+v", tc.offset, tc.epoch, p)
		}
	}
	if p := h.dial().fetch(fetchRequest("absent", 0)).Topics[0].Partitions[0]; p.ErrorCode != codeUnknownTopicOrPartition {
		t.Errorf("%+v", p)
	}
}

// One consumer of 1500 partitions gets something of each, though a fetch holds
// only a few.
func TestP85AllOfManyPartitionsMakeProgress(t *testing.T) {
	h := start(t)
	const n = 1500
	info := h.topic("t", n, nil)
	batch := brokertest.Batch{Times: []int64{1}, Value: make([]byte, 100)}
	items := make([]broker.AppendItem, n)
	for i := range items {
		items[i] = broker.AppendItem{Topic: &info, Partition: int32(i), Records: batch.Bytes()}
	}
	h.broker.Append(items, func(error) {})
	req := fetchRequest("t", 0)
	req.SessionEpoch, req.MaxBytes = sessionInitial, int32(100*len(batch.Bytes()))
	p := req.Topics[0].Partitions[0]
	req.Topics[0].Partitions = nil
	for i := range int32(n) {
		p.Partition = i
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	c := h.dial()
	seen := map[int32]bool{}
	for round := range int32(15) {
		resp := c.fetch(req)
		req.SessionID, req.SessionEpoch, req.Topics = resp.SessionID, round+1, nil
		for _, part := range resp.Topics[0].Partitions {
			if len(part.RecordBatches) > 0 {
				seen[part.Partition] = true
			}
		}
	}
	if len(seen) != n {
		t.Fatalf("%d of %d partitions were served", len(seen), n)
	}
}

// Readers that fetch one large batch and take nothing in hold it once between them, whoever
// they are and however much they ask for: the others wait, and get it when the first are
// gone. A small batch goes by the reserve meanwhile.
func TestP83LargeBatchIsHeldOnce(t *testing.T) {
	const size = 12 << 20
	r := brokertest.Real(t, func(c *storage.Config, _ *region.Config) { c.TailCache = -1 })
	h := (&harness{TB: t}).serve(r, func(_ *broker.Config, c *Config) { c.FetchBudget, c.FetchMaxBytes = 8<<20, 4<<20 })
	h.topic("large", 1, map[string]string{"max.message.bytes": "16777216"})
	h.topic("small", 1, nil)
	h.append("large", brokertest.Batch{Times: []int64{1}, Value: make([]byte, size)})
	h.append("small", brokertest.Batch{Times: []int64{1}, Value: make([]byte, 1000)})
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var mute []*rawConn
	for range 12 {
		c := h.dial()
		for range 3 { // the first of them may be answered from the file
			c.send(fetchRequest("large", 0))
		}
		mute = append(mute, c)
	}
	waitFor(t, "fetches that wait", func() bool {
		h.server.fetches.mu.Lock()
		defer h.server.fetches.mu.Unlock()
		return len(h.server.fetches.large) >= len(mute)-1
	})
	runtime.ReadMemStats(&during)
	if got := during.TotalAlloc - before.TotalAlloc; got > 5*size {
		t.Errorf("%d mute readers of a batch of %d bytes have %d bytes", len(mute), size, got)
	}
	c := h.dial()
	if p := c.fetch(fetchRequest("small", 0)).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("beside them: code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	for _, m := range mute {
		m.nc.Close()
	}
	if p := c.fetch(fetchRequest("large", 0)).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) < size {
		t.Errorf("after them: code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	waitFor(t, "everything given back", func() bool { return left(h.server.fetches) == 8<<20 })
}

// What all fetches together hold is bounded: a fetch that finds nothing free
// waits for those that are being sent, and none is refused.
func TestP83FetchesShareABudget(t *testing.T) {
	h := start(t, func(_ *broker.Config, c *Config) { c.FetchBudget, c.FetchMaxBytes = 4096, 4096 })
	h.topic("t", 1, nil)
	batch := brokertest.Batch{Times: []int64{1}, Value: make([]byte, 1000)}
	h.append("t", batch, batch, batch, batch, batch, batch)
	if err := h.server.fetches.Acquire(h.ctx(), 4096); err != nil { // as a client that reads slowly
		t.Fatal(err)
	}
	c := h.dial()
	least := decodeAnswer[*kmsg.FetchResponse](c, fetchRequest("t", 0), c.receive(c.send(fetchRequest("t", 0))))
	if p := least.Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Fatalf("beside one who reads slowly: code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	waitFor(t, "the reserve back", func() bool { return left(h.server.spare) == broker.ReserveShare })
	if err := h.server.spare.Acquire(h.ctx(), broker.ReserveShare); err != nil { // as many of them
		t.Fatal(err)
	}
	var waiting []*rawConn
	req := fetchRequest("t", 0)
	for range 20 {
		c := h.dial()
		c.send(req)
		waiting = append(waiting, c)
	}
	waitFor(t, "fetches that wait", func() bool {
		h.server.spare.mu.Lock()
		defer h.server.spare.mu.Unlock()
		return len(h.server.spare.large) == len(waiting)
	})
	h.server.spare.Release(broker.ReserveShare)
	h.server.fetches.Release(4096)
	for _, c := range waiting {
		p := decodeAnswer[*kmsg.FetchResponse](c, req, c.receive(1)).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || len(p.RecordBatches) == 0 || len(p.RecordBatches) > 4096 {
			t.Fatalf("code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
		}
	}
	waitFor(t, "everything given back", func() bool { return h.server.fetches.TryAcquire(4096) })
}
