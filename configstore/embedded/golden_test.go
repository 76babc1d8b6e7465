package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
)

// TestGoldenDirectory opens a copy of a directory that the first version wrote, and
// writes the same again.
func TestGoldenDirectory(t *testing.T) {
	old, fresh := t.TempDir(), t.TempDir()
	if err := os.CopyFS(old, os.DirFS("testdata/store")); err != nil {
		t.Fatal(err)
	}
	docs, err := openStore(t, old).List(t.Context(), configstore.Prefix)
	if err != nil || len(docs) != 2 || docs[0].Key != "rhumb/v1/regions/us" || docs[1].Key != "rhumb/v1/topics/t/n/Orders.v2" {
		t.Fatalf("%v, %v", docs, err)
	}
	s := openStore(t, fresh)
	for _, d := range docs {
		if err := s.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(fresh, s.path(d.Key))
		got, err := os.ReadFile(filepath.Join(fresh, name))
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(filepath.Join("testdata/store", name)); err != nil || string(got) != string(want) {
			t.Errorf("%s: wrote %s, want %s, %v", name, got, want, err)
		}
	}
}
