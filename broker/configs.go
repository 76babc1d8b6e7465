package broker

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// ConfigEntry is a setting and its value.
type ConfigEntry struct {
	Name     string
	Value    *string // nil: not set, and without a default
	Source   topicconf.Source
	Type     topicconf.Type
	Doc      string
	ReadOnly bool // cannot be changed at run time
	// Synonyms are what the layers say, the one that holds first.
	Synonyms []topicconf.Value
}

// TopicConfigs lists the settings of a topic, sorted by name.
func (b *Broker) TopicConfigs(t *TopicInfo) []ConfigEntry {
	layers := b.layers(t)
	defs := topicconf.TopicDefs()
	list := make([]ConfigEntry, 0, len(defs))
	for i := range defs {
		d := &defs[i]
		all := layers.All(d)
		if _, own := t.Configs[d.Name]; d.Hidden && !own {
			continue
		}
		e := ConfigEntry{Name: d.Name, Type: d.Type, Doc: d.Doc, Source: topicconf.FromDefault, Synonyms: all}
		value := d.Default
		if len(all) > 0 {
			value, e.Source = all[0].Value, all[0].Source
		}
		e.Value = &value
		list = append(list, e)
	}
	for name, value := range t.Configs {
		if topicconf.Topic(name) == nil { // of another version
			list = append(list, ConfigEntry{Name: name, Value: &value, Source: topicconf.FromTopic, Doc: "Not known to this version; it has no effect.",
				Synonyms: []topicconf.Value{{Name: name, Value: value, Source: topicconf.FromTopic}}})
		}
	}
	slices.SortFunc(list, func(x, y ConfigEntry) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// NodeConfigs lists the settings of this node, sorted by name. facts are those
// that the caller knows better than the broker, such as addresses.
func (b *Broker) NodeConfigs(facts map[string]string) []ConfigEntry {
	layers := b.region.NodeLayers()
	layers.Static = maps.Clone(b.static)
	maps.Copy(layers.Static, topicconf.Static(facts))
	maps.Copy(layers.Static, topicconf.Static(b.cfg.groupFacts()))
	defs := topicconf.NodeDefs()
	list := make([]ConfigEntry, 0, len(defs))
	for i := range defs {
		d := &defs[i]
		e := ConfigEntry{Name: d.Name, Type: d.Type, Doc: d.Doc, Source: topicconf.FromDefault, ReadOnly: !d.Dynamic, Synonyms: layers.NodeAll(d)}
		if len(e.Synonyms) > 0 {
			value := e.Synonyms[0].Value
			e.Value, e.Source = &value, e.Synonyms[0].Source
		}
		list = append(list, e)
	}
	return list
}

// RegionConfigs lists what was set at run time for all nodes, sorted by name.
func (b *Broker) RegionConfigs() []ConfigEntry {
	var list []ConfigEntry
	values := b.region.NodeLayers().Region
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		e := ConfigEntry{Name: name, Value: &value, Source: topicconf.FromRegion, Synonyms: []topicconf.Value{{Name: name, Value: value, Source: topicconf.FromRegion}}}
		if d := topicconf.Node(name); d != nil {
			e.Type, e.Doc = d.Type, d.Doc
		}
		list = append(list, e)
	}
	return list
}

// staticConfigs is what the configuration says of nodes, where it differs from
// the table.
func (c Config) staticConfigs() map[string]string {
	all := maps.Clone(c.Region.NodeLayers().Static)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, topicconf.Static(map[string]string{
		"auto.create.topics.enable": strconv.FormatBool(!c.NoAutoCreate),
		"message.max.bytes":         strconv.Itoa(c.MaxMessageBytes),
		"num.partitions":            strconv.Itoa(int(c.Partitions)),
	}))
	return all
}

// groupFacts are the settings of nodes that the coordinator of groups has, where
// they are not its defaults.
func (c Config) groupFacts() map[string]string {
	facts := map[string]string{}
	say := func(name string, d, unit time.Duration) {
		if d != 0 {
			facts[name] = strconv.FormatInt(int64(max(d, 0)/unit), 10)
		}
	}
	say("group.initial.rebalance.delay.ms", c.Groups.InitialDelay, time.Millisecond)
	say("group.min.session.timeout.ms", c.Groups.MinSession, time.Millisecond)
	say("group.max.session.timeout.ms", c.Groups.MaxSession, time.Millisecond)
	say("offsets.retention.minutes", c.Groups.OffsetsRetention, time.Minute)
	if c.Groups.MaxMembers > 0 {
		facts["group.max.size"] = strconv.Itoa(c.Groups.MaxMembers)
	}
	return facts
}

// layers gives what holds for a topic, with what this broker's configuration
// says. Settings of a topic that is not there yet are found in the same way.
func (b *Broker) layers(t *TopicInfo) topicconf.Layers {
	l := b.region.Layers(*t)
	l.Static = b.static
	return l
}

// settings are the topic settings that the write path needs.
type settings struct {
	maxMessage int
	before     int64 // ms
	after      int64 // ms
	compacted  bool
	full       bool // look at each record
	appendTime bool // LogAppendTime
}

var (
	confMaxMessage    = topicconf.Topic(topicconf.MaxMessage)
	confBefore        = topicconf.Topic(topicconf.TimestampBefore)
	confAfter         = topicconf.Topic(topicconf.TimestampAfter)
	confCleanup       = topicconf.Topic(topicconf.CleanupPolicy)
	confTimestampType = topicconf.Topic(topicconf.TimestampType)
	confValidate      = topicconf.Topic(topicconf.Validate)
)

// settingsOf reads the settings that hold for a topic.
func (b *Broker) settingsOf(t *TopicInfo) settings {
	l := topicconf.Layers{Topic: t.Configs}
	if node := b.region.NodeLayers(); len(t.Configs)+len(node.Node)+len(node.Region) == 0 {
		return b.defaults
	} else if len(node.Node)+len(node.Region) > 0 {
		l.Node, l.Region = node.Node, node.Region
	}
	l.Static = b.static
	return readSettings(l)
}

// readSettings leaves the namespace out: it says nothing of these.
func readSettings(l topicconf.Layers) settings {
	s := settings{
		maxMessage: int(min(l.Number(confMaxMessage), math.MaxInt32)),
		before:     l.Number(confBefore),
		after:      l.Number(confAfter),
		compacted:  l.Has(confCleanup, topicconf.Compact),
		appendTime: l.Get(confTimestampType) == topicconf.LogAppendTime,
	}
	// The header has the first and the largest timestamp: what lies too far in the
	// past is found only among the records.
	s.full = s.compacted || l.Get(confValidate) == "full" || s.before != topicconf.DefaultTimestampBefore && !s.appendTime
	return s
}
