package configstore

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet")

// golden compares with a file of testdata. An existing one is never rewritten:
// later versions must read what this one wrote.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := "testdata/" + name
	want, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		want, err = got, os.WriteFile(path, got, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: wrote\n%s\nwant\n%s", name, got, want)
	}
	return want
}

// TestGoldenLastGoodCopy freezes the JSON of every document and the file of the
// last good copy.
func TestGoldenLastGoodCopy(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	ms, size := int64(3_600_000), int64(-1)
	var k kept
	var docs []Document
	add := func(d Document, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
		k.Seen = append(k.Seen, keptDocument{d.Key, d.JSON})
	}
	add(encode(&Mesh{UUID: rhumb.UUID{1}, LastNumber: 7}, nil, "golden", at))
	add(encode(&Namespace{
		Tenant: "acme", Name: "orders", Topology: &Topology{FullMesh: []rhumb.RegionName{"us", "eu"}, Start: StartLatest},
		Retention: &Retention{Milliseconds: &ms, Bytes: &size}, DeleteScope: ScopeRegion, Dedup: ScopeRegion,
	}, nil, "golden", at))
	add(encode(&Region{
		Name: "us", Number: 7, DataUUID: rhumb.UUID{2}, Rebuilds: 1, Addresses: map[string][]string{"kafka": {"h:9092"}},
		Geo: []string{"[::1]:7650"}, CAFingerprint: "00", State: RegionActive,
	}, nil, "golden", at))
	add(encode(&Tenant{Meta: Meta{Deleted: true}, Name: "acme", AllowedRegions: []rhumb.RegionName{}}, nil, "golden", at))
	add(encode(&Topic{
		Topic: rhumb.Topic{Tenant: "acme", Namespace: "orders", Name: "x"}, Deletions: 2, Partitions: 3, Configs: map[string]string{"retention.ms": "-1"},
	}, nil, "golden", at))
	k.InForce = []keptDocument{{docs[1].Key, docs[1].JSON}}
	raw, err := encodeKept(k)
	if err != nil {
		t.Fatal(err)
	}
	seen, inForce, err := decodeKept(golden(t, "last-good-1", raw))
	if err != nil || len(seen) != len(docs) || len(inForce) != 1 {
		t.Fatalf("%d and %d documents, %v", len(seen), len(inForce), err)
	}
	for _, d := range docs {
		if seen[d.Key].Hash() != d.Hash() {
			t.Errorf("%s reads as %s", d.JSON, seen[d.Key].JSON)
		}
	}
	n, unknown, err := decode[Namespace](seen[NamespaceKey("acme", "orders")])
	if err != nil || len(unknown) != 0 || *n.Retention.Milliseconds != ms || n.Topology.Start != StartLatest || !n.UpdatedAt.Equal(at) {
		t.Errorf("%+v, %v, %v", n, unknown, err)
	}
}

// TestGoldenUser freezes the JSON of a user and of a mesh with a secret, which
// came after the first last good copy.
func TestGoldenUser(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	v := scram.Decoy(scram.SHA256, []byte("golden"), "alice")
	want := User{Name: "acme/shop", Admin: true, Grants: []rhumb.Space{{Tenant: "acme", Namespace: "shop"}, rhumb.DefaultSpace},
		Home: rhumb.DefaultSpace, Scram: Scram{SHA256: &v}}
	d, err := encode(&want, nil, "golden", at)
	if err != nil {
		t.Fatal(err)
	}
	d, err = ParseDocument(UserKey("acme/shop"), golden(t, "user-1", d.JSON))
	if err != nil {
		t.Fatal(err)
	}
	u, unknown, err := decode[User](d)
	if err != nil || len(unknown) != 0 || u.Name != want.Name || len(u.Grants) != 2 || u.Home != want.Home || !bytes.Equal(u.Scram.SHA256.StoredKey, v.StoredKey) {
		t.Errorf("%+v, %v, %v", u, unknown, err)
	}
	m, err := encode(&Mesh{UUID: rhumb.UUID{1}, Secret: make([]byte, secretSize)}, nil, "golden", at)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "mesh-2", m.JSON)
}

// TestGoldenTopologies freezes the JSON of every shape, of a namespace's roles and
// regions, and of a topic's own policy, which came after the first last good copy.
func TestGoldenTopologies(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	month := int64(30 * 24 * 3_600_000)
	abc := []rhumb.RegionName{"a", "b", "c"}
	var all bytes.Buffer
	for _, topology := range []*Topology{
		{FanIn: &FanIn{From: abc[:2], To: "c"}, Rate: "10MB"}, {FanOut: &FanOut{From: "a", To: abc[1:]}, Start: StartLatest},
		{ActiveStandby: &ActiveStandby{Active: "a", Standby: abc[1:]}}, {Chain: abc}, {Ring: abc, Rate: "4096"},
		{Edges: []EdgeSpec{{From: "a", To: "b", Forward: true, Start: StartLatest, Rate: "1MiB/s"}, {From: "b", To: "a"}}}, {Edges: []EdgeSpec{}},
	} {
		n := &Namespace{Tenant: "t", Name: "n", Topology: topology, Generation: 2, Regions: map[rhumb.RegionName]RegionPolicy{"c": {Retention: &Retention{Milliseconds: &month}}}}
		d, err := encode(n, nil, "golden", at)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(append(d.JSON, '\n'))
	}
	d, err := encode(&Topic{Topic: rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"}, Topology: &Topology{FullMesh: []rhumb.RegionName{}}, Retention: &Retention{Bytes: &month}}, nil, "golden", at)
	if err != nil {
		t.Fatal(err)
	}
	all.Write(append(d.JSON, '\n'))
	lines := bytes.Split(bytes.TrimSpace(golden(t, "topologies-1", all.Bytes())), []byte("\n"))
	for i, line := range lines {
		key := NamespaceKey("t", "n")
		if i == len(lines)-1 {
			key = TopicKey(rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"})
		}
		d, err := ParseDocument(key, line)
		if err != nil {
			t.Fatal(err)
		}
		if err := newPicture().put(d); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
