package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/internal/certs"
)

// Each command has its own default of --valid, and takes what it is told.
func TestCertsAreValidForAsLongAsTheySay(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		root := &cobra.Command{Use: "rhumb"}
		AddCommands(root)
		root.SetOut(io.Discard)
		var errs strings.Builder
		if code := Run(t.Context(), root, append([]string{"certs"}, append(args, "--dir", dir)...), &errs); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, errs.String())
		}
	}
	run("init", "--config-store", filepath.Join(dir, "store"))
	run("issue", "us")
	run("issue", "eu", "--valid", "48h")
	for file, want := range map[string]time.Duration{"ca.crt": certs.ValidCA, "region-us.crt": certs.ValidLeaf, "region-eu.crt": 48 * time.Hour} {
		end, err := certs.Expiry(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(end); left > want || left < want-24*time.Hour {
			t.Errorf("%s is valid for %s, want %s", file, left, want)
		}
	}
}

// Whatever a file holds, it is refused or becomes one JSON document, and a
// refusal finds a line of it.
func FuzzReadDocument(f *testing.F) {
	example, err := os.ReadFile("../../../topology-examples/full-mesh.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add("topology: {full-mesh: [us, &a eu, *a]}\nnamespace: acme/shop\n")
	f.Add("- a")
	f.Add("a: !!binary 8=\n? [b]\n: c")
	f.Fuzz(func(t *testing.T, text string) {
		c := &cobra.Command{}
		c.SetIn(strings.NewReader(text))
		d, err := readDocument(c, "-", "namespace", "acme/shop")
		if err != nil {
			return
		}
		if len(d.json) == 0 || d.json[0] != '{' {
			t.Errorf("JSON %s", d.json)
		}
		if line := d.line("topology.full-mesh[1]"); line < 1 || line > strings.Count(text, "\n")+1 {
			t.Errorf("line %d of %q", line, text)
		}
	})
}
