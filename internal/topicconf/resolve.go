package topicconf

import (
	"strconv"
	"strings"
)

// Source says which layer a value comes from.
type Source uint8

// The layers, the nearest first.
const (
	FromTopic Source = iota
	FromNamespace
	FromNode
	FromRegion
	FromStatic
	FromDefault
)

// Layers are the settings that hold for a topic, or, without the first two, for a
// node. Nil maps say nothing.
type Layers struct {
	Topic     map[string]string // by topic names, as Namespace
	Namespace map[string]string
	Node      map[string]string // by node names, as Region and Static
	Region    map[string]string
	Static    map[string]string
}

// Value is what a layer says.
type Value struct {
	Name   string // as that layer knows the setting
	Value  string
	Source Source
}

// All gives what the layers say of a topic's setting, the one that holds first.
// The default is among them unless nodes have no name for the setting.
func (l Layers) All(d *Def) []Value {
	var out []Value
	add := func(layer map[string]string, name string, from Source) {
		if v, ok := layer[name]; ok && name != "" {
			out = append(out, Value{name, v, from})
		}
	}
	add(l.Topic, d.Name, FromTopic)
	add(l.Namespace, d.Name, FromNamespace)
	nearer := len(out)
	add(l.Node, d.Node, FromNode)
	add(l.Region, d.Node, FromRegion)
	add(l.Static, d.Node, FromStatic)
	if len(out) > nearer {
		out = append(out, coarser(d.Node)...)
	}
	if d.Node != "" && !d.Unset {
		out = append(out, Value{d.Node, d.Default, FromDefault})
	}
	return out
}

// coarser gives the defaults of settings that say the same in a coarser unit, which
// Kafka lists behind one of its own name only if that is set.
func coarser(name string) []Value {
	if name != retentionNode {
		return nil
	}
	return []Value{{hoursNode, Node(hoursNode).Default, FromDefault}}
}

// Get gives the value that holds.
func (l Layers) Get(d *Def) string {
	for _, layer := range [...]struct {
		values map[string]string
		name   string
	}{{l.Topic, d.Name}, {l.Namespace, d.Name}, {l.Node, d.Node}, {l.Region, d.Node}, {l.Static, d.Node}} {
		if v, ok := layer.values[layer.name]; ok {
			return v
		}
	}
	return d.Default
}

// Number gives a number that holds; a value that is none, which only an older
// version can have stored, counts as the default.
func (l Layers) Number(d *Def) int64 { return Number(l.Get(d), Number(d.Default, 0)) }

// Ratio gives a fraction that holds, likewise.
func (l Layers) Ratio(d *Def) float64 {
	for _, text := range []string{l.Get(d), d.Default} {
		if v, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
			return v
		}
	}
	return 0
}

// Has reports whether a list that holds has a word.
func (l Layers) Has(d *Def, word string) bool {
	for _, w := range Words(l.Get(d)) {
		if w == word {
			return true
		}
	}
	return false
}
