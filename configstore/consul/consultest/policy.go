package consultest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Policy gives the ACL policy that docs/first-mesh.md shows, for documents behind a
// prefix, which is empty or ends in a slash.
func Policy(t testing.TB, prefix string) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "first-mesh.md"))
	if err != nil {
		t.Fatal(err)
	}
	const keys = "key_prefix \"rhumb/v1/\""
	_, rest, _ := strings.Cut(string(text), "```hcl\n")
	rules, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(rules, keys) {
		t.Fatal("docs/first-mesh.md shows no policy")
	}
	return strings.Replace(rules, keys, "key_prefix \""+prefix+"rhumb/v1/\"", 1)
}
