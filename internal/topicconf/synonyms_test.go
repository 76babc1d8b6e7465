package topicconf

import (
	"slices"
	"testing"
)

// Kafka lists log.retention.hours behind log.retention.ms, for nodes and topics, if the
// latter is set, and not at all if it is not.
func TestRetentionHoursAreASynonym(t *testing.T) {
	hours := Value{"log.retention.hours", "168", FromDefault}
	set := Layers{Topic: map[string]string{RetentionMs: "5"}, Region: map[string]string{"log.retention.ms": "7"}}
	ofNodes, ofTopic := Value{"log.retention.ms", "7", FromRegion}, Value{RetentionMs, "5", FromTopic}
	if got := set.NodeAll(Node("log.retention.ms")); !slices.Equal(got, []Value{ofNodes, hours}) {
		t.Errorf("node: %v", got)
	}
	if got := set.All(Topic(RetentionMs)); !slices.Equal(got, []Value{ofTopic, ofNodes, hours}) {
		t.Errorf("topic: %v", got)
	}
	if got := (Layers{}).NodeAll(Node("log.retention.ms")); len(got) != 0 {
		t.Errorf("node, not set: %v", got)
	}
	if got := (Layers{Topic: set.Topic}).All(Topic(RetentionMs)); !slices.Equal(got, []Value{ofTopic}) {
		t.Errorf("topic, nodes do not say: %v", got)
	}
	if got := set.NodeAll(Node("log.retention.bytes")); len(got) != 1 {
		t.Errorf("another setting: %v", got)
	}
}
