package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
)

func newTopic(name string, partitions int32) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, -1
	return t
}

func (h *harness) create(validate bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	h.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.ValidateOnly, req.Topics = 7, validate, topics
	return ask[*kmsg.CreateTopicsResponse](h.dial(), req).Topics
}

// replica is an assignment: a partition and its nodes.
func replica(partition int32, nodes ...int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = partition, nodes
	return a
}

// Codes and texts are those of Kafka 4.3, which its tools print.
func TestManualAssignments(t *testing.T) {
	h := start(t)
	for _, tc := range []struct {
		text     string
		count    int32
		replicas int16
		assigned []kmsg.CreateTopicsRequestTopicReplicaAssignment
	}{
		{"", -1, -1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(1, testNode), replica(0, testNode)}},
		{"A manual partition assignment was specified, but numPartitions was not set to -1.", 1, -1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(0, testNode)}},
		{"A manual partition assignment was specified, but replication factor was not set to -1.", -1, 1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(0, testNode)}},
		{"The manual partition assignment includes broker 77, but no such broker is registered.", -1, -1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(0, 77)}},
		{"partitions should be a consecutive 0-based integer sequence", -1, -1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(0, testNode), replica(2, testNode)}},
		{"Found multiple manual partition assignments for partition 0", -1, -1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(0, testNode), replica(0, testNode)}},
		{"The manual partition assignment includes the broker 1001 more than once.", -1, -1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(0, testNode, testNode)}},
		{"The manual partition assignment includes an empty replica list.", -1, -1, []kmsg.CreateTopicsRequestTopicReplicaAssignment{replica(0)}},
	} {
		topic := newTopic("assigned", tc.count)
		topic.ReplicationFactor, topic.ReplicaAssignment = tc.replicas, tc.assigned
		got := h.create(true, topic)[0]
		if tc.text == "" && (got.ErrorCode != 0 || got.NumPartitions != 2) || tc.text != "" && deref(got.ErrorMessage) != tc.text {
			t.Errorf("code %d, %s; want %q", got.ErrorCode, deref(got.ErrorMessage), tc.text)
		}
	}
}

// gathered is a region whose deletions end when so many are under way.
type gathered struct {
	*brokertest.Region
	want int64
	have atomic.Int64
	all  chan struct{}
}

func (g *gathered) DeleteTopic(ctx context.Context, t rhumb.Topic, count uint64) error {
	if g.have.Add(1) == g.want {
		close(g.all)
	}
	select {
	case <-g.all:
		return g.Region.DeleteTopic(ctx, t, count)
	case <-ctx.Done():
		return rhumb.Errorf(rhumb.KindTimeout, "%w", context.Cause(ctx))
	}
}

// The topics of one request are deleted at the same time, in answers of their order. What
// has not begun when its time is over is not begun.
func TestTopicsOfARequestAreDeletedTogether(t *testing.T) {
	const topics = 100
	g := &gathered{Region: brokertest.New(), want: topics, all: make(chan struct{})}
	h := (&harness{TB: t, region: g.Region}).serve(g)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 30_000
	for i := range topics {
		name := fmt.Sprint("t", i)
		h.topic(name, 1, nil)
		req.TopicNames = append(req.TopicNames, name)
	}
	got := ask[*kmsg.DeleteTopicsResponse](h.dial(), req).Topics
	for i, topic := range got {
		if *topic.Topic != req.TopicNames[i] || topic.ErrorCode != 0 {
			t.Errorf("%d: %s, code %d", i, *topic.Topic, topic.ErrorCode)
		}
	}
	if len(got) != topics || len(g.Topics()) != 0 {
		t.Errorf("%d answers, %d topics left", len(got), len(g.Topics()))
	}

	g.want, g.all, req.TimeoutMillis, req.TopicNames = -1, make(chan struct{}), 50, nil
	g.have.Store(0)
	for i := range 2 * maxTogether {
		name := fmt.Sprint("u", i)
		h.topic(name, 1, nil)
		req.TopicNames = append(req.TopicNames, name)
	}
	for i, topic := range ask[*kmsg.DeleteTopicsResponse](h.dial(), req).Topics {
		if topic.ErrorCode != codeRequestTimedOut {
			t.Errorf("%d: code %d", i, topic.ErrorCode)
		}
	}
	if begun := g.have.Load(); begun > maxTogether {
		t.Errorf("%d deletions were begun, those above %d after the request's time", begun, maxTogether)
	}
}

// A name that a request has twice is answered once, with an error; what stands
// beside it is done.
func TestNamesThatStandTwice(t *testing.T) { both(t, namesThatStandTwice) }

func namesThatStandTwice(t *testing.T, h *harness) {
	got := h.create(false, newTopic("twice", 1), newTopic("once", -1), newTopic("twice", 1))
	if len(got) != 2 || got[0].ErrorCode != codeInvalidRequest || *got[0].ErrorMessage != "Duplicate topic name." || got[1].ErrorCode != 0 ||
		got[1].NumPartitions != 1 || got[1].ReplicationFactor != 1 || len(got[1].Configs) < 30 {
		t.Fatalf("%+v", got)
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version = 3
	one := kmsg.NewCreatePartitionsRequestTopic()
	one.Topic, one.Count = "once", 2
	grow.Topics = append(grow.Topics, one, one)
	if got := ask[*kmsg.CreatePartitionsResponse](h.dial(), grow).Topics; len(got) != 1 || got[0].ErrorCode != codeInvalidRequest {
		t.Errorf("%+v", got)
	}
	byName := func(name string) kmsg.DeleteTopicsRequestTopic {
		d := kmsg.NewDeleteTopicsRequestTopic()
		d.Topic = &name
		return d
	}
	both, zero, absent := byName("once"), kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
	both.TopicID, absent.TopicID = [16]byte{1}, [16]byte{2}
	for _, tc := range []struct {
		topics []kmsg.DeleteTopicsRequestTopic
		code   int16
	}{
		{[]kmsg.DeleteTopicsRequestTopic{byName("once"), byName("once")}, codeInvalidRequest},
		{[]kmsg.DeleteTopicsRequestTopic{absent, absent}, codeInvalidRequest},
		{[]kmsg.DeleteTopicsRequestTopic{both}, codeInvalidRequest},
		{[]kmsg.DeleteTopicsRequestTopic{zero}, codeInvalidRequest},
		{[]kmsg.DeleteTopicsRequestTopic{absent}, codeUnknownTopicID},
		{[]kmsg.DeleteTopicsRequestTopic{byName("absent")}, codeUnknownTopicOrPartition},
		{[]kmsg.DeleteTopicsRequestTopic{byName("once")}, 0},
	} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.Topics = 6, tc.topics
		if got := ask[*kmsg.DeleteTopicsResponse](h.dial(), req).Topics; len(got) != 1 || got[0].ErrorCode != tc.code || (got[0].ErrorMessage == nil) != (tc.code == 0) {
			t.Errorf("%+v: %+v, want code %d", tc.topics, got, tc.code)
		}
	}
	byID := kmsg.NewDeleteTopicsRequestTopic()
	byID.TopicID = h.create(false, newTopic("again", 1))[0].TopicID
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.Topics = 6, []kmsg.DeleteTopicsRequestTopic{byName("again"), byID}
	if got := ask[*kmsg.DeleteTopicsResponse](h.dial(), req).Topics; len(got) != 2 || got[0].ErrorCode != 0 || got[1].ErrorCode != codeInvalidRequest {
		t.Errorf("by name and by id: %+v", got)
	}
}

// A topic grows from 2 to 4 partitions: the numbers go on, and the new ones can be
// used at once.
func TestP163PartitionsGrow(t *testing.T) { both(t, p163PartitionsGrow) }

func p163PartitionsGrow(t *testing.T, h *harness) {
	h.topic("t", 2, nil)
	for _, tc := range []struct {
		count    int32
		assigned [][]int32
		code     int16
		text     string
	}{
		{2, nil, codeInvalidPartitions, "Topic already has 2 partition(s)."},
		{1, nil, codeInvalidPartitions, "The topic t currently has 2 partition(s); 1 would not be an increase."},
		{1 << 30, nil, codeInvalidPartitions, ""},
		{4, [][]int32{}, codeInvalidReplicaAssignment, "Attempted to add 2 additional partition(s), but only 0 assignment(s) were specified."},
		{4, [][]int32{{testNode}}, codeInvalidReplicaAssignment, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
		{4, [][]int32{{testNode}, {9}}, codeInvalidReplicaAssignment, "The manual partition assignment includes broker 9, but no such broker is registered."},
		{4, [][]int32{{testNode}, {testNode}}, 0, ""},
	} {
		ask1 := kmsg.NewCreatePartitionsRequestTopic()
		ask1.Topic, ask1.Count = "t", tc.count
		if tc.assigned != nil {
			ask1.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
		}
		for _, nodes := range tc.assigned {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = nodes
			ask1.Assignment = append(ask1.Assignment, a)
		}
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.Topics = 3, append(req.Topics, ask1)
		got := ask[*kmsg.CreatePartitionsResponse](h.dial(), req).Topics[0]
		if got.ErrorCode != tc.code || tc.text != "" && deref(got.ErrorMessage) != tc.text {
			t.Errorf("%+v: code %d, %s", tc, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	parts := ask[*kmsg.MetadataResponse](h.dial(), metadataRequest("t")).Topics[0].Partitions
	for i, p := range parts {
		if p.Partition != int32(i) || p.ErrorCode != 0 {
			t.Errorf("%+v", p)
		}
	}
	if p := h.producedTo("t", 3, oneRecord()); len(parts) != 4 || p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("%d partitions, %+v", len(parts), p)
	}
}

// producedTo produces a batch to one partition.
func (h *harness) producedTo(topic string, partition int32, batch []byte) kmsg.ProduceResponseTopicPartition {
	h.Helper()
	req := produceRequestOf(topic, -1, batch)
	req.Topics[0].Partitions[0].Partition = partition
	return ask[*kmsg.ProduceResponse](h.dial(), req).Topics[0].Partitions[0]
}

// The region's partitions are bounded, whoever makes them: no client can make
// topics without end by asking for them.
func TestPartitionsOfTheRegionAreBounded(t *testing.T) {
	h := startReal(t, func(_ *storage.Config, c *region.Config) { c.PartitionLimit = 5 })
	if got := h.create(false, newTopic("a", 4))[0]; got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	for _, validate := range []bool{true, false} {
		if got := h.create(validate, newTopic("b", 2))[0]; got.ErrorCode != codePolicyViolation {
			t.Errorf("%d, %s", got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	meta := metadataRequest("c", "d", "e")
	meta.AllowAutoTopicCreation = true
	codes := map[int16]int{}
	for _, topic := range ask[*kmsg.MetadataResponse](h.dial(), meta).Topics {
		codes[topic.ErrorCode]++
	}
	if codes[0] != 1 || codes[codePolicyViolation] != 2 {
		t.Errorf("codes of three topics for which there is room once: %v", codes)
	}
	if resp, err := h.admin().DeleteTopics(h.ctx(), "a"); err != nil || resp.Error() != nil {
		t.Fatal(resp, err)
	}
	if got := h.create(false, newTopic("b", 4))[0]; got.ErrorCode != 0 {
		t.Errorf("after a deletion: %+v", got)
	}
}

// A topic that is deleted and made again at once, under its producers, is another
// one each time: nothing of the old one is read, and producers go on.
func TestRecreatedAtOnce(t *testing.T) { both(t, recreatedAtOnce) }

func recreatedAtOnce(t *testing.T, h *harness) {
	seen := map[[16]byte]bool{}
	for round := range 10 {
		topic := newTopic("t", 2)
		topic.Configs = config("retention.ms", strconv.Itoa(100000+round))
		got := h.create(false, topic)[0]
		if got.ErrorCode != 0 || seen[got.TopicID] {
			t.Fatalf("round %d: %+v", round, got)
		}
		seen[got.TopicID] = true
		if p := h.produced("t", 9, brokertest.Batch{Times: []int64{1}, Idempotent: true, Producer: 9, Sequence: int32(round * 7)}.Bytes()); p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Fatalf("round %d: %+v", round, p)
		}
		if c := h.described(ofTopic, "t")["retention.ms"]; *c.Value != strconv.Itoa(100000+round) {
			t.Fatalf("round %d: %+v", round, c)
		}
		if resp, err := h.admin().DeleteTopics(h.ctx(), "t"); err != nil || resp.Error() != nil {
			t.Fatal(resp, err)
		}
	}
}

// Many administrators at once: each change is made, and none undoes another.
func TestChangesAtTheSameTimeAllCount(t *testing.T) {
	h := startReal(t)
	h.topic("t", 1, nil)
	settings := []string{"retention.ms", "retention.bytes", "max.message.bytes", "segment.ms", "flush.ms", "flush.messages", "file.delete.delay.ms", "min.insync.replicas"}
	var all sync.WaitGroup
	for i, name := range settings {
		all.Go(func() { h.alter(ofTopic, "t", op{name, 0, strconv.Itoa(1000 + i)}) })
		all.Go(func() { h.alter(ofBroker, "", op{"log.retention.ms", 0, strconv.Itoa(5000 + i)}) })
	}
	all.Wait()
	info, _ := h.broker.Topic(mustTopic(t, "t"))
	for i, name := range settings {
		if info.Configs[name] != strconv.Itoa(1000+i) {
			t.Errorf("%s is %q", name, info.Configs[name])
		}
	}
}

// A topic that is compacted only keeps its records: Kafka refuses, too.
func TestP165DeleteRecordsNeedsThePolicy(t *testing.T) { both(t, p165DeleteRecordsNeedsThePolicy) }

func p165DeleteRecordsNeedsThePolicy(t *testing.T, h *harness) {
	h.topic("kept", 1, map[string]string{"cleanup.policy": "compact"})
	h.topic("both", 1, map[string]string{"cleanup.policy": "compact,delete"})
	for topic, code := range map[string]int16{"kept": codePolicyViolation, "both": 0, "absent": codeUnknownTopicOrPartition} {
		h.produced(topic, 9, oneRecord())
		for _, at := range []int64{-1, -2, 7} {
			want := code
			if code == 0 && at != -1 {
				want = codeOffsetOutOfRange
			}
			if code == codePolicyViolation && at != -1 {
				continue
			}
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.Version = 2
			t1 := kmsg.NewDeleteRecordsRequestTopic()
			t1.Topic = topic
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Offset = at
			t1.Partitions = append(t1.Partitions, p)
			req.Topics = append(req.Topics, t1)
			got := ask[*kmsg.DeleteRecordsResponse](h.dial(), req).Topics[0].Partitions[0]
			if got.ErrorCode != want || (got.ErrorCode == 0) != (got.LowWatermark == 1) {
				t.Errorf("%s to %d: %+v, want code %d", topic, at, got, want)
			}
		}
	}
}

// Sizes on disk and the producers that a partition knows are real figures.
func TestDescribeLogDirsAndProducers(t *testing.T) { both(t, describeLogDirsAndProducers) }

func describeLogDirsAndProducers(t *testing.T, h *harness) {
	h.topic("t", 2, nil)
	value := make([]byte, 4000)
	for i := range int32(3) {
		h.append("t", brokertest.Batch{Times: []int64{1, 2}, Value: value, Idempotent: true, Producer: 77, Epoch: 2, Sequence: 2 * i})
	}
	dirs := func(topics ...kmsg.DescribeLogDirsRequestTopic) kmsg.DescribeLogDirsResponseDir {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version, req.Topics = 4, topics
		return ask[*kmsg.DescribeLogDirsResponse](h.dial(), req).Dirs[0]
	}
	all := dirs()
	if len(all.Topics) != 1 || len(all.Topics[0].Partitions) != 2 || all.Dir == "" || all.TotalBytes <= all.UsableBytes || all.UsableBytes <= 0 {
		t.Fatalf("%+v", all)
	}
	if size := all.Topics[0].Partitions[0].Size; size < 24000 || size > 30000 || all.Topics[0].Partitions[1].Size != 0 {
		t.Errorf("sizes %+v", all.Topics[0].Partitions)
	}
	some := kmsg.NewDescribeLogDirsRequestTopic()
	some.Topic, some.Partitions = "t", []int32{0, 99}
	absent := kmsg.NewDescribeLogDirsRequestTopic()
	absent.Topic = "absent"
	if got := dirs(some, absent); len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
		t.Errorf("%+v", got)
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	for name, parts := range map[string][]int32{"t": {0, 1, 9}, "absent": {0}} {
		ask1 := kmsg.NewDescribeProducersRequestTopic()
		ask1.Topic, ask1.Partitions = name, parts
		req.Topics = append(req.Topics, ask1)
	}
	for _, topic := range ask[*kmsg.DescribeProducersResponse](h.dial(), req).Topics {
		for _, p := range topic.Partitions {
			there := topic.Topic == "t" && p.Partition < 2
			if (p.ErrorCode == 0) != there || !there && p.ErrorCode != codeUnknownTopicOrPartition {
				t.Errorf("%s %+v", topic.Topic, p)
			}
			if known := p.ActiveProducers; there && p.Partition == 0 && (len(known) != 1 || known[0].ProducerID != 77 || known[0].ProducerEpoch != 2 ||
				known[0].LastSequence != 5 || known[0].LastTimestamp < 1e12 || known[0].CurrentTxnStartOffset != -1) || p.Partition == 1 && len(known) != 0 {
				t.Errorf("%+v", p)
			}
		}
	}
}

// Pages of every size give each partition once, in the order of names.
func TestDescribeTopicPartitionsPages(t *testing.T) { both(t, describeTopicPartitionsPages) }

func describeTopicPartitionsPages(t *testing.T, h *harness) {
	var want []string
	for name, n := range map[string]int32{"b": 5, "a": 3, "d": 1, "c": 4} {
		h.topic(name, n, nil)
		for i := range n {
			want = append(want, fmt.Sprint(name, i))
		}
	}
	slices.Sort(want)
	for _, limit := range []int32{-1, 1, 2, 3, 4, 13, 5000} {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		var got []string
		for range 20 {
			resp := ask[*kmsg.DescribeTopicPartitionsResponse](h.dial(), req)
			for _, topic := range resp.Topics {
				for _, p := range topic.Partitions {
					got = append(got, fmt.Sprint(*topic.Topic, p.Partition))
					if p.ErrorCode != 0 || p.LeaderID != testNode || len(p.ISR) != 1 || topic.AuthorizedOperations != topicOperations {
						t.Errorf("%+v", topic)
					}
				}
			}
			if resp.NextCursor == nil {
				break
			}
			next := kmsg.NewDescribeTopicPartitionsRequestCursor()
			next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
			req.Cursor = &next
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
}

func TestDescribeTopicPartitionsRefusals(t *testing.T) {
	h := start(t)
	h.topic("t", 6, nil)
	for _, tc := range []struct {
		cursor    string
		partition int32
		code      int16
		parts     int
	}{
		{"t", 2, 0, 2}, {"t", 99, 0, 0}, {"a", 0, codeInvalidRequest, 0}, {"u", 0, codeInvalidRequest, 0}, {"t", -1, codeInvalidRequest, 0},
	} {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		named := kmsg.NewDescribeTopicPartitionsRequestTopic()
		named.Topic = "t"
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = tc.cursor, tc.partition
		req.Topics, req.Cursor, req.ResponsePartitionLimit = append(req.Topics, named, named), &cursor, 2
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](h.dial(), req)
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != tc.code || len(resp.Topics[0].Partitions) != tc.parts {
			t.Errorf("%+v: %+v", tc, resp.Topics)
		}
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range []string{"absent", "a b"} {
		named := kmsg.NewDescribeTopicPartitionsRequestTopic()
		named.Topic = name
		req.Topics = append(req.Topics, named)
	}
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](h.dial(), req)
	if resp.Topics[0].ErrorCode != codeInvalidTopic || resp.Topics[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Errorf("%+v", resp.Topics)
	}
}

// What only a region's own placement decides is answered, and changes nothing.
func TestPlacementIsTheRegionsBusiness(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version = 2
	if got := ask[*kmsg.ElectLeadersResponse](h.dial(), elect); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("%+v", got)
	}
	one := kmsg.NewElectLeadersRequestTopic()
	one.Topic, one.Partitions = "t", []int32{0, 7}
	elect.Topics = append(elect.Topics, one)
	got := ask[*kmsg.ElectLeadersResponse](h.dial(), elect).Topics[0].Partitions
	if got[0].ErrorCode != codeElectionNotNeeded || got[1].ErrorCode != codeUnknownTopicOrPartition || got[0].ErrorMessage == nil {
		t.Errorf("%+v", got)
	}
	elect.ElectionType = 7
	if got := ask[*kmsg.ElectLeadersResponse](h.dial(), elect); got.ErrorCode != codeInvalidRequest {
		t.Errorf("%+v", got)
	}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = "t"
	for _, nodes := range [][]int32{{testNode}, {5}, nil} {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Replicas = nodes
		topic.Partitions = append(topic.Partitions, p)
	}
	move.Topics = append(move.Topics, topic)
	moved := ask[*kmsg.AlterPartitionAssignmentsResponse](h.dial(), move).Topics[0].Partitions
	if moved[0].ErrorCode != 0 || moved[1].ErrorCode != codeInvalidReplicaAssignment || moved[2].ErrorCode != codeNoReassignmentInProgress {
		t.Errorf("%+v", moved)
	}
	if got := ask[*kmsg.ListPartitionReassignmentsResponse](h.dial(), kmsg.NewPtrListPartitionReassignmentsRequest()); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("%+v", got)
	}
	list := kmsg.NewPtrListConfigResourcesRequest()
	if got := ask[*kmsg.ListConfigResourcesResponse](h.dial(), list); len(got.ConfigResources) != 0 {
		t.Errorf("version 0: %+v", got)
	}
	list.Version = 1
	if got := ask[*kmsg.ListConfigResourcesResponse](h.dial(), list); len(got.ConfigResources) != 3 {
		t.Errorf("%+v", got)
	}
	list.ResourceTypes = []int8{2, 2}
	if got := ask[*kmsg.ListConfigResourcesResponse](h.dial(), list); len(got.ConfigResources) != 1 || got.ConfigResources[0].Name != "t" {
		t.Errorf("%+v", got)
	}
	list.ResourceTypes = []int8{99}
	if got := ask[*kmsg.ListConfigResourcesResponse](h.dial(), list); got.ErrorCode != codeUnsupportedVersion {
		t.Errorf("%+v", got)
	}
}

func TestAuthorizedOperationsAreGivenIfAsked(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	for _, asked := range []bool{false, true} {
		meta := metadataRequest("t")
		meta.Version, meta.IncludeTopicAuthorizedOperations, meta.IncludeClusterAuthorizedOperations = 8, asked, asked
		cluster := kmsg.NewPtrDescribeClusterRequest()
		cluster.IncludeClusterAuthorizedOperations = asked
		m, c := ask[*kmsg.MetadataResponse](h.dial(), meta), ask[*kmsg.DescribeClusterResponse](h.dial(), cluster)
		want := [3]int32{notGiven, notGiven, notGiven}
		if asked {
			want = [3]int32{3576, 8096, 8096} // as Kafka answers without an authorizer
		}
		if got := [3]int32{m.Topics[0].AuthorizedOperations, m.AuthorizedOperations, c.ClusterAuthorizedOperations}; got != want {
			t.Errorf("asked %v: %v", asked, got)
		}
	}
}

// Administration as the client library does it, on both regions.
func TestFranzAltersAndMeasures(t *testing.T) { both(t, franzAltersAndMeasures) }

func franzAltersAndMeasures(t *testing.T, h *harness) {
	adm := h.admin()
	if _, err := adm.CreateTopic(h.ctx(), -1, -1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(h.ctx(), 1, 1, nil, "t-partition-0"); !errors.Is(err, kerr.InvalidTopicException) {
		t.Errorf("a name that native clients take for a partition: %v", err)
	}
	altered, err := adm.AlterTopicConfigs(h.ctx(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: ptr("12345")}}, "t")
	if err != nil || altered[0].Err != nil {
		t.Fatal(altered, err)
	}
	if c := h.described(ofTopic, "t")["retention.ms"]; *c.Value != "12345" {
		t.Errorf("%+v", c)
	}
	if err := h.client(kgo.DefaultProduceTopic("t")).ProduceSync(h.ctx(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	dirs, err := adm.DescribeAllLogDirs(h.ctx(), nil)
	size := int64(0)
	dirs.Each(func(d kadm.DescribedLogDir) { size += d.Size() })
	if err != nil || size == 0 {
		t.Fatalf("%d bytes, %v", size, err)
	}
}

// twoPartitions is a namespace with a limit.
type twoPartitions struct{ onlyDefault }

func (twoPartitions) PartitionLimit(rhumb.Topic) int { return 2 }

// Kafka's tools print the message of a policy violation.
func TestNamespaceLimitIsAPolicyViolation(t *testing.T) {
	h := start(t, func(b *broker.Config, _ *Config) { b.Policy = twoPartitions{} })
	h.topic("t", 1, nil)
	for _, validate := range []bool{true, false} {
		if got := h.create(validate, newTopic("more", 2))[0]; got.ErrorCode != codePolicyViolation || !strings.Contains(*got.ErrorMessage, "limits.partitions") {
			t.Errorf("create: %+v", got)
		}
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Version, grow.ValidateOnly = 3, validate
		one := kmsg.NewCreatePartitionsRequestTopic()
		one.Topic, one.Count = "t", 3
		grow.Topics = append(grow.Topics, one)
		if got := ask[*kmsg.CreatePartitionsResponse](h.dial(), grow).Topics[0]; got.ErrorCode != codePolicyViolation {
			t.Errorf("grow: %+v", got)
		}
	}
}
