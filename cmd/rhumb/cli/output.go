package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// format is the flag -o.
type format struct{ name string }

func (f *format) flags(c *cobra.Command) {
	c.PersistentFlags().VarP(f, "output", "o", "table, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// String, Set and Type make it a flag.
func (f *format) String() string {
	if f.name == "" {
		return "table"
	}
	return f.name
}

// Set takes one of the formats.
func (f *format) Set(s string) error {
	switch s {
	case "table", "json", "yaml":
		f.name = s
		return nil
	}
	return fmt.Errorf("want table, json or yaml")
}

// Type names the flag's value in help.
func (f *format) Type() string { return "format" }

// print writes a value in the format that was asked for; table writes rows whose
// cells are separated by tabs.
func (f *format) print(out io.Writer, v any, table func(w io.Writer)) error {
	if f.String() == "table" {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		table(w)
		return w.Flush()
	}
	text, err := jsonText(v, "  ")
	if err != nil {
		return err
	}
	if f.name == "yaml" {
		if text, err = asYAML(text); err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}

func jsonText(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return b.Bytes(), nil
}

// asYAML writes JSON, which is YAML already, the way people expect it: in
// blocks, with quotes only where they are needed, keys in the same order.
func asYAML(text []byte) ([]byte, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	block(&n)
	out, err := yaml.Marshal(&n)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return out, nil
}

// writeDocument writes a document in YAML as a person writes it: bounds of retention have
// their units.
func writeDocument(out io.Writer, doc any) error {
	text, err := jsonText(doc, "")
	if err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	block(&n)
	withUnits(&n, "")
	text, err = yaml.Marshal(&n)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	_, err = out.Write(text)
	return err
}

// withUnits gives the bounds of retention their units; field is the node's.
func withUnits(n *yaml.Node, field string) {
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode {
			withUnits(c, "")
		}
		if n.Kind != yaml.MappingNode || i%2 == 0 {
			continue
		}
		key := n.Content[i-1].Value
		if v, err := strconv.ParseInt(c.Value, 10, 64); err == nil && c.Kind == yaml.ScalarNode {
			if text := boundText(field, key, v); text != "" {
				c.Value, c.Tag = text, "!!str"
			}
		}
		withUnits(c, key)
	}
}

func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

// row writes one line of a table.
func row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
		if text[i] == "" {
			text[i] = "-"
		}
	}
	fmt.Fprintln(w, strings.Join(text, "\t"))
}

// when writes ms since 1970 as a time.
func when(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

// size writes bytes for people.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[u])
}

// figure writes a count that may not be known.
func figure(n int64) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprint(n)
}

// seconds writes a duration of seconds for people.
func seconds(s float64) string {
	if s < 0 {
		return "?"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// Output is the flag -o, for commands that are made elsewhere.
type Output struct{ format }

// Flags adds -o to a command and its children.
func (o *Output) Flags(c *cobra.Command) { o.flags(c) }

// Print writes a value as -o says; table writes rows of cells between tabs.
func (o *Output) Print(out io.Writer, v any, table func(w io.Writer)) error {
	return o.print(out, v, table)
}
