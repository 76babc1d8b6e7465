package configstore

import (
	"fmt"
	"testing"
)

// TestKnownSparesParsing: a document that did not change is given as it was, one whose
// content changed under the same version is not, and what is gone is forgotten.
func TestKnownSparesParsing(t *testing.T) {
	var k Known
	raw := func(n int, version int, by string) (string, []byte) {
		return fmt.Sprintf("rhumb/v1/tenants/t%d", n), fmt.Appendf(nil, `{"admin_roles":[],"updated_at":"2026-01-01T00:00:00Z","updated_by":%q,"version":%d}`, by, version)
	}
	list := func(n int, by string) []Document {
		var docs []Document
		for i := range n {
			key, b := raw(i, 1, by)
			d, err := k.Parse(key, b)
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, d)
		}
		k.Keep(docs, Prefix)
		return docs
	}
	first := list(10, "a")
	again := list(10, "a")
	for i := range first {
		if &first[i].JSON[0] != &again[i].JSON[0] {
			t.Fatalf("%s was parsed again", first[i].Key)
		}
	}
	if other := list(10, "b"); string(other[3].JSON) == string(first[3].JSON) {
		t.Error("other content of the same version is not seen")
	}
	list(4, "b")
	if len(k.docs) != 4 {
		t.Errorf("%d documents are remembered, 4 are there", len(k.docs))
	}
	if key, _ := raw(1, 1, "b"); true {
		if _, err := k.Parse(key, []byte("no document")); err == nil {
			t.Error("damage is taken for what was there before")
		}
	}
}
