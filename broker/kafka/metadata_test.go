package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func TestP106NullMeansAllAndEmptyMeansNone(t *testing.T) { both(t, p106NullMeansAllAndEmptyMeansNone) }

func p106NullMeansAllAndEmptyMeansNone(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	for version, want := range map[int16]int{0: 1, 1: 0, 12: 0} {
		req := metadataRequest()
		req.Version = version
		if resp := ask[*kmsg.MetadataResponse](h.dial(), req); len(resp.Topics) != want || len(resp.Brokers) != 1 {
			t.Errorf("version %d, empty: %d topics, %d brokers", version, len(resp.Topics), len(resp.Brokers))
		}
		if req.Topics = nil; version > 0 {
			if resp := ask[*kmsg.MetadataResponse](h.dial(), req); len(resp.Topics) != 1 {
				t.Errorf("version %d, null: %d topics", version, len(resp.Topics))
			}
		}
	}
}

func TestP105CodesOfMissingAndBadTopics(t *testing.T) {
	h := start(t)
	for name, code := range map[string]int16{"absent": codeUnknownTopicOrPartition, "a b": codeInvalidTopic, "x-partition-3": codeInvalidTopic} {
		req := metadataRequest(name)
		if got := ask[*kmsg.MetadataResponse](h.dial(), req).Topics[0]; got.ErrorCode != code || *got.Topic != name {
			t.Errorf("%q: %+v", name, got)
		}
	}
	req := metadataRequest("absent")
	req.Topics[0].Topic, req.Topics[0].TopicID = nil, [16]byte{7}
	if got := ask[*kmsg.MetadataResponse](h.dial(), req).Topics[0]; got.ErrorCode != codeUnknownTopicID || got.TopicID != [16]byte{7} {
		t.Errorf("%+v", got)
	}
	if len(h.region.Topics()) != 0 {
		t.Error("topics were created though the request said not to")
	}
}

// Names of Kafka's internal topics are not created by the way either: neither by looking for
// them nor by writing to them.
func TestInternalTopicsAreNotCreatedByTheWay(t *testing.T) {
	h := start(t)
	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"} {
		req := metadataRequest(name)
		req.AllowAutoTopicCreation = true
		if got := ask[*kmsg.MetadataResponse](h.dial(), req).Topics[0]; got.ErrorCode != codeInvalidTopic {
			t.Errorf("%q: %+v", name, got)
		}
		if got := ask[*kmsg.MetadataResponse](h.dial(), metadataRequest(name)).Topics[0]; got.ErrorCode != codeUnknownTopicOrPartition {
			t.Errorf("%q without creation: %+v", name, got)
		}
	}
	if all := h.region.Topics(); len(all) != 0 {
		t.Errorf("created: %+v", all)
	}
}

// A topic that Metadata creates can be written at once, with no retry.
func TestP103AutoCreatedTopicIsUsable(t *testing.T) {
	h := start(t, func(b *broker.Config, _ *Config) { b.Partitions = 3 })
	req := metadataRequest("made", "made", "persistent://public/default/made")
	req.AllowAutoTopicCreation = true
	c := h.dial()
	resp := ask[*kmsg.MetadataResponse](c, req)
	if len(resp.Topics) != 2 || resp.Topics[0].TopicID != resp.Topics[1].TopicID || len(resp.Topics[0].Partitions) != 3 {
		t.Fatalf("%+v", resp.Topics)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 || p.Leader != testNode || p.LeaderEpoch < 0 {
			t.Fatalf("%+v", p)
		}
	}
	if p := h.produced("made", 9, oneRecord()); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
}

func TestAutoCreationCanBeOff(t *testing.T) {
	h := start(t, func(b *broker.Config, _ *Config) { b.NoAutoCreate = true })
	req := metadataRequest("made")
	req.AllowAutoTopicCreation = true
	if got := ask[*kmsg.MetadataResponse](h.dial(), req).Topics[0]; got.ErrorCode != codeUnknownTopicOrPartition {
		t.Errorf("%+v", got)
	}
}

func TestEachListenerNamesItsOwnAddress(t *testing.T) {
	s, err := New(Config{Broker: newBroker(t), NodeID: testNode})
	if err != nil {
		t.Fatal(err)
	}
	addrs := map[string]string{"plain": "", "named": "kafka.example:9094", "six": "[2001:db8::1]:0"}
	dials := map[string]string{}
	for name, advertise := range addrs {
		addr, err := s.Listen(Listener{Name: name, Bind: "127.0.0.1:0", Advertise: advertise})
		if err != nil {
			t.Fatal(err)
		}
		dials[name] = addr.String()
	}
	go s.Serve(t.Context())
	defer s.Close()
	for name, want := range map[string]string{"plain": "127.0.0.1", "named": "kafka.example", "six": "2001:db8::1"} {
		h := &harness{TB: t, addr: dials[name]}
		node := ask[*kmsg.MetadataResponse](h.dial(), metadataRequest()).Brokers[0]
		if node.Host != want || node.Port == 0 || name == "named" && node.Port != 9094 {
			t.Errorf("%s: %s:%d", name, node.Host, node.Port)
		}
	}
	for _, bad := range []string{"nohost", "h:x", "h:70000", "::1:9092"} {
		if err := (Listener{Advertise: bad}).Validate(); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func newBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.New(broker.Config{Region: brokertest.New()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCreateTopicsRefusals(t *testing.T) {
	h := start(t, func(b *broker.Config, _ *Config) { b.Policy = onlyDefault{} })
	h.topic("there", 1, nil)
	for name, tc := range map[string]struct {
		change func(*kmsg.CreateTopicsRequestTopic)
		code   int16
	}{
		"fine":         {func(*kmsg.CreateTopicsRequestTopic) {}, 0},
		"zero":         {func(t *kmsg.CreateTopicsRequestTopic) { t.NumPartitions = 0 }, codeInvalidPartitions},
		"many":         {func(t *kmsg.CreateTopicsRequestTopic) { t.NumPartitions = 1 << 30 }, codeInvalidPartitions},
		"replicas":     {func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = 3 }, codeInvalidReplicationFactor},
		"name":         {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = ".." }, codeInvalidTopic},
		"exists":       {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "there" }, codeTopicAlreadyExists},
		"offsets":      {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "__consumer_offsets" }, codeInvalidRequest},
		"transactions": {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "__transaction_state" }, codeInvalidRequest},
		"shares":       {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "persistent://public/default/__share_group_state" }, codeInvalidRequest},
		"quorum":       {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "__cluster_metadata" }, codeInvalidRequest},
		"like one":     {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "__consumer_offsets_" }, 0},
		"policy":       {func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "persistent://a/b/c" }, codePolicyViolation},
		"config":       {func(t *kmsg.CreateTopicsRequestTopic) { t.Configs = config("retention.ms", "soon") }, codeInvalidConfig},
		"config range": {func(t *kmsg.CreateTopicsRequestTopic) { t.Configs = config("max.message.bytes", "-5") }, codeInvalidConfig},
		"config word":  {func(t *kmsg.CreateTopicsRequestTopic) { t.Configs = config("cleanup.policy", "delete,shred") }, codeInvalidConfig},
		"unknown":      {func(t *kmsg.CreateTopicsRequestTopic) { t.Configs = config("min.insync.replicas", "2") }, 0},
		"assigned":     {func(t *kmsg.CreateTopicsRequestTopic) { assign(t, testNode) }, 0},
		"other node":   {func(t *kmsg.CreateTopicsRequestTopic) { assign(t, 5) }, codeInvalidReplicaAssignment},
	} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "new", 2, 1
		tc.change(&topic)
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.ValidateOnly, req.Topics = 7, true, append(req.Topics, topic)
		got := ask[*kmsg.CreateTopicsResponse](h.dial(), req).Topics[0]
		if got.ErrorCode != tc.code || (got.ErrorMessage == nil) != (tc.code == 0) {
			t.Errorf("%s: %+v, want code %d", name, got, tc.code)
		}
	}
	if n := len(h.region.Topics()); n != 1 {
		t.Errorf("validation created topics: %d", n)
	}
}

func config(name, value string) []kmsg.CreateTopicsRequestTopicConfig {
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = name, &value
	return []kmsg.CreateTopicsRequestTopicConfig{c}
}

func assign(t *kmsg.CreateTopicsRequestTopic, node int32) {
	t.NumPartitions, t.ReplicationFactor = -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = []int32{node}
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
}

type onlyDefault struct{}

func (onlyDefault) CheckTopic(t rhumb.Topic) error {
	if t.Tenant != rhumb.DefaultTenant {
		return rhumb.Errorf(rhumb.KindForbidden, "no such tenant")
	}
	return nil
}

func (onlyDefault) CheckProduce(rhumb.Topic) error { return nil }

func (onlyDefault) PartitionLimit(rhumb.Topic) int { return 0 }

func commitRequest(version int16, change func(*kmsg.OffsetCommitRequest)) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = version, "g", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = 3
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	change(req)
	return req
}

func TestOffsetCommitRefusals(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	long := string(make([]byte, broker.MaxCommitMetadata+1))
	for name, tc := range map[string]struct {
		change func(*kmsg.OffsetCommitRequest)
		code   int16
	}{
		"fine":       {func(*kmsg.OffsetCommitRequest) {}, 0},
		"group":      {func(r *kmsg.OffsetCommitRequest) { r.Group = "" }, codeInvalidGroupID},
		"generation": {func(r *kmsg.OffsetCommitRequest) { r.Group, r.Generation = "none", 4 }, codeIllegalGeneration},
		"member":     {func(r *kmsg.OffsetCommitRequest) { r.Group, r.MemberID, r.Generation = "none", "m", 1 }, codeIllegalGeneration},
		"topic":      {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Topic = "absent" }, codeUnknownTopicOrPartition},
		"partition":  {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = 1 }, codeUnknownTopicOrPartition},
		"metadata":   {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = &long }, codeOffsetMetadataTooLarge},
		"negative":   {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Offset = -2 }, codeInvalidRequest},
	} {
		got := ask[*kmsg.OffsetCommitResponse](h.dial(), commitRequest(8, tc.change)).Topics[0].Partitions[0]
		if got.ErrorCode != tc.code {
			t.Errorf("%s: code %d, want %d", name, got.ErrorCode, tc.code)
		}
	}
	byID := commitRequest(10, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].TopicID = [16]byte{3} })
	if got := ask[*kmsg.OffsetCommitResponse](h.dial(), byID).Topics[0]; got.Partitions[0].ErrorCode != codeUnknownTopicID {
		t.Errorf("%+v", got)
	}
}

func TestP26OffsetFetchHasNoNulls(t *testing.T) { both(t, p26OffsetFetchHasNoNulls) }

func p26OffsetFetchHasNoNulls(t *testing.T, h *harness) {
	info := h.topic("t", 2, nil)
	ask[*kmsg.OffsetCommitResponse](h.dial(), commitRequest(8, func(*kmsg.OffsetCommitRequest) {}))
	for version := int16(1); version <= 10; version++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = version, "g"
		old := kmsg.NewOffsetFetchRequestTopic()
		old.Topic, old.Partitions = "t", []int32{0, 1}
		req.Topics = append(req.Topics, old)
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group = "g"
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.TopicID, topic.Partitions = "t", info.ID, []int32{0, 1}
		group.Topics = append(group.Topics, topic)
		req.Groups = append(req.Groups, group)
		resp := ask[*kmsg.OffsetFetchResponse](h.dial(), req)
		var got []kmsg.OffsetFetchResponseGroupTopicPartition
		if version < 8 {
			for _, p := range resp.Topics[0].Partitions {
				got = append(got, kmsg.OffsetFetchResponseGroupTopicPartition{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata})
			}
		} else {
			got = resp.Groups[0].Topics[0].Partitions
		}
		if got[0].Offset != 3 || got[1].Offset != -1 || got[0].Metadata == nil || got[1].Metadata == nil || got[1].LeaderEpoch != -1 {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

// What a handler does in the region fails with the code of its kind.
func TestP90ErrorsOfTheRegionKeepTheirMeaning(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	for kind, code := range map[rhumb.Kind]int16{rhumb.KindNotLeader: codeNotLeaderOrFollower, rhumb.KindUnavailable: codeNotLeaderOrFollower,
		rhumb.KindNoSpace: codeStorageError, rhumb.KindForbidden: codeTopicAuthorizationFailed} {
		h.region.OnAppend(func(rhumb.PartitionRef, broker.AppendRequest) error { return rhumb.Errorf(kind, "told to") })
		if p := h.produced("t", 9, oneRecord()); p.ErrorCode != code || *p.ErrorMessage != "told to" {
			t.Errorf("%v: %+v", kind, p)
		}
	}
	h.region.OnAppend(func(rhumb.PartitionRef, broker.AppendRequest) error { return errors.New("plain") })
	if p := h.produced("t", 9, oneRecord()); p.ErrorCode != codeUnknownServerError {
		t.Errorf("%+v", p)
	}
}
