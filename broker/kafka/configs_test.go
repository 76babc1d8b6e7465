package kafka

import (
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/brokertest"
)

const (
	ofTopic  = kmsg.ConfigResourceTypeTopic
	ofBroker = kmsg.ConfigResourceTypeBroker
)

// op is one change of IncrementalAlterConfigs; no value is null.
type op struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string
}

func (h *harness) incremental(validate bool, kind kmsg.ConfigResourceType, name string, ops ...op) kmsg.IncrementalAlterConfigsResponseResource {
	h.Helper()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, o := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = o.name, o.op
		if o.value != "" {
			c.Value = &o.value
		}
		r.Configs = append(r.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly, req.Resources = 1, validate, append(req.Resources, r)
	return ask[*kmsg.IncrementalAlterConfigsResponse](h.dial(), req).Resources[0]
}

func (h *harness) alter(kind kmsg.ConfigResourceType, name string, ops ...op) {
	h.Helper()
	if r := h.incremental(false, kind, name, ops...); r.ErrorCode != 0 {
		h.Fatalf("%v: code %d, %s", ops, r.ErrorCode, *r.ErrorMessage)
	}
}

// described gives the settings of a resource by name.
func (h *harness) described(kind kmsg.ConfigResourceType, name string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	h.Helper()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation, req.Resources = 4, true, true, append(req.Resources, r)
	got := ask[*kmsg.DescribeConfigsResponse](h.dial(), req).Resources[0]
	if got.ErrorCode != 0 {
		h.Fatalf("describe %v %q: code %d, %s", kind, name, got.ErrorCode, *got.ErrorMessage)
	}
	out := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range got.Configs {
		out[c.Name] = c
	}
	return out
}

// The answers are those of Kafka 4.3 to the same requests, but where there is
// nothing that could be set.
func TestIncrementalAlterAnswersAsKafka(t *testing.T) { both(t, incrementalAlterAnswersAsKafka) }

func incrementalAlterAnswersAsKafka(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	node := strconv.Itoa(testNode)
	for _, tc := range []struct {
		kind kmsg.ConfigResourceType
		name string
		ops  []op
		code int16
		text string
	}{
		{ofTopic, "t", []op{{"retention.ms", 0, "2000"}}, 0, ""},
		{ofTopic, "t", nil, 0, ""},
		{ofTopic, "t", []op{{"retention.ms", 0, ""}}, codeInvalidRequest, "Null value not supported for : retention.ms"},
		{ofTopic, "t", []op{{"retention.ms", 0, "x"}}, codeInvalidConfig, "Invalid value x for configuration retention.ms: Not a number of type LONG"},
		{ofTopic, "t", []op{{"no.such", 0, "x"}}, codeInvalidConfig, "Unknown topic config name: no.such"},
		{ofTopic, "t", []op{{"no.such", 1, ""}, {"flush.ms", 1, ""}}, 0, ""},
		{ofTopic, "t", []op{{"cleanup.policy", 2, "compact"}}, 0, ""},
		{ofTopic, "t", []op{{"cleanup.policy", 2, "compact"}}, 0, ""},
		{ofTopic, "t", []op{{"retention.ms", 2, "1"}}, codeInvalidConfig, "Can't APPEND to key retention.ms because its type is not LIST."},
		{ofTopic, "t", []op{{"no.such", 3, "1"}}, codeInvalidConfig, "Can't SUBTRACT to key no.such because its type is not LIST."},
		{ofTopic, "t", []op{{"cleanup.policy", 2, ""}}, codeInvalidRequest, "Null value not supported for : cleanup.policy"},
		{ofTopic, "t", []op{{"cleanup.policy", 2, "shred"}}, codeInvalidConfig, "Invalid value delete,compact,shred for configuration cleanup.policy: String must be one of: compact, delete"},
		{ofTopic, "t", []op{{"retention.ms", 0, "1"}, {"retention.ms", 1, ""}}, codeInvalidRequest, "Error due to duplicate config keys"},
		{ofTopic, "absent", []op{{"retention.ms", 0, "1"}}, codeUnknownTopicOrPartition, "The topic 'absent' does not exist."},
		{ofTopic, "a b", []op{{"retention.ms", 0, "1"}}, codeInvalidTopic, ""},
		{ofTopic, "", []op{{"retention.ms", 0, "1"}}, codeInvalidRequest, "Default topic resources are not allowed."},
		{ofBroker, node, []op{{"num.partitions", 0, "2"}}, codeInvalidRequest, "Cannot update these configs dynamically: [num.partitions]"},
		{ofBroker, node, []op{{"message.max.bytes", 0, "x"}}, codeInvalidRequest, "Invalid value x for configuration message.max.bytes: Not a number of type INT"},
		{ofBroker, node, []op{{"num.partitions", 1, ""}}, 0, ""},
		{ofBroker, node, []op{{"log.cleanup.policy", 2, "compact"}}, 0, ""},
		{ofBroker, node, []op{{"log.cleanup.policy", 1, ""}}, 0, ""},
		{ofBroker, "7", nil, codeInvalidRequest, "Unexpected broker id, expected 1001 or empty string, but received 7"},
		{ofBroker, "x", nil, codeInvalidRequest, "Broker id must be an integer, but it is: x"},
		{1, "x", []op{{"a", 0, "b"}}, codeInvalidRequest, "Unknown resource type 1"},
		{kmsg.ConfigResourceTypeGroupConfig, "g", nil, codeInvalidConfig, ""},
		{kmsg.ConfigResourceTypeClientMetrics, "m", nil, codeInvalidRequest, ""},
		{kmsg.ConfigResourceTypeBrokerLogger, node, nil, codeInvalidRequest, ""},
	} {
		r := h.incremental(false, tc.kind, tc.name, tc.ops...)
		if r.ErrorCode != tc.code || (r.ErrorMessage == nil) != (tc.code == 0) || tc.text != "" && *r.ErrorMessage != tc.text {
			t.Errorf("%v %q %v: code %d, %v; want %d, %q", tc.kind, tc.name, tc.ops, r.ErrorCode, deref(r.ErrorMessage), tc.code, tc.text)
		}
	}
	if got := h.described(ofTopic, "t"); *got["cleanup.policy"].Value != "delete,compact" || *got["retention.ms"].Value != "2000" {
		t.Errorf("%+v", got["cleanup.policy"])
	}
	h.alter(ofTopic, "t", op{"cleanup.policy", 3, "delete"}, op{"retention.ms", 1, ""})
	got := h.described(ofTopic, "t")
	if *got["cleanup.policy"].Value != "compact" || got["retention.ms"].Source != kmsg.ConfigSourceDefaultConfig || *got["retention.ms"].Value != "604800000" {
		t.Errorf("%+v %+v", got["cleanup.policy"], got["retention.ms"])
	}
	if h.incremental(true, ofTopic, "t", op{"retention.ms", 0, "5"}); h.described(ofTopic, "t")["retention.ms"].Source != kmsg.ConfigSourceDefaultConfig {
		t.Error("a change that was only to be checked was made")
	}
}

func deref(s *string) string {
	if s == nil {
		return "no message"
	}
	return *s
}

// AlterConfigs, which kafkajs sends, replaces all that a topic says.
func TestAlterConfigsReplaces(t *testing.T) { both(t, alterConfigsReplaces) }

func alterConfigsReplaces(t *testing.T, h *harness) {
	h.topic("t", 1, map[string]string{"retention.ms": "7", "flush.ms": "9"})
	send := func(validate bool, name string, pairs ...string) kmsg.AlterConfigsResponseResource {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = ofTopic, name
		for i := 0; i < len(pairs); i += 2 {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name = pairs[i]
			if pairs[i+1] != "" {
				c.Value = &pairs[i+1]
			}
			r.Configs = append(r.Configs, c)
		}
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Version, req.ValidateOnly, req.Resources = 1, validate, append(req.Resources, r)
		return ask[*kmsg.AlterConfigsResponse](h.dial(), req).Resources[0]
	}
	for _, tc := range []struct {
		name  string
		pairs []string
		code  int16
	}{
		{"t", []string{"max.message.bytes", "1000"}, 0},
		{"t", []string{"retention.ms", ""}, codeInvalidRequest},
		{"t", []string{"no.such", "1"}, codeInvalidConfig},
		{"t", []string{"retention.ms", "1", "retention.ms", "2"}, codeInvalidRequest},
		{"absent", []string{"retention.ms", "1"}, codeUnknownTopicOrPartition},
	} {
		if r := send(false, tc.name, tc.pairs...); r.ErrorCode != tc.code {
			t.Errorf("%s %v: code %d %s, want %d", tc.name, tc.pairs, r.ErrorCode, deref(r.ErrorMessage), tc.code)
		}
	}
	send(true, "t", "segment.ms", "7")
	info, _ := h.broker.Topic(mustTopic(t, "t"))
	if len(info.Configs) != 1 || info.Configs["max.message.bytes"] != "1000" {
		t.Errorf("the topic says %v", info.Configs)
	}
}

// What holds is seen with where it comes from, and counts for the next batch.
func TestSettingsOfNodesHoldForTopicsThatDoNotSay(t *testing.T) {
	both(t, settingsOfNodesHoldForTopicsThatDoNotSay)
}

func settingsOfNodesHoldForTopicsThatDoNotSay(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	large := brokertest.Batch{Times: []int64{1}, Value: make([]byte, 5000)}
	size := len(large.Bytes())
	node := strconv.Itoa(testNode)
	for _, step := range []struct {
		kind   kmsg.ConfigResourceType
		name   string
		op     op
		fits   bool
		source kmsg.ConfigSource
		layers int
	}{
		{ofBroker, "", op{"message.max.bytes", 0, "1000"}, false, kmsg.ConfigSourceDynamicDefaultBrokerConfig, 2},
		{ofBroker, node, op{"message.max.bytes", 0, strconv.Itoa(size)}, true, kmsg.ConfigSourceDynamicBrokerConfig, 3},
		{ofTopic, "t", op{"max.message.bytes", 0, strconv.Itoa(size - 1)}, false, kmsg.ConfigSourceDynamicTopicConfig, 4},
		{ofTopic, "t", op{"max.message.bytes", 1, ""}, true, kmsg.ConfigSourceDynamicBrokerConfig, 3},
		{ofBroker, node, op{"message.max.bytes", 1, ""}, false, kmsg.ConfigSourceDynamicDefaultBrokerConfig, 2},
		{ofBroker, "", op{"message.max.bytes", 1, ""}, true, kmsg.ConfigSourceDefaultConfig, 1},
	} {
		h.alter(step.kind, step.name, step.op)
		if p := h.produced("t", 9, large.Bytes()); (p.ErrorCode == 0) != step.fits || !step.fits && p.ErrorCode != codeMessageTooLarge {
			t.Errorf("%+v: code %d", step, p.ErrorCode)
		}
		c := h.described(ofTopic, "t")["max.message.bytes"]
		if c.Source != step.source || len(c.ConfigSynonyms) != step.layers || c.ConfigType != kmsg.ConfigTypeInt || c.Documentation == nil ||
			*c.Value != *c.ConfigSynonyms[0].Value {
			t.Errorf("%+v: %+v", step, c)
		}
	}
	h.alter(ofBroker, "", op{"log.message.timestamp.type", 0, "LogAppendTime"}, op{"log.cleanup.policy", 0, "compact"})
	if p := h.produced("t", 9, oneRecord()); p.ErrorCode != 0 || p.LogAppendTime < 1e12 {
		t.Errorf("%+v", p)
	}
	if p := h.produced("t", 9, brokertest.Batch{Times: []int64{1}, NoKeys: true}.Bytes()); p.ErrorCode != codeInvalidRecord {
		t.Errorf("%+v", p)
	}
	if all := h.described(ofBroker, ""); len(all) != 2 || *all["log.cleanup.policy"].Value != "compact" {
		t.Errorf("all nodes: %v", all)
	}
}

func TestDescribeConfigsOfNodes(t *testing.T) {
	h := start(t)
	got := h.described(ofBroker, strconv.Itoa(testNode))
	for name, want := range map[string]string{"node.id": "1001", "num.partitions": "1", "default.replication.factor": "1", "message.max.bytes": "1048588",
		"auto.create.topics.enable": "true", "log.retention.hours": "168", "broker.rack": "us", "log.dirs": "memory", "log.cleanup.policy": "delete",
		"remote.log.storage.system.enable": "false"} {
		c, ok := got[name]
		if !ok || c.Value == nil || *c.Value != want {
			t.Errorf("%s is %s, want %s", name, deref(c.Value), want)
		}
	}
	if c := got["log.retention.ms"]; c.Value != nil || c.ReadOnly || c.ConfigType != kmsg.ConfigTypeLong {
		t.Errorf("%+v", c)
	}
	if c := got["advertised.listeners"]; !strings.HasPrefix(deref(c.Value), "PLAINTEXT://127.0.0.1:") || !c.ReadOnly {
		t.Errorf("%+v", c)
	}
	if c := h.described(kmsg.ConfigResourceTypeBrokerLogger, strconv.Itoa(testNode))["root"]; *c.Value != "INFO" {
		t.Errorf("%+v", c)
	}
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics} {
		if got := h.described(kind, "x"); len(got) != 0 {
			t.Errorf("kind %v: %v", kind, got)
		}
	}
}

// Every kind of resource that a request names twice is refused, and nothing of it
// is done.
func TestResourcesNamedTwice(t *testing.T) {
	h := start(t)
	h.topic("t", 1, nil)
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = ofTopic, "t"
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "retention.ms", ptr("5")
	r.Configs = append(r.Configs, c)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r, r)
	for _, got := range ask[*kmsg.IncrementalAlterConfigsResponse](h.dial(), req).Resources {
		if got.ErrorCode != codeInvalidRequest {
			t.Errorf("%+v", got)
		}
	}
	if info, _ := h.broker.Topic(mustTopic(t, "t")); len(info.Configs) != 0 {
		t.Errorf("%v", info.Configs)
	}
}
