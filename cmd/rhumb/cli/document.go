package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
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
	text, err := readFile(c, file)
	if err != nil {
		return nil, err
	}
	d := &documentFile{name: file}
	refuse := func(line int, format string, args ...any) (*documentFile, error) {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%s:%d: %s", file, line, fmt.Sprintf(format, args...))
	}
	var root yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&root); err != nil && err != io.EOF {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", file, err)
	}
	if root.Kind != yaml.DocumentNode || root.Content[0].Kind != yaml.MappingNode {
		return refuse(max(1, root.Line), "is no document: want fields, such as topology")
	}
	d.root = root.Content[0]
	if err := in.Decode(&yaml.Node{}); err != io.EOF {
		return refuse(1, "holds more than one document")
	}
	fields := map[string]any{}
	if err := d.root.Decode(&fields); err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%s: %s", file, oneLine(err))
	}
	if own, there := fields[kind]; there {
		if own != name {
			return refuse(d.line(kind), "field %s: is the document of %v, not of %s", kind, own, name)
		}
		delete(fields, kind)
	}
	if d.json, err = json.Marshal(fields); err != nil {
		return refuse(1, "cannot be JSON: %v", err)
	}
	return d, nil
}

// oneLine gives what YAML's decoder says without its line breaks.
func oneLine(err error) string {
	var many *yaml.TypeError
	if errors.As(err, &many) {
		return strings.Join(many.Errors, "; ")
	}
	return err.Error()
}

func readFile(c *cobra.Command, file string) ([]byte, error) {
	in := c.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "%w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, configstore.MaxDocumentBytes+1))
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", file, err)
	}
	if len(text) > configstore.MaxDocumentBytes {
		return nil, rhumb.Errorf(rhumb.KindTooLarge, "%s: is over %d bytes", file, configstore.MaxDocumentBytes)
	}
	return text, nil
}

// locate puts the file and the line before a refusal that names a field.
func (d *documentFile) locate(err error) error {
	var field *client.FieldError
	if d.root == nil || !errors.As(err, &field) {
		return err
	}
	return rhumb.Errorf(rhumb.KindOf(err), "%s:%d: %w", d.name, d.line(field.Field), err)
}

// line gives the line of what a field's path, such as topology.full-mesh[1],
// leads to, or of the last word of it that is there.
func (d *documentFile) line(path string) int {
	at, line := d.root, d.root.Line
	for _, word := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, begins := child(at, word)
		if next == nil {
			break
		}
		at, line = next, begins
	}
	return line
}

// child gives a field or an element of a node, and the line that it begins in.
func child(n *yaml.Node, word string) (*yaml.Node, int) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == word {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(word); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	}
	return nil, 0
}
