package configstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

const metaJSON = `"version":1,"updated_at":"2026-01-02T03:04:05Z","updated_by":"test"`

func parseDoc(t *testing.T, key, fields string) Document {
	t.Helper()
	d, err := ParseDocument(key, []byte("{"+metaJSON+fields+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEqualContentHasAnEqualHash(t *testing.T) {
	a, err := ParseDocument(MeshKey, []byte("{ \"x\": {\"b\":1, \"a\":[ ]},\n"+metaJSON+"}"))
	if err != nil {
		t.Fatal(err)
	}
	b := parseDoc(t, MeshKey, `,"x":{"a":[],"b":1}`)
	if a.Hash() != b.Hash() || string(a.JSON) != string(b.JSON) {
		t.Fatalf("%s and %s", a.JSON, b.JSON)
	}
	if c := parseDoc(t, MeshKey, `,"x":{"a":null,"b":1}`); c.Hash() == b.Hash() {
		t.Fatal("other content has the same hash")
	}
}

func TestParseDocumentRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                "EOF",
		`[]`:                              "not one JSON object",
		`{} {}`:                           "not one JSON object",
		`{"version":0}`:                   "version: must be at least 1",
		`{"version":-1}`:                  "field version",
		`{"version":"1"}`:                 "field version",
		`{"Version":1}`:                   "is written version",
		`{"version":null}`:                "must not be null",
		`{"version":1,"version":2}`:       "stands twice",
		`{"version":1,"x":{"y":1,"y":1}}`: "stands twice",
		"{\"version\":1,\"x\":\"\xff\"}":  "UTF-8",
		`{"version":1,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "nested deeper",
		`{"version":1,"x":"` + strings.Repeat("x", 2*MaxDocumentBytes) + `"}`:         "at most",
		`{"version":1,"x":"` + strings.Repeat("x", MaxDocumentBytes) + `"}`:           "at most",
	} {
		_, err := ParseDocument(MeshKey, []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), MeshKey) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	for _, key := range []string{"", "x", "rhumb/v1/", "rhumb/v1/a//b", "rhumb/v1/../x", "rhumb/v1/a b", "rhumb/v2/mesh", "rhumb/v1/" + strings.Repeat("x", 600)} {
		if _, err := ParseDocument(key, []byte("{"+metaJSON+"}")); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestKeysNameTheirDocuments(t *testing.T) {
	topic := rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x.y"}
	for key, want := range map[string]keyName{
		MeshKey:                 {kind: kindMesh},
		RegionKey("us"):         {kindRegion, [3]string{"us"}},
		TenantKey("t"):          {kindTenant, [3]string{"t"}},
		NamespaceKey("t", "n"):  {kindNamespace, [3]string{"t", "n"}},
		TopicKey(topic):         {kindTopic, [3]string{"t", "n", "x.y"}},
		Prefix + "later/things": {kind: kindUnknown},
	} {
		if got, err := parseKey(key); err != nil || got != want {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
	for _, key := range []string{RegionKey("US"), RegionsPrefix + "a/b", NamespacesPrefix + "t", TopicsPrefix + "t/n/x-partition-1"} {
		if _, err := parseKey(key); err == nil {
			t.Errorf("%s is taken", key)
		}
	}
}

// TestG76AbsentEmptyAndExplicitListsDiffer follows the three values through the
// stored JSON and back.
func TestG76AbsentEmptyAndExplicitListsDiffer(t *testing.T) {
	seen := map[Hash]bool{}
	for text, list := range map[string][]rhumb.RegionName{
		``:                         nil,
		`,"allowed_regions":[]`:    {},
		`,"allowed_regions":["a"]`: {"a"},
	} {
		tenant := Tenant{Name: "t", AllowedRegions: list}
		d, err := encode(&tenant, nil, "test", time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		seen[d.Hash()] = true
		for _, d := range []Document{d, parseDoc(t, TenantKey("t"), text)} {
			got, _, err := decode[Tenant](d)
			if err != nil || (got.AllowedRegions == nil) != (list == nil) || len(got.AllowedRegions) != len(list) {
				t.Errorf("%s decodes to %#v, %v; want %#v", d.JSON, got.AllowedRegions, err, list)
			}
			if got.Allows("a") != (list == nil || len(list) > 0) {
				t.Errorf("%s: allows a: %v", d.JSON, got.Allows("a"))
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("three values have %d hashes", len(seen))
	}
	_, _, err := decode[Tenant](parseDoc(t, TenantKey("t"), `,"allowed_regions":null`))
	if err == nil || !strings.Contains(err.Error(), "allowed_regions: must not be null") {
		t.Errorf("null is taken: %v", err)
	}
}

// TestUnknownFieldsSurvive puts fields that no type knows at every level and
// changes what is known around them.
func TestUnknownFieldsSurvive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		later := rapid.MapOf(rapid.StringMatching(`later_[a-z]{1,5}`), rapid.Int()).Draw(rt, "later")
		extra, _ := json.Marshal(later)
		fields := bytes.TrimSuffix(bytes.TrimPrefix(extra, []byte("{")), []byte("}"))
		comma := ""
		if len(later) > 0 {
			comma = ","
		}
		text := "{" + metaJSON + comma + string(fields) + `,"topology":{"full-mesh":["a"]` + comma + string(fields) + "}}"
		old, err := ParseDocument(NamespaceKey("t", "n"), []byte(text))
		if err != nil {
			rt.Fatal(err)
		}
		n, unknown, err := decode[Namespace](old)
		if err != nil || len(unknown) != 2*len(later) {
			rt.Fatalf("unknown %v, %v", unknown, err)
		}
		n.Topology.FullMesh = []rhumb.RegionName{"a", "b"}
		n.DeleteScope = ScopeRegion
		d, err := encode(&n, &old, "test", time.Unix(0, 0))
		if err != nil {
			rt.Fatal(err)
		}
		o, _ := parseObject(d.JSON)
		for k := range later {
			if _, ok := o[k]; !ok {
				rt.Fatalf("%s is lost: %s", k, d.JSON)
			}
			if _, ok := o["topology"].(object)[k]; !ok {
				rt.Fatalf("topology.%s is lost: %s", k, d.JSON)
			}
		}
		if d.Version != 2 || o["delete_scope"] != "region" {
			rt.Fatalf("%s", d.JSON)
		}
	})
}

func TestInputMayNotHaveUnknownFields(t *testing.T) {
	n, err := ReadInput[Namespace]([]byte(`{"topology":{"full-mesh":["a"],"start":"latest"},"retention":{"ms":-1}}`))
	if err != nil || n.Topology.Start != StartLatest || *n.Retention.Milliseconds != -1 {
		t.Fatalf("%+v, %v", n, err)
	}
	for text, kind := range map[string]rhumb.Kind{
		`{"topolgy":{}}`: rhumb.KindInvalid,
		`{"topology":{"chain":["a"],"transactions":{}}}`:           rhumb.KindInvalid,
		`{"topology":{"edges":[{"from":"a","to":"b","via":"c"}]}}`: rhumb.KindInvalid,
		`{"regions":{"a":{"retension":{"ms":1}}}}`:                 rhumb.KindInvalid,
		`{"regions":{"a":null}}`:                                   rhumb.KindInvalid,
		`{"transactions":true}`:                                    rhumb.KindUnsupported,
		`{"topology":{"full-mesh":"a"}}`:                           rhumb.KindInvalid,
		`{"topology":{"Full-Mesh":["a"]}}`:                         rhumb.KindInvalid,
	} {
		_, err := ReadInput[Namespace]([]byte(text))
		var fe *FieldError
		if rhumb.KindOf(err) != kind || !errors.As(err, &fe) || fe.Field == "" || fe.Reason == "" {
			t.Errorf("%s: %v (%v)", text, err, rhumb.KindOf(err))
		}
	}
}

func FuzzParseDocument(f *testing.F) {
	f.Add(NamespaceKey("t", "n"), []byte(`{`+metaJSON+`,"topology":{"full-mesh":["a","b"]},"x":[1.5e3,null,true]}`))
	f.Add(TenantKey("t"), []byte(`{`+metaJSON+`,"allowed_regions":[]}`))
	f.Add(RegionKey("us"), []byte(`{`+metaJSON+`,"number":3,"addresses":{"kafka":["h:1"]},"geo":["[::1]:7650"]}`))
	f.Add(TopicKey(rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"}), []byte(`{`+metaJSON+`,"configs":{"retention.ms":"1"}}`))
	f.Add(MeshKey, []byte(`{`+metaJSON+`,"uuid":"00000000-0000-4000-8000-000000000001"}`))
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		d, err := ParseDocument(key, data)
		if err != nil {
			return
		}
		again, err := ParseDocument(key, d.JSON)
		if err != nil || !bytes.Equal(again.JSON, d.JSON) || again.Version != d.Version {
			t.Fatalf("%s is not canonical: %s, %v", d.JSON, again.JSON, err)
		}
		p := newPicture()
		if p.put(d) == nil {
			p.link()
		}
	})
}
