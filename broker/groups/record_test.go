package groups

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func testConfig() *Config {
	cfg := Config{Store: newDisk(), InitialDelay: -1, MinSession: time.Second, MaxMembers: 5}.withDefaults()
	return &cfg
}

// fullGroup is a stable group with all fields set.
func fullGroup() *Group {
	g := NewGroup(testKey, testConfig())
	g.state, g.generation, g.kind, g.protocol, g.leader = Stable, 7, "consumer", "range", "a-1"
	g.roster.add(&member{id: "a-1", clientID: "a", host: "/10.0.0.1", session: 10 * time.Second, limit: time.Minute,
		protocols: []Protocol{{"range", []byte{0, 1, 2}}, {"sticky", nil}}, assignment: []byte{9, 8}})
	g.roster.add(&member{id: "i-2", instance: "i", clientID: "b", host: "/::1", session: 6 * time.Second, limit: time.Hour,
		protocols: []Protocol{{"range", []byte{3}}}})
	for _, m := range g.roster.list {
		g.bytes += m.size()
	}
	return g
}

// States that can be stored, by name.
func storedGroups() map[string]*Group {
	middle := fullGroup()
	middle.state = PreparingRebalance
	done := fullGroup()
	done.state, done.staged = CompletingRebalance, map[string][]byte{"i-2": {5}}
	empty := NewGroup(testKey, testConfig())
	empty.generation, empty.kind, empty.since = 8, "consumer", 1_700_000_000_000
	return map[string]*Group{"stable": fullGroup(), "middle": middle, "done": done, "empty": empty}
}

// TestP25EveryStateIsReadBack: what is stored in each state is loaded as what it
// stands for, by this version and by later ones.
func TestP25EveryStateIsReadBack(t *testing.T) {
	for name, g := range storedGroups() {
		record := g.record()
		file := filepath.Join("testdata", "group-"+name+"-v1.hex")
		if *rewrite {
			if err := os.WriteFile(file, []byte(hex.EncodeToString(record)+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil || !bytes.Equal(record, golden) {
			t.Errorf("%s: state is stored as\n%x, was\n%s", name, record, text)
		}
		got, err := Load(time.Unix(100, 0), testKey, testConfig(), golden)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := map[string]State{"stable": Stable, "middle": PreparingRebalance, "done": Stable, "empty": Empty}[name]
		if got.state != want || got.generation != g.generation || got.kind != g.kind || got.roster.len() != g.roster.len() || got.since != g.since {
			t.Errorf("%s: loaded as %+v", name, got.Describe())
		}
		for i, m := range got.roster.list {
			had := g.roster.list[i]
			assignment := had.assignment
			if g.staged != nil {
				assignment = g.staged[had.id]
			}
			if m.id != had.id || m.instance != had.instance || m.clientID != had.clientID || m.host != had.host || m.session != had.session ||
				m.limit != had.limit || !m.same(had.protocols) || !bytes.Equal(m.assignment, assignment) {
				t.Errorf("%s: member %+v, was %+v", name, m, had)
			}
			if !m.deadline.Equal(time.Unix(100, 0).Add(m.session)) {
				t.Errorf("%s: a session of %v ends at %v", name, m.session, m.deadline)
			}
		}
		if got.cfg.memory.used.Load() != got.bytes {
			t.Errorf("%s: %d bytes counted, %d of the node's", name, got.bytes, got.cfg.memory.used.Load())
		}
	}
}

func TestLaterRecords(t *testing.T) {
	record := fullGroup().record()
	if _, err := Load(time.Now(), testKey, testConfig(), append(bytes.Clone(record), 1, 2, 3)); err != nil {
		t.Errorf("what a later version adds is not skipped: %v", err)
	}
	record[0] = 2
	if _, err := Load(time.Now(), testKey, testConfig(), record); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("a later version: %v", err)
	}
}

// FuzzLoad: any bytes are a group or an error, and what was loaded is loaded
// again from its own record.
func FuzzLoad(f *testing.F) {
	for _, g := range storedGroups() {
		f.Add(g.record())
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		g, err := Load(time.Unix(1, 0), testKey, testConfig(), record)
		if err != nil {
			return
		}
		if g.bytes > 64*int64(len(record)+1)+int64(g.roster.len())*memberOverhead {
			t.Fatalf("%d bytes of members in a record of %d", g.bytes, len(record))
		}
		again, err := Load(time.Unix(1, 0), testKey, testConfig(), g.record())
		if err != nil || again.state != g.state || !bytes.Equal(again.record(), g.record()) {
			t.Fatalf("%v: %+v, then %+v", err, g.Describe(), again.Describe())
		}
	})
}

// FuzzSubscription: any bytes are topics or an error.
func FuzzSubscription(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, err := parseSubscription(b)
		size := 0
		for _, name := range topics {
			size += len(name) + 2
		}
		if err == nil && size > len(b) {
			t.Fatalf("%q in %x", topics, b)
		}
	})
}
