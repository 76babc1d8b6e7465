package topicconf

import (
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// What Kafka 4.3 accepts and refuses, with the reason that its tools show. ""
// means accepted.
func TestTopicValuesAreJudgedAsKafkaDoes(t *testing.T) {
	for _, tc := range []struct{ name, value, reason string }{
		{"retention.ms", "x", "Not a number of type LONG"},
		{"retention.ms", "-2", "Value must be at least -1"},
		{"retention.ms", " 5 ", ""},
		{"retention.ms", "9223372036854775808", "Not a number of type LONG"},
		{"retention.bytes", "-2", ""},
		{"max.message.bytes", "-1", "Value must be at least 0"},
		{"max.message.bytes", "99999999999", "Not a number of type INT"},
		{"cleanup.policy", "shred", "String must be one of: compact, delete"},
		{"cleanup.policy", "compact, delete", ""},
		{"cleanup.policy", "", ""},
		{"compression.type", "lzma", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"},
		{"min.insync.replicas", "0", "Value must be at least 1"},
		{"min.insync.replicas", "2", ""},
		{"preallocate", "maybe", "Expected value to be either true or false"},
		{"preallocate", "TRUE", ""},
		{"min.cleanable.dirty.ratio", "2.0", "Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "-0.1", "Value must be at least 0"},
		{"min.cleanable.dirty.ratio", "NaN", "Not a number of type DOUBLE"},
		{"segment.bytes", "10", "Value must be at least 1048576"},
		{"segment.ms", "0", "Value must be at least 1"},
		{"segment.index.bytes", "3", "Value must be at least 4"},
		{"flush.messages", "0", "Value must be at least 1"},
		{"flush.ms", "-1", "Value must be at least 0"},
		{"max.compaction.lag.ms", "0", "Value must be at least 1"},
		{"local.retention.ms", "-3", "Value must be at least -2"},
		{"compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"},
		{"compression.zstd.level", "100", "Value must be no more than 22"},
		{"leader.replication.throttled.replicas", "0:1,1:1", ""},
		{"leader.replication.throttled.replicas", "*", ""},
		{"unclean.leader.election.enable", "1", "Expected value to be either true or false"},
	} {
		want := ""
		if tc.reason != "" {
			want = "Invalid value " + tc.value + " for configuration " + tc.name + ": " + tc.reason
		}
		err := CheckTopic(map[string]string{tc.name: tc.value}, tc.name)
		if got := text(err); got != want || err != nil && rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("%s=%q: %q, want %q", tc.name, tc.value, got, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What Kafka takes and this region cannot honour is refused with the reason.
func TestWhatCannotBeHonouredIsRefused(t *testing.T) {
	for name, value := range map[string]string{"retention.bytes": strings.Repeat(" ", MaxValue) + "1", "compression.type": "gzip", "remote.storage.enable": "true", "leader.replication.throttled.replicas": "x"} {
		if err := CheckTopic(map[string]string{name: value}, name); rhumb.KindOf(err) != rhumb.KindInvalid || !strings.Contains(text(err), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	both := map[string]string{MinCompaction: "10", MaxCompaction: "5"}
	if err := CheckTopic(both, MinCompaction); text(err) != "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)" {
		t.Error(err)
	}
	if err := CheckTopic(nil, "no.such"); text(err) != "Unknown topic config name: no.such" {
		t.Error(err)
	}
	if err := CheckNode(nil, "num.partitions", "node.id", "message.max.bytes"); text(err) != "Cannot update these configs dynamically: [node.id, num.partitions]" {
		t.Error(err)
	}
	if err := CheckNode(map[string]string{"message.max.bytes": "x"}, "message.max.bytes"); text(err) != "Invalid value x for configuration message.max.bytes: Not a number of type INT" {
		t.Error(err)
	}
}

// kafkaTopicNames are the settings that Kafka 4.3 lists for a topic.
const kafkaTopicNames = `cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas index.interval.bytes
leader.replication.throttled.replicas local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type min.cleanable.dirty.ratio
min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable remote.log.delete.on.disable
remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
unclean.leader.election.enable`

func TestTableIsWhole(t *testing.T) {
	var shown []string
	for _, d := range TopicDefs() {
		if !d.Hidden {
			shown = append(shown, d.Name)
		}
	}
	if want := strings.Fields(kafkaTopicNames); !slices.Equal(shown, want) {
		t.Errorf("the table shows %q", shown)
	}
	for _, defs := range [][]Def{TopicDefs(), NodeDefs()} {
		for i, d := range defs {
			if i > 0 && defs[i-1].Name >= d.Name {
				t.Errorf("%s stands behind %s", d.Name, defs[i-1].Name)
			}
			if d.Doc == "" {
				t.Errorf("%s: no words", d.Name)
			}
			if err := d.Check(d.Default); err != nil && !d.Unset {
				t.Errorf("the default: %v", err)
			}
		}
	}
	for _, d := range TopicDefs() {
		if d.Node != "" && Node(d.Node) == nil {
			t.Errorf("%s: nodes do not know %s", d.Name, d.Node)
		}
	}
}

func TestTheNearestLayerHolds(t *testing.T) {
	d := Topic(RetentionMs)
	l := Layers{Static: map[string]string{d.Node: "6"}}
	steps := []func(){
		func() { l.Region = map[string]string{d.Node: "5"} },
		func() { l.Node = map[string]string{d.Node: "4"} },
		func() { l.Namespace = map[string]string{d.Name: "3"} },
		func() { l.Topic = map[string]string{d.Name: "2"} },
	}
	for i, step := range steps {
		step()
		all := l.All(d)
		if want := string(rune('5' - i)); l.Get(d) != want || all[0].Value != want || len(all) != i+3 { // with log.retention.hours
			t.Errorf("step %d: %s, %v", i, l.Get(d), all)
		}
	}
	if l = (Layers{}); l.Number(d) != DefaultRetentionMs || len(l.All(d)) != 0 {
		t.Errorf("default: %d, %v", l.Number(d), l.All(d))
	}
	if m := Topic(MaxMessage); l.Number(m) != DefaultMaxMessage || l.All(m)[0] != (Value{"message.max.bytes", "1048588", FromDefault}) {
		t.Errorf("default: %v", l.All(m))
	}
	if c := Topic(CleanupPolicy); !l.Has(c, Delete) || l.Has(c, Compact) {
		t.Error("cleanup.policy is delete by default")
	}
}

func FuzzCheckTopic(f *testing.F) {
	f.Add("retention.ms", "1")
	f.Add("cleanup.policy", "compact,delete")
	f.Add("leader.replication.throttled.replicas", "0:1")
	f.Fuzz(func(t *testing.T, name, value string) {
		err := CheckTopic(map[string]string{name: value}, name)
		if d := Topic(name); d == nil && err == nil {
			t.Errorf("%q is accepted", name)
		}
	})
}
