package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kill -9 while certificates are made: what is there is whole, what was begun is
// seen, and the next call finishes it with the key that is there.
func TestCertsKilledInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	certs := func(args ...string) Result { return Run(t, nil, append([]string{"certs", "--dir", dir}, args...)...) }
	if res := certs("init", "--config-store", filepath.Join(dir, "store")); res.Code != 0 {
		t.Fatalf("init: %s", res.Stderr)
	}
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("r%d", i))
	}
	file := func(name, ending string) string { return filepath.Join(dir, "region-"+name+ending) }
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	keys := map[string]string{}
	for round := range 3 {
		var open []string
		for _, name := range names {
			if !there(file(name, ".crt")) {
				open = append(open, name)
			}
		}
		if len(open) == 0 {
			break
		}
		p := Launch(t, nil, append([]string{"certs", "--dir", dir, "issue"}, open...)...)
		begun := open[min(round*3, len(open)-1)]
		Until(t, "a key is written", func() bool { return there(file(begun, ".key")) })
		p.Kill()
		for _, name := range names {
			text, err := os.ReadFile(file(name, ".key"))
			if err != nil {
				continue
			}
			if had := keys[name]; had != "" && had != string(text) {
				t.Errorf("round %d: the key of %s was overwritten", round, name)
			}
			keys[name] = string(text)
		}
	}
	for _, name := range names {
		if there(file(name, ".crt")) {
			continue
		}
		if res := certs("issue", name); res.Code != 0 {
			t.Fatalf("issue %s again: %s", name, res.Stderr)
		}
	}
	for name, had := range keys {
		if text, _ := os.ReadFile(file(name, ".key")); string(text) != had {
			t.Errorf("the key of %s was overwritten", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.tmp-*")); len(left) > 0 {
		t.Errorf("left behind, with private keys maybe: %v", left)
	}
	if res := certs("show"); res.Code != 0 || strings.Count(res.Stdout, "\nregion-") != len(names) {
		t.Errorf("show: %s\n%s%s", res.End, res.Stdout, res.Stderr)
	}
}
