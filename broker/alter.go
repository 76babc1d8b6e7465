package broker

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// ConfigOp says what a ConfigChange does.
type ConfigOp int8

// The operations, numbered as in Kafka's IncrementalAlterConfigs (KIP-339).
const (
	ConfigSet      ConfigOp = 0
	ConfigDelete   ConfigOp = 1
	ConfigAppend   ConfigOp = 2 // adds words to a list
	ConfigSubtract ConfigOp = 3 // takes words from a list
)

// ConfigChange changes one setting.
type ConfigChange struct {
	Name  string
	Op    ConfigOp
	Value string // not for ConfigDelete
}

// AlterTopic changes settings of a topic, all or none, unless check says that
// they are only to be checked. Those of a topic of several regions are changed in the
// mesh's document, and so in all of them. Errors are of kind not found, invalid, or
// unavailable while the configuration store that such a change needs is down.
func (b *Broker) AlterTopic(ctx context.Context, topic rhumb.Topic, changes []ConfigChange, check bool) error {
	return b.alterTopic(ctx, topic, check, func(map[string]string) []ConfigChange { return changes })
}

// ReplaceTopic gives a topic exactly these settings; see AlterTopic.
func (b *Broker) ReplaceTopic(ctx context.Context, topic rhumb.Topic, configs map[string]string, check bool) error {
	return b.alterTopic(ctx, topic, check, func(old map[string]string) []ConfigChange { return replacing(old, configs) })
}

// alterTopic makes the changes that are to be made of what there is.
func (b *Broker) alterTopic(ctx context.Context, topic rhumb.Topic, check bool, changesOf func(old map[string]string) []ConfigChange) error {
	info, ok := b.region.Topic(topic)
	if !ok {
		return rhumb.Errorf(rhumb.KindNotFound, "The topic '%s' does not exist.", topic.Short())
	}
	var changed []string
	change := func(old map[string]string) (map[string]string, error) {
		changes := changesOf(old)
		changed = names(changes)
		layers := b.layers(&info)
		layers.Topic = old
		after, err := alter(old, changes, topicconf.Topic, layers.Get)
		if err == nil {
			err = topicconf.CheckTopic(after, stated(changes)...)
		}
		return after, err
	}
	var err error
	switch {
	case check:
		_, err = change(info.Configs)
		return err
	case b.ofMesh(&info):
		err = b.alterInMesh(ctx, &info, change)
	default:
		_, err = b.region.AlterTopicConfigs(ctx, topic, change)
	}
	if err == nil {
		b.log.Info("topic settings changed", "topic", topic.String(), "settings", changed)
	}
	return err
}

// replacing gives the changes that make one set of settings another.
func replacing(old, configs map[string]string) []ConfigChange {
	var changes []ConfigChange
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, stays := configs[name]; !stays {
			changes = append(changes, ConfigChange{Name: name, Op: ConfigDelete})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		changes = append(changes, ConfigChange{Name: name, Value: configs[name]})
	}
	return changes
}

// AlterNode changes settings of one node by its id, or of all nodes of the region
// if node is empty; see AlterTopic. Only settings that have an effect at run time
// can be changed.
func (b *Broker) AlterNode(ctx context.Context, node string, changes []ConfigChange, check bool) error {
	change := func(old map[string]string) (map[string]string, error) {
		layers := b.region.NodeLayers()
		get := func(d *topicconf.Def) string {
			if v, ok := old[d.Name]; ok {
				return v
			}
			if all := layers.NodeAll(d); len(all) > 0 {
				return all[0].Value
			}
			return d.Default
		}
		after, err := alter(old, changes, topicconf.Node, get)
		if err == nil {
			err = topicconf.CheckNode(after, stated(changes)...)
		}
		return after, err
	}
	if check {
		_, err := change(b.region.Settings(node))
		return err
	}
	err := b.region.AlterSettings(ctx, node, change)
	if err == nil {
		b.log.Info("settings of nodes changed", "node", node, "settings", names(changes))
	}
	return err
}

// ReplaceNode gives a node exactly these settings of its own; see AlterNode.
func (b *Broker) ReplaceNode(ctx context.Context, node string, configs map[string]string, check bool) error {
	return b.AlterNode(ctx, node, replacing(b.region.Settings(node), configs), check)
}

// stated gives the names of what gets a value: deleting what is not known is no
// fault.
func stated(changes []ConfigChange) []string {
	return names(slices.DeleteFunc(slices.Clone(changes), func(c ConfigChange) bool { return c.Op == ConfigDelete }))
}

func names(changes []ConfigChange) []string {
	out := make([]string, 0, len(changes))
	for _, c := range changes {
		out = append(out, c.Name)
	}
	return out
}

// alter gives the settings after the changes. Words are added to, or taken from,
// the value that holds, whichever layer it is of.
func alter(old map[string]string, changes []ConfigChange, find func(string) *topicconf.Def, get func(*topicconf.Def) string) (map[string]string, error) {
	after := maps.Clone(old)
	if after == nil {
		after = map[string]string{}
	}
	for _, c := range changes {
		switch c.Op {
		case ConfigSet:
			after[c.Name] = c.Value
			continue
		case ConfigDelete:
			delete(after, c.Name)
			continue
		}
		verb := map[ConfigOp]string{ConfigAppend: "APPEND", ConfigSubtract: "SUBTRACT"}[c.Op]
		d := find(c.Name)
		switch {
		case verb == "":
			return nil, rhumb.Errorf(rhumb.KindInvalid, "Unknown operation %d on config %s", c.Op, c.Name)
		case d == nil || d.Type != topicconf.List:
			return nil, rhumb.Errorf(rhumb.KindInvalid, "Can't %s to key %s because its type is not LIST.", verb, c.Name)
		}
		words := topicconf.Words(get(d))
		for _, word := range topicconf.Words(c.Value) {
			words = slices.DeleteFunc(words, func(w string) bool { return w == word && c.Op == ConfigSubtract })
			if c.Op == ConfigAppend && !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
		after[c.Name] = strings.Join(words, ",")
	}
	return after, nil
}
