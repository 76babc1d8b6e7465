package shard

import (
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// laterCommands are forms that came after the first format file was frozen.
func laterCommands() []command {
	topic := rhumb.Topic{Tenant: "t", Namespace: "n", Name: "orders"}
	configs, shards := []configPair{{"a", "1"}, {"b", ""}}, []rhumb.ShardID{1, 16}
	return []command{
		&createTopicCommand{topic, rhumb.UUID{1, 2}, 2, configs, shards, 100},
		&growTopicCommand{rhumb.UUID{1, 2}, append(shards, 3), 100},
		&setConfigsCommand{rhumb.UUID{1, 2}, configs[:1], &configs},
		&putSettingsCommand{"1000", configs, nil},
		&putSettingsCommand{"1000", configs[:1], configs},
	}
}

func laterEntry() []byte {
	cs := laterCommands()
	b := appendEntryHeader(nil, entryHeader{commands: uint32(len(cs)), epoch: 4, time: 1_800_000_000_000})
	for _, c := range cs {
		b = appendCommand(b, c)
	}
	return b
}

func TestLaterFormatsAreFrozen(t *testing.T) {
	b := laterEntry()
	golden(t, "entry-v1-settings.hex", b)
	_, at, err := parseEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range laterCommands() {
		k, body, next, err := parseCommand(b, at)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := decodeCommand(k, b[body:next]); err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("command %d: %+v, want %+v: %v", k, c, want, err)
		}
		at = next
	}
	m := newMachine(0, 7)
	applyAll(t, m, b)
	var rows []byte
	for _, kv := range m.dump() {
		rows = putString(putString(rows, kv.Key), kv.Value)
	}
	golden(t, "rows-v1-settings.hex", rows)
	again := newMachine(0, 7)
	for _, kv := range m.dump() {
		if err := again.load(kv.Key, kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	compareRows(t, "before", m.dump(), "loaded", again.dump())
	if again.parts != 3 || again.settings["1000"]["a"] != "1" || len(again.settings["1000"]) != 1 {
		t.Errorf("%d partitions, settings %v", again.parts, again.settings)
	}
	for i, p := range again.topics[rhumb.UUID{1, 2}].Partitions {
		if int(p.Index) != i {
			t.Errorf("partition %d has index %d", i, p.Index)
		}
	}
}

// applyAll applies an entry whose commands must all succeed.
func applyAll(t *testing.T, m *machine, data []byte) {
	t.Helper()
	results, err := m.apply(&raftpb.Entry{Index: new(m.index + 1), Term: new(uint64(4)), Data: data}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.err != nil {
			t.Errorf("command %d: %v", i, r.err)
		}
	}
}

// Of two changes made from the same state the second fails, and of two topics
// for which there is room once only the first is made: both are decided at apply,
// wherever they were proposed.
func TestSettingsAndLimitsAreDecidedAtApply(t *testing.T) {
	m := newMachine(0, 7)
	one := func(c command) error {
		data := appendCommand(appendEntryHeader(nil, entryHeader{commands: 1, epoch: 4, time: 5}), c)
		results, err := m.apply(&raftpb.Entry{Index: new(m.index + 1), Term: new(uint64(4)), Data: data}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return results[0].err
	}
	topic := func(name string, partitions int) command {
		return &createTopicCommand{rhumb.Topic{Tenant: "t", Namespace: "n", Name: rhumb.TopicName(name)}, rhumb.UUID{name[0]}, 0, nil, make([]rhumb.ShardID, partitions), 10}
	}
	none := &[]configPair{}
	for _, step := range []struct {
		what    string
		command command
		fails   string
	}{
		{"a topic", topic("a", 6), ""},
		{"one too many", topic("b", 5), "limit of 10"},
		{"growth above the limit", &growTopicCommand{rhumb.UUID{'a'}, make([]rhumb.ShardID, 11), 10}, "limit of 10"},
		{"what just fits", topic("c", 4), ""},
		{"a deletion makes room", &deleteTopicCommand{rhumb.Topic{Tenant: "t", Namespace: "n", Name: "c"}, 1}, ""},
		{"growth", &growTopicCommand{rhumb.UUID{'a'}, make([]rhumb.ShardID, 10), 10}, ""},
		{"settings", &setConfigsCommand{rhumb.UUID{'a'}, []configPair{{"x", "1"}}, none}, ""},
		{"settings from an old state", &setConfigsCommand{rhumb.UUID{'a'}, []configPair{{"x", "2"}}, none}, "changed meanwhile"},
		{"settings from any state", &setConfigsCommand{rhumb.UUID{'a'}, []configPair{{"x", "3"}}, nil}, ""},
		{"of a node", &putSettingsCommand{"", []configPair{{"x", "1"}}, nil}, ""},
		{"of a node, from an old state", &putSettingsCommand{"", nil, nil}, "changed meanwhile"},
		{"of a node, gone", &putSettingsCommand{"", nil, []configPair{{"x", "1"}}}, ""},
	} {
		if err := one(step.command); (err == nil) != (step.fails == "") || err != nil && !strings.Contains(err.Error(), step.fails) {
			t.Errorf("%s: %v, want %q", step.what, err, step.fails)
		}
	}
	if m.parts != 10 || len(m.settings) != 0 || m.topics[rhumb.UUID{'a'}].Configs["x"] != "3" {
		t.Errorf("%d partitions, %v, %v", m.parts, m.settings, m.topics)
	}
}
