package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/yamlfault"
)

// documentFile is a document that a person wrote, as YAML or JSON.
type documentFile struct {
	name string // of the file; empty if there is none
	json json.RawMessage
	root *yaml.Node // its mapping
}

// readDocument reads a file. A field named kind, as 'show' prints it, must be the
// document's name.
func readDocument(c *cobra.Command, file, kind, name string) (*documentFile, error) {
	d, fields, err := readFields(c, file, "topology", configstore.MaxDocumentBytes)
	if err != nil {
		return nil, err
	}
	if own, there := fields[kind]; there {
		if own != name {
			return nil, d.refuse(d.line(kind), "field %s: is the document of %v, not of %s", kind, own, name)
		}
		delete(fields, kind)
	}
	return d, d.encode(fields)
}

// Limits of files that are read whole.
const (
	maxTopologyBytes = 1000 << 10 // two documents of the store's, see [configstore.MaxDocumentBytes]
	maxPlanBytes     = 8 << 20
)

// readTopology reads a topology file.
func readTopology(c *cobra.Command, file string) (*documentFile, error) {
	d, fields, err := readFields(c, file, "tenants", maxTopologyBytes)
	if err != nil {
		return nil, err
	}
	return d, d.encode(fields)
}

// readFields reads a file of fields, such as the one that is named.
func readFields(c *cobra.Command, file, such string, limit int) (*documentFile, map[string]any, error) {
	text, err := readUpTo(c, file, limit)
	if err != nil {
		return nil, nil, err
	}
	d := &documentFile{name: file}
	var root yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&root); err != nil && err != io.EOF {
		return nil, nil, d.noYAML(text, err)
	}
	if root.Kind != yaml.DocumentNode || root.Content[0].Kind != yaml.MappingNode {
		return nil, nil, d.refuse(max(1, root.Line), "is no document: want fields, such as %s", such)
	}
	d.root = root.Content[0]
	var second yaml.Node
	if err := in.Decode(&second); err != io.EOF {
		if err != nil {
			return nil, nil, d.noYAML(text, err)
		}
		return nil, nil, d.refuse(max(1, second.Line), "a second document begins: want one")
	}
	if n := textKeys(d.root); n != nil {
		return nil, nil, d.refuse(n.Line, "a name must be text, not a list or fields")
	}
	fields := map[string]any{}
	if err := d.root.Decode(&fields); err != nil {
		return nil, nil, d.noYAML(text, err)
	}
	return d, fields, nil
}

// textKeys makes each key the text that is written, also one that YAML would read as a
// number or as true: keys are names. It gives the first one that is no text at all.
func textKeys(n *yaml.Node) (bad *yaml.Node) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case c.Kind == yaml.AliasNode || c.Tag == "!!merge":
			case c.Kind != yaml.ScalarNode:
				return c
			default:
				c.Tag, c.Style = "!!str", yaml.DoubleQuotedStyle
			}
		}
		if bad := textKeys(c); bad != nil {
			return bad
		}
	}
	return nil
}

func (d *documentFile) encode(fields map[string]any) (err error) {
	if d.json, err = json.Marshal(fields); err != nil {
		return d.refuse(1, "cannot be JSON: %v", err)
	}
	return nil
}

func (d *documentFile) refuse(line int, format string, args ...any) error {
	return rhumb.Errorf(rhumb.KindInvalid, "%s:%d: %s", d.name, line, fmt.Sprintf(format, args...))
}

// noYAML refuses a text that YAML's decoder refuses, as fields are refused: by line.
func (d *documentFile) noYAML(text []byte, err error) error {
	faults := yamlfault.Of(text, err)
	if len(faults) == 1 {
		return d.refuse(faults[0].Line, "is no YAML: %s", faults[0].What)
	}
	var all mistakes
	for i, f := range faults {
		if i == configstore.MaxFieldErrorsTold {
			all = append(all, d.more(len(faults)-i))
			break
		}
		all = append(all, fmt.Errorf("%s:%d: is no YAML: %s", d.name, f.Line, f.What))
	}
	return &rhumb.Error{Kind: rhumb.KindInvalid, Err: all}
}

// more says that there are mistakes which are not told.
func (d *documentFile) more(n int) error {
	return fmt.Errorf("%s: and %d more mistakes, which are told when these are corrected", d.name, n)
}

// readUpTo reads a file, or standard input for -, of so many bytes at most.
func readUpTo(c *cobra.Command, file string, limit int) ([]byte, error) {
	in := c.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "%w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", file, err)
	}
	if len(text) > limit {
		return nil, rhumb.Errorf(rhumb.KindTooLarge, "%s: is over %d bytes", file, limit)
	}
	return text, nil
}

// mistakes are what is wrong with a file, by line: each is told in a line of its own.
type mistakes []error

func (m mistakes) Error() string {
	var all []string
	for _, err := range m {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

// refusedFields gives the fields that an error refuses, whoever found them, with what is
// said of each.
func refusedFields(err error) (all []api.FieldRefusal) {
	var remote *client.FieldError
	if errors.As(err, &remote) {
		if len(remote.All) > 0 {
			return remote.All
		}
		return []api.FieldRefusal{{Field: remote.Field, Message: err.Error()}}
	}
	local := configstore.FieldsOf(err)
	for i := range local {
		all = append(all, api.FieldRefusal{Field: local[i].Field, Message: local[i].Error()})
	}
	if len(local) == 1 {
		all[0].Message = err.Error()
	}
	return all
}

// locate puts the file and the line before a refusal that names a field. Several come in
// the order of their lines, at most as many as a person reads.
func (d *documentFile) locate(err error) error {
	all := refusedFields(err)
	if d.root == nil || len(all) == 0 {
		return err
	}
	kind := rhumb.KindOf(err)
	if len(all) == 1 {
		return rhumb.Errorf(kind, "%s:%d: %s", d.name, d.line(all[0].Field), all[0].Message)
	}
	lines := map[string]int{}
	for _, f := range all {
		lines[f.Field] = d.line(f.Field)
	}
	slices.SortStableFunc(all, func(a, b api.FieldRefusal) int { return cmp.Compare(lines[a.Field], lines[b.Field]) })
	var out mistakes
	for i, f := range all {
		if i == configstore.MaxFieldErrorsTold {
			out = append(out, d.more(len(all)-i))
			break
		}
		out = append(out, fmt.Errorf("%s:%d: %s", d.name, lines[f.Field], f.Message))
	}
	return &rhumb.Error{Kind: kind, Err: out}
}

// line gives the line of what a field's path, such as topology.full-mesh[1], leads
// to, or of the last part of it that is there. Names may have dots in them.
func (d *documentFile) line(path string) int {
	at, line := d.root, d.root.Line
	for path != "" {
		next, begins, rest := child(at, path)
		if next == nil {
			break
		}
		at, line, path = next, begins, strings.TrimPrefix(rest, ".")
	}
	return line
}

// child gives the field or element of a node that a path begins with, the line that
// it begins in, and the rest of the path.
func child(n *yaml.Node, path string) (next *yaml.Node, line int, rest string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			after, is := strings.CutPrefix(path, n.Content[i].Value)
			if is && (after == "" || after[0] == '.' || after[0] == '[') && (next == nil || len(after) < len(rest)) {
				next, line, rest = n.Content[i+1], n.Content[i].Line, after
			}
		}
	case yaml.SequenceNode:
		index, after, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line, after
		}
	}
	return next, line, rest
}
