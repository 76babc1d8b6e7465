package main

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// walk calls fn for every command that a person may give, below the root.
func walk(c *cobra.Command, fn func(*cobra.Command)) {
	for _, child := range c.Commands() {
		if child.Name() == "completion" || child.Name() == "help" {
			continue
		}
		fn(child)
		walk(child, fn)
	}
}

// plainText are commands whose output is no data, with the reason.
var plainText = map[string]string{
	"rhumb server":    "runs a region; its log has a format of its own",
	"rhumb dev":       "runs a mesh",
	"rhumb log renew": "makes one file and names it; log verify has -o",
	"rhumb log dump":  "writes out a data directory for people; log verify has -o",
}

// TestEveryCommandHasFormats: what a command prints comes as a table, as JSON and
// as YAML.
func TestEveryCommandHasFormats(t *testing.T) {
	found := 0
	walk(newRoot(), func(c *cobra.Command) {
		if !c.Runnable() || c.HasSubCommands() && c.Name() != "dev" {
			return // only lists its children
		}
		found++
		f := c.Flag("output")
		if _, is := plainText[c.CommandPath()]; is == (f != nil) {
			t.Errorf("%s: -o is there: %v", c.CommandPath(), f != nil)
		}
		if f != nil && (f.Shorthand != "o" || f.Value.Set("json") != nil || f.Value.Set("yaml") != nil || f.Value.Set("table") != nil || f.Value.Set("xml") == nil) {
			t.Errorf("%s: -o takes something else than table, json and yaml", c.CommandPath())
		}
	})
	if found < 30 {
		t.Errorf("only %d commands", found)
	}
}

// TestEveryCommandExplainsItself: each has a line of help that says what it does,
// and each flag one that says what it is for.
func TestEveryCommandExplainsItself(t *testing.T) {
	walk(newRoot(), func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Short[:1] != strings.ToUpper(c.Short[:1]) {
			t.Errorf("%s: %q is no line of help", c.CommandPath(), c.Short)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no help", c.CommandPath(), f.Name)
			}
		})
	})
}

// TestNamesAreCompleted: an argument that is a name of something in the mesh can be
// completed, so that nobody has to know it by heart.
func TestNamesAreCompleted(t *testing.T) {
	made := map[string]bool{"create": true, "register": true, "certs": true} // the name is new
	walk(newRoot(), func(c *cobra.Command) {
		if made[c.Name()] || made[c.Parent().Name()] || c.Parent().Name() == "dev" {
			return
		}
		for _, word := range strings.Fields(c.Use)[1:] {
			switch strings.Trim(word, "[]…") {
			case "TOPIC", "TENANT", "TENANT/NAMESPACE", "NAMESPACE", "USER", "REGION", "A":
				if c.ValidArgsFunction == nil {
					t.Errorf("%s %s: nothing completes it", c.CommandPath(), word)
				}
			}
		}
	})
}

// TestCommandLinePageNamesAllVariables compares docs/cli.md with the help.
func TestCommandLinePageNamesAllVariables(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	help, _, err := newRoot().Find([]string{"environment"})
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`RHUMB_[A-Z]+`)
	in := func(text string) map[string]bool {
		all := map[string]bool{}
		for _, v := range variable.FindAllString(text, -1) {
			all[v] = true
		}
		return all
	}
	if a, b := in(string(page)), in(help.Long); len(a) < 7 || !maps.Equal(a, b) {
		t.Errorf("docs/cli.md names %v, rhumb help environment %v", a, b)
	}
}
