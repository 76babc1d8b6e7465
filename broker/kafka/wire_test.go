package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
)

// waitFor polls a condition that another goroutine makes true soon.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 120_000 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatalf("never: %s", what)
}

func produceRequestOf(topic string, acks int16, batches ...[]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func oneRecord() []byte { return brokertest.Batch{Times: []int64{1000}}.Bytes() }

func metadataRequest(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

func TestP153UnknownApiVersionsVersionIsAnswered(t *testing.T) {
	h := start(t)
	c := h.dial()
	b := make([]byte, 4)
	b = binary.BigEndian.AppendUint16(b, uint16(apiVersionsKey))
	b = binary.BigEndian.AppendUint16(b, 99)
	b = binary.BigEndian.AppendUint32(b, 7)
	b = append(b, 0, 1, 'x', 0, 3, 'a', 'b', 0) // what version 99 may look like
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	c.write(b)
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(c.receive(7)); err != nil || resp.ErrorCode != codeUnsupportedVersion || len(resp.ApiKeys) != len(apis) {
		t.Fatalf("%+v, %v", resp, err)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "a", "1"
	if resp := ask[*kmsg.ApiVersionsResponse](c, req); resp.ErrorCode != 0 {
		t.Fatalf("the connection does not go on: %+v", resp)
	}
	req.ClientSoftwareName = "-bad"
	if resp := ask[*kmsg.ApiVersionsResponse](c, req); resp.ErrorCode != codeInvalidRequest {
		t.Fatalf("bad software name: %+v", resp)
	}
}

// Every API answers every version that it advertises with exactly the fields of
// that version: what the codec reads is as long as what came.
func TestP155EveryApiAtEveryVersion(t *testing.T) { both(t, p155EveryApiAtEveryVersion) }

func p155EveryApiAtEveryVersion(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	for _, a := range offered() {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			fill(h, req)
			ask[kmsg.Response](h.dial(), req)
		}
	}
}

// fill gives a request some content, so that arrays of answers are not empty.
func fill(h *harness, req kmsg.Request) {
	info, _ := h.broker.Topic(mustTopic(h.TB, "t"))
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		v := r.Version
		*r = *produceRequestOf("t", -1, oneRecord())
		r.Version, r.Topics[0].TopicID = v, info.ID
	case *kmsg.FetchRequest:
		v := r.Version
		*r = *fetchRequest("t", 0)
		r.Version, r.MaxWaitMillis, r.Topics[0].TopicID = v, 1, info.ID
	case *kmsg.MetadataRequest:
		r.Topics = nil
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "a", "1"
	case *kmsg.OffsetFetchRequest:
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = "g"
		r.Group, r.Groups = "g", []kmsg.OffsetFetchRequestGroup{g}
	case *kmsg.OffsetCommitRequest:
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = "t", info.ID
		topic.Partitions = append(topic.Partitions, p)
		r.Group, r.Generation, r.Topics = "g", -1, []kmsg.OffsetCommitRequestTopic{topic}
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g"}
	case *kmsg.JoinGroupRequest:
		*r = *joinRequest(fmt.Sprint("filled-", r.Version), "", r.Version)
	case *kmsg.SyncGroupRequest:
		r.Group, r.MemberID, r.Generation = "g", "nobody", 1
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: "nobody", MemberAssignment: []byte{1}})
	case *kmsg.HeartbeatRequest:
		r.Group, r.MemberID, r.Generation = "g", "nobody", 1
	case *kmsg.LeaveGroupRequest:
		r.Group, r.MemberID, r.Members = "g", "nobody", []kmsg.LeaveGroupRequestMember{{MemberID: "nobody", InstanceID: ptr("i")}}
	case *kmsg.DescribeGroupsRequest:
		r.Groups, r.IncludeAuthorizedOperations = []string{"g", "filled-3", "missing"}, true
	case *kmsg.DeleteGroupsRequest:
		r.Groups = []string{"g", "missing", ""}
	case *kmsg.OffsetDeleteRequest:
		r.Group = "g"
		r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 9}}}, {Topic: "missing"}}
	default:
		fillAdmin(req)
	}
}

func TestUnknownApiOrVersionClosesTheConnection(t *testing.T) {
	h := start(t)
	for _, req := range []kmsg.Request{kmsg.NewPtrAddPartitionsToTxnRequest(),
		&kmsg.ProduceRequest{Version: 2}, &kmsg.FetchRequest{Version: 3}, &kmsg.MetadataRequest{Version: 14}} {
		c := h.dial()
		c.send(req)
		c.closed()
	}
}

func TestI9GarbageOnThePortHurtsNobody(t *testing.T) {
	h := start(t)
	good := h.dial()
	ask[*kmsg.MetadataResponse](good, metadataRequest())
	began := time.Now()
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "SSH-2.0-x\r\n", "\x00\x00\x00\x01x",
		"\xff\xff\xff\xff", "\x00\x00\x00\x10\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff"} {
		c := h.dial()
		c.write([]byte(garbage))
		c.closed()
	}
	ask[*kmsg.MetadataResponse](good, metadataRequest())
	most := 1 + int(time.Since(began)/time.Second) // a line a second
	if n := strings.Count(h.log.String(), "connection closed"); n < 1 || n > most {
		t.Errorf("%d lines, want 1 to %d:\n%s", n, most, h.log)
	}
	if !strings.Contains(h.log.String(), "http") {
		t.Errorf("the line does not name http:\n%s", h.log)
	}
}

// Only the head of each request is sent: the server must not wait for the rest,
// or make room for it.
func TestI9LengthIsCheckedBeforeRoomIsMade(t *testing.T) {
	h := start(t)
	for _, head := range [][]byte{
		{0x06, 0x40, 0x00, 0x01, 0, 0, 0, 9}, // Produce, 100 MiB + 1
		{0x00, 0x10, 0x00, 0x01, 0, 3, 0, 9}, // Metadata, 1 MiB + 1
	} {
		c := h.dial()
		c.write(head)
		c.closed()
	}
	c := h.dial()
	c.write([]byte{0x06, 0x3f, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1}) // Produce of nearly 100 MiB, which never comes
	waitFor(t, "first room", func() bool { return h.held() > 0 })
	if held := h.held(); held > firstRead {
		t.Fatalf("%d bytes are held for a request that did not come", held)
	}
	c.nc.Close()
	waitFor(t, "everything given back", func() bool { return h.held() == 0 })
}

func (h *harness) held() int64 {
	b := h.server.requests
	b.mu.Lock()
	defer b.mu.Unlock()
	return DefaultRequestBudget - b.free
}

func TestP51AnswersLeaveInOrder(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.region.Hold()
	c := h.dial()
	slow := produceRequestOf("t", -1, oneRecord())
	first, second := c.send(slow), c.send(metadataRequest("t"))
	waitFor(t, "the append", func() bool { return h.held() > 0 })
	h.region.Free()
	if resp := decodeAnswer[*kmsg.ProduceResponse](c, slow, c.receive(first)); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	c.receive(second)
}

func TestP53AcksZeroHasNoAnswer(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.region.Hold() // not even stored yet
	c := h.dial()
	c.send(produceRequestOf("t", 0, oneRecord()))
	ask[*kmsg.MetadataResponse](c, metadataRequest("t"))
	h.region.Free()
	waitFor(t, "everything given back", func() bool { return h.held() == 0 })
	c.send(produceRequestOf("absent", 0, oneRecord()))
	c.closed()
	c = h.dial()
	bad := oneRecord()
	bad[len(bad)-1]++ // the CRC is wrong
	c.send(produceRequestOf("t", 0, bad))
	c.closed()
}

// A fetch that waits holds up nobody, and what comes behind it on its own
// connection takes place.
func TestSlowFetchHoldsNobodyUp(t *testing.T) { both(t, slowFetchHoldsNobodyUp) }

func slowFetchHoldsNobodyUp(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	c := h.dial()
	long := fetchRequest("t", 0)
	long.MaxWaitMillis = 60_000
	first := c.send(long)
	ask[*kmsg.MetadataResponse](h.dial(), metadataRequest("t"))
	second := c.send(produceRequestOf("t", 1, oneRecord()))
	if n := len(decodeAnswer[*kmsg.FetchResponse](c, long, c.receive(first)).Topics[0].Partitions[0].RecordBatches); n != len(oneRecord()) {
		t.Fatalf("%d bytes fetched", n)
	}
	c.receive(second)
}

func TestP55TimeoutAndSuccessRace(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	c := h.dial()
	for range 200 {
		h.region.Hold()
		req := produceRequestOf("t", -1, oneRecord())
		req.TimeoutMillis = 1
		id := c.send(req)
		waitFor(t, "the append", func() bool { return h.held() > 0 })
		go h.region.Free()
		code := decodeAnswer[*kmsg.ProduceResponse](c, req, c.receive(id)).Topics[0].Partitions[0].ErrorCode
		if code != codeNone && code != codeRequestTimedOut {
			t.Fatalf("code %d", code)
		}
		waitFor(t, "everything given back", func() bool { return h.held() == 0 })
	}
}

func TestShutdownFinishesWhatIsInFlight(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.region.Hold()
	poll, write := h.dial(), h.dial()
	long := fetchRequest("t", 5000) // out of range would answer: fetch at the end instead
	long.Topics[0].Partitions[0].FetchOffset = 0
	long.MaxWaitMillis, long.MinBytes = 60_000, 1<<20
	waiting := poll.send(long)
	req := produceRequestOf("t", -1, oneRecord())
	id := write.send(req)
	waitFor(t, "the append", func() bool { s, _ := h.region.State(h.ref("t")); return s.End == 1 })
	waitFor(t, "both are in flight", func() bool { return h.inFlight() == 2 })
	done := make(chan error, 1)
	go func() { done <- h.server.Shutdown(h.ctx()) }()
	poll.receive(waiting)
	poll.closed()
	if _, err := net.Dial("tcp", h.addr); err == nil {
		t.Error("the listener is still open")
	}
	h.region.Free()
	if decodeAnswer[*kmsg.ProduceResponse](write, req, write.receive(id)).Topics[0].Partitions[0].ErrorCode != 0 {
		t.Error("the produce in flight failed")
	}
	write.closed()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// inFlight counts the connections that have a request without an answer.
func (h *harness) inFlight() (n int) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	for c := range h.server.open {
		if len(c.out.slots) > 0 {
			n++
		}
	}
	return n
}

func TestShutdownGivesUpWhenTold(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	h.region.Hold()
	c := h.dial()
	c.send(produceRequestOf("t", -1, oneRecord()))
	waitFor(t, "the append", func() bool { return h.held() > 0 })
	ctx, cancel := context.WithCancel(h.ctx())
	cancel()
	if err := h.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v", err)
	}
	c.closed()
	h.region.Free()
	waitFor(t, "everything given back", func() bool { return h.held() == 0 })
}

func TestTooManyConnectionsAreClosed(t *testing.T) {
	h := start(t, func(_ *broker.Config, c *Config) { c.MaxConnections = 1 })
	first := h.dial()
	ask[*kmsg.MetadataResponse](first, metadataRequest())
	h.dial().closed()
	ask[*kmsg.MetadataResponse](first, metadataRequest())
}
