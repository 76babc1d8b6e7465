package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Names of a topology file are the text that is written, whatever YAML makes of it; what
// is no text is refused with its line.
func TestNamesAreText(t *testing.T) {
	for text, want := range map[string]string{
		"tenants: {1: {}, true: {}, 2.50: {}}\n":     `{"tenants":{"1":{},"2.50":{},"true":{}}}`,
		"tenants: {acme: {allowed_regions: [us]}}\n": `{"tenants":{"acme":{"allowed_regions":["us"]}}}`,
		"tenants:\n  [a]: {}\n":                      "file.yaml:2: a name must be text",
	} {
		file := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := readTopology(&cobra.Command{}, file)
		switch {
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v", text, err)
		case err == nil && string(d.json) != want:
			t.Errorf("%q: %s, want %s", text, d.json, want)
		}
	}
}
