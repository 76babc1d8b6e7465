package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fieldError is a refusal of a field; the path is as in the file, such as
// listeners[1].bind.
type fieldError struct {
	path   string
	reason string
	cause  string // path of a field that made it so: it may be the one in the file
}

func (e *fieldError) Error() string { return "config: " + e.path + ": " + e.reason }

func refuse(path, format string, args ...any) error {
	return &fieldError{path: path, reason: fmt.Sprintf(format, args...)}
}

// lines finds the line of a field in the file.
type lines struct{ root yaml.Node }

// locate puts the line into a refusal. A field that the file does not have is at the
// line of the one that caused it, else of what would hold it.
func (l *lines) locate(err error) error {
	var fe *fieldError
	if !errors.As(err, &fe) {
		return err
	}
	line, is := l.find(fe.path)
	if cause, ok := l.find(fe.cause); ok && !is {
		line = cause
	}
	if line > 0 {
		return fmt.Errorf("config: line %d: %s: %s", line, fe.path, fe.reason)
	}
	return err
}

// find gives the line of a field, and if it is there; else of what would hold it.
func (l *lines) find(path string) (line int, is bool) {
	if len(l.root.Content) == 0 {
		return 0, false
	}
	node, line := l.root.Content[0], 0
	for part := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		next, at := child(node, part)
		if next == nil {
			return line, false
		}
		node, line = next, at
	}
	return line, true
}

// child gives a key's value or a list's element, and the line it starts in.
func child(n *yaml.Node, part string) (*yaml.Node, int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == part {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		i, err := strconv.Atoi(strings.Trim(part, "[]"))
		if err == nil && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	}
	return nil, 0
}

// guards are keys that protect a listener, or say which store a region belongs to.
// One with nothing behind it is null in YAML, as if it were not there: it would leave
// the listener open, or take another store than the one that is meant.
var guards = map[string]bool{"tls": true, "sasl": true, "consul": true}

// hollow gives the first of these keys that has nothing behind it, nil if none has.
func (l *lines) hollow(n *yaml.Node) *yaml.Node {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && guards[c.Value] && n.Content[i+1].Tag == "!!null" {
			return c
		}
		if found := l.hollow(c); found != nil {
			return found
		}
	}
	return nil
}
