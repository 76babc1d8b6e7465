package shard

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// allCommands has one of each control command, all fields set.
func allCommands() []command {
	topic := rhumb.Topic{Tenant: "t", Namespace: "n", Name: "orders"}
	key := GroupKey{Tenant: "t", Namespace: "n", Group: "g"}
	configs := []configPair{{"a", "1"}, {"b", ""}}
	shards := []rhumb.ShardID{1, 16}
	id, life := rhumb.UUID{1, 2}, rhumb.Life{3, 4}
	return []command{
		&skipCommand{5, 9, life, dedup.Skip{From: -1, To: 77, Chain: 1 << 63, Reason: rhumb.ReasonRetention}},
		&logStartCommand{partition: 5, start: 100, reason: rhumb.ReasonDeleted, floors: []floorOf{{9, life, 12}, {10, life, -1}}},
		&edgeStartCommand{5, 9, true},
		&expireProducersCommand{5, 1 << 40},
		&createPartitionCommand{id, topic, 3, 2, life},
		&dropTopicCommand{id},
		&commitOffsetsCommand{key, []OffsetCommit{{TopicID: id, Topic: topic, Partition: 3, Offset: 9, LeaderEpoch: -1, Metadata: "m", At: 8}}},
		&deleteOffsetsCommand{key, true, []OffsetKey{{id, 3}}, 0},
		&putGroupCommand{key, []byte{0, 1, 2}},
		&createTopicCommand{topic, id, 2, configs, shards, 0},
		&growTopicCommand{id, shards, 0},
		&deleteTopicCommand{topic, 3},
		&setConfigsCommand{id, configs, nil},
		&partitionReadyCommand{id, 3, 5, life},
		&topicGoneCommand{id},
		&initRegionCommand{id},
		&producerBlockCommand{},
	}
}

func decodeCommand(k kind, body []byte) (command, error) {
	switch k {
	case kindSkip:
		return decodeSkip(body)
	case kindLogStart:
		return decodeLogStart(body)
	case kindEdgeStart:
		return decodeEdgeStart(body)
	case kindExpireProducers:
		return decodeExpireProducers(body)
	case kindCreatePartition:
		return decodeCreatePartition(body)
	case kindDropTopic:
		return decodeDropTopic(body)
	case kindCommitOffsets:
		return decodeCommitOffsets(body)
	case kindDeleteOffsets:
		return decodeDeleteOffsets(body)
	case kindPutGroup:
		return decodePutGroup(body)
	case kindCreateTopic:
		return decodeCreateTopic(body)
	case kindGrowTopic:
		return decodeGrowTopic(body)
	case kindDeleteTopic:
		return decodeDeleteTopic(body)
	case kindSetConfigs:
		return decodeSetConfigs(body)
	case kindPartitionReady:
		return decodePartitionReady(body)
	case kindTopicGone:
		return decodeTopicGone(body)
	case kindInitRegion:
		return decodeInitRegion(body)
	case kindDeleteHere:
		return decodeDeleteHere(body)
	case kindPutSettings:
		return decodePutSettings(body)
	case kindNewLife:
		return decodeNewLife(body)
	}
	return &producerBlockCommand{}, nil
}

// wholeEntry is an entry with a batch of each kind and all commands.
func wholeEntry() []byte {
	cs := allCommands()
	var text entryText
	text.begin(entryHeader{epoch: 4, time: 1_800_000_000_000})
	raw, h := batch(2, "payload", sequenced(11, 1, 0))
	own := codec.Envelope{Region: 7, Partition: 5, Life: rhumb.Life{7}, Last: 1, Prev: -1, Chain: codec.NextChain(0, 0, 1, h.CRC), AppendTime: 3, Count: 2}
	text.put(kindAppend, &own, raw, 0, 4)
	raw, h = batch(1, "foreign", nil)
	foreign := codec.Envelope{Region: 9, Partition: 5, Life: rhumb.Life{9}, First: 3, Last: 3, Prev: -1, Chain: codec.NextChain(0, 3, 3, h.CRC), AppendTime: 3, Count: 1}
	text.put(kindLink, &foreign, raw, 2, 4)
	for _, c := range cs {
		text.command(c)
	}
	return text.end(uint32(len(cs) + 2))
}

// golden compares with a file in testdata, one line of hexadecimal per 32 bytes.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var text strings.Builder
	for chunk := range bytesIn(got, 32) {
		text.WriteString(hex.EncodeToString(chunk) + "\n")
	}
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text.String() {
		t.Errorf("%s: the format has changed; data that is stored would not be read", path)
	}
}

func bytesIn(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

func TestEntryFormatIsFrozen(t *testing.T) {
	b := wholeEntry()
	golden(t, "entry-v1.hex", b)
	h, at, err := parseEntry(b)
	if err != nil || h.epoch != 4 || h.time != 1_800_000_000_000 {
		t.Fatalf("%+v: %v", h, err)
	}
	cs := allCommands()
	for i := range int(h.commands) {
		k, body, next, err := parseCommand(b, at)
		if err != nil {
			t.Fatal(err)
		}
		if i >= 2 {
			c, err := decodeCommand(k, b[body:next])
			if err != nil || !reflect.DeepEqual(c, cs[i-2]) {
				t.Errorf("command %d: %+v, want %+v: %v", k, c, cs[i-2], err)
			}
		}
		at = next
	}
}

// TestRowFormatsAreFrozen applies the entry and compares all rows.
func TestRowFormatsAreFrozen(t *testing.T) {
	m := newMachine(1, 7)
	m.index = 4
	entries := [][]byte{
		appendCommand(appendEntryHeader(nil, entryHeader{commands: 1, epoch: 4, time: 5}), &createPartitionCommand{rhumb.UUID{6}, soloTopic, 1, 2, rhumb.Life{7}}),
		wholeEntry(),
		appendCommand(appendCommand(appendCommand(appendCommand(appendEntryHeader(nil, entryHeader{commands: 4, epoch: 4, time: 6}),
			&createTopicCommand{soloTopic, rhumb.UUID{8}, 3, []configPair{{"a", "1"}}, []rhumb.ShardID{1, 2}, 0}),
			&commitOffsetsCommand{GroupKey{Tenant: "t", Namespace: "n", Group: "g"}, []OffsetCommit{{TopicID: rhumb.UUID{8}, Offset: 4, Metadata: "m", At: 8}}}),
			&partitionReadyCommand{rhumb.UUID{8}, 1, 5, rhumb.Life{7}}),
			&deleteTopicCommand{rhumb.Topic{Tenant: "t", Namespace: "n", Name: "other"}, 3}),
	}
	for i, data := range entries {
		results, err := m.apply(&raftpb.Entry{Index: new(uint64(5 + i)), Term: new(uint64(4)), Data: data}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for j, r := range results {
			if r.err != nil && rhumb.KindOf(r.err) != rhumb.KindOutOfRange && rhumb.KindOf(r.err) != rhumb.KindNotFound {
				t.Errorf("entry %d, command %d: %+v", i, j, r)
			}
		}
	}
	rows := m.dump()
	var b []byte
	for _, kv := range rows {
		b = putString(putString(b, kv.Key), kv.Value)
	}
	golden(t, "rows-v1.hex", b)
	again := newMachine(1, 7)
	for _, kv := range rows {
		if err := again.load(kv.Key, kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.loaded(); err != nil {
		t.Fatal(err)
	}
	compareRows(t, "before", rows, "loaded", again.dump())
}

func TestMessageFormatIsFrozen(t *testing.T) {
	m := sampleMessage()
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "message-v1.hex", b)
	got, err := DecodeMessage(b)
	if err != nil || got.Kind != m.Kind || got.Transfer != m.Transfer || got.Raft.GetTerm() != 6 || !bytes.Equal(got.Piece, m.Piece) || len(got.Conf.Voters) != 2 {
		t.Fatalf("%+v: %v", got, err)
	}
}

func sampleMessage() *Message {
	return &Message{Kind: MessageOffer, Shard: 3, From: 1, To: 2, Term: 4, Index: 9, Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Term: new(uint64(6))},
		Transfer: 1 << 60, Seq: 3, Last: true, Conf: &raftpb.ConfState{Voters: []uint64{1, 2}}, Piece: []byte("piece")}
}

// newLifeEntry stores a batch and closes the life that it came under.
func newLifeEntry() []byte {
	b := appendEntryHeader(nil, entryHeader{commands: 1, epoch: 4, time: 1_800_000_000_001})
	return appendCommand(b, &newLifeCommand{5, rhumb.Life{7}, rhumb.Life{8}, -1, 0})
}

func FuzzEntry(f *testing.F) {
	f.Add(wholeEntry())
	f.Add(laterEntry())
	f.Add(newLifeEntry())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, at, err := parseEntry(b)
		if err != nil {
			return
		}
		for range h.commands {
			k, body, next, err := parseCommand(b, at)
			if err != nil {
				return
			}
			if k > kindLink {
				if c, err := decodeCommand(k, b[body:next]); err == nil {
					again, err := decodeCommand(k, c.append(nil))
					if err != nil || !reflect.DeepEqual(c, again) {
						t.Fatalf("command %d: %+v, again %+v: %v", k, c, again, err)
					}
				}
			}
			at = next
		}
	})
}

// FuzzApply applies anything: it may be refused, but never panics, and what it
// leaves can be stored and loaded.
func FuzzApply(f *testing.F) {
	f.Add(wholeEntry())
	f.Add(laterEntry())
	f.Add(newLifeEntry())
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMachine(1, 7)
		m.index = 4
		create := appendCommand(appendEntryHeader(nil, entryHeader{commands: 1, epoch: 4}), &createPartitionCommand{rhumb.UUID{6}, soloTopic, 1, 2, rhumb.Life{7}})
		for i, data := range [][]byte{create, b} {
			if _, err := m.apply(&raftpb.Entry{Index: new(uint64(5 + i)), Term: new(uint64(4)), Data: data}, nil); err != nil {
				return
			}
		}
		m.flush()
		again := newMachine(1, 7)
		for _, kv := range m.dump() {
			if err := again.load(kv.Key, kv.Value); err != nil {
				t.Fatalf("row %q = %x: %v", kv.Key, kv.Value, err)
			}
		}
	})
}

func FuzzRow(f *testing.F) {
	m := newMachine(1, 7)
	m.index = 4
	create := appendCommand(appendEntryHeader(nil, entryHeader{commands: 1, epoch: 4}), &createPartitionCommand{rhumb.UUID{6}, soloTopic, 1, 2, rhumb.Life{7}})
	for i, data := range [][]byte{create, wholeEntry(), newLifeEntry()} {
		if _, err := m.apply(&raftpb.Entry{Index: new(uint64(5 + i)), Term: new(uint64(4)), Data: data}, nil); err != nil {
			f.Fatal(err)
		}
	}
	for _, kv := range m.dump() {
		f.Add(kv.Key, kv.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		m := newMachine(1, 7)
		if m.load(key, value) == nil {
			_ = m.loaded()
		}
	})
}

func FuzzMessage(f *testing.F) {
	b, err := sampleMessage().Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			return
		}
		again, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeMessage(again); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNewerFormatsAreRefused(t *testing.T) {
	b := wholeEntry()
	b[24] = 1
	if _, _, err := parseEntry(b); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("unknown feature: %v", err)
	}
	b = wholeEntry()
	b[33] = commandRequired
	if _, _, _, err := parseCommand(b, 32); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("unknown flag: %v", err)
	}
	b = wholeEntry()
	b[32] = 200
	m := newMachine(1, 7)
	if _, err := m.apply(&raftpb.Entry{Index: new(uint64(1)), Term: new(uint64(4)), Data: b}, nil); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("unknown command: %v", err)
	}
	// A longer header is skipped.
	longer := append([]byte(nil), b[:32]...)
	binary.LittleEndian.PutUint16(longer[2:], 40)
	binary.LittleEndian.PutUint32(longer[4:], 0)
	longer = append(longer, make([]byte, 8)...)
	if _, at, err := parseEntry(longer); err != nil || at != 40 {
		t.Errorf("longer header: %d, %v", at, err)
	}
}
