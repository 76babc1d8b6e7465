package broker

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Names of topic settings that the broker itself acts on.
const (
	ConfigCleanupPolicy  = "cleanup.policy"
	ConfigMaxMessage     = "max.message.bytes"
	ConfigTimestampType  = "message.timestamp.type"
	ConfigTimestampAhead = "message.timestamp.after.max.ms"
	ConfigRetentionMs    = "retention.ms"
	ConfigRetentionBytes = "retention.bytes"
	ConfigCompression    = "compression.type"
	ConfigValidate       = "validate"
)

// ConfigType says how a setting's value reads.
type ConfigType int8

// Types of settings.
const (
	ConfigString ConfigType = iota
	ConfigInt
	ConfigLong
	ConfigList
)

// ConfigEntry is a setting and its value.
type ConfigEntry struct {
	Name    string
	Value   string
	Default string // what holds where the topic does not say
	Type    ConfigType
	Doc     string
	Own     bool // the topic says
}

// topicConfigs are the settings of topics that this version knows; words lists
// the values of those that are not numbers, low is the least number.
var topicConfigs = []struct {
	name, value string
	typ         ConfigType
	low         int64
	words       []string
	doc         string
}{
	{ConfigCleanupPolicy, "delete", ConfigList, 0, []string{"delete", "compact"}, "What happens to old records: delete, compact or both."},
	{ConfigCompression, "producer", ConfigString, 0, []string{"producer"}, "Batches are stored as the producer compressed them."},
	{ConfigMaxMessage, "", ConfigInt, 0, nil, "Largest batch in bytes, as it travels."},
	{ConfigTimestampAhead, strconv.Itoa(DefaultTimestampAhead), ConfigLong, 0, nil, "How far in the future a timestamp may lie, in ms."},
	{ConfigTimestampType, "CreateTime", ConfigString, 0, []string{"CreateTime", "LogAppendTime"}, "Whether timestamps are the producer's or the time of storing."},
	{ConfigRetentionBytes, "-1", ConfigLong, -1, nil, "Bytes of a partition that are kept, -1 for all."},
	{ConfigRetentionMs, "604800000", ConfigLong, -1, nil, "How long records are kept in ms, -1 for ever."},
	{ConfigValidate, "header", ConfigString, 0, []string{"header", "full"}, "Whether records are checked one by one."},
}

// CheckConfigs checks the values of settings that are known. Others are kept as
// they are: Kafka has many that mean nothing here, and tools set them.
func CheckConfigs(configs map[string]string) error {
	for i := range topicConfigs {
		c := &topicConfigs[i]
		v, ok := configs[c.name]
		if !ok {
			continue
		}
		switch c.typ {
		case ConfigInt, ConfigLong:
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < c.low || (c.typ == ConfigInt && n > 1<<31-1) {
				return rhumb.Errorf(rhumb.KindInvalid, "%s: %q is not a number from %d on", c.name, v, c.low)
			}
		default:
			for word := range strings.SplitSeq(v, ",") {
				if !slices.Contains(c.words, strings.TrimSpace(word)) {
					return rhumb.Errorf(rhumb.KindInvalid, "%s: %q is not one of %s", c.name, v, strings.Join(c.words, ", "))
				}
			}
		}
	}
	return nil
}

// TopicConfigs lists the settings of a topic, sorted by name.
func (b *Broker) TopicConfigs(t *TopicInfo) []ConfigEntry {
	var list []ConfigEntry
	unknown := maps.Clone(t.Configs)
	for i := range topicConfigs {
		c := &topicConfigs[i]
		e := ConfigEntry{Name: c.name, Value: c.value, Type: c.typ, Doc: c.doc}
		if c.name == ConfigMaxMessage {
			e.Value = strconv.Itoa(b.cfg.MaxMessageBytes)
		}
		e.Default = e.Value
		if v, ok := t.Configs[c.name]; ok {
			e.Value, e.Own = v, true
			delete(unknown, c.name)
		}
		list = append(list, e)
	}
	for name, value := range unknown {
		list = append(list, ConfigEntry{Name: name, Value: value, Own: true, Doc: "Kept for tools; it has no effect."})
	}
	slices.SortFunc(list, func(x, y ConfigEntry) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// NodeConfigs lists the settings of the node that Kafka tools look for, sorted
// by name.
func (b *Broker) NodeConfigs() []ConfigEntry {
	list := []ConfigEntry{
		{Name: "auto.create.topics.enable", Value: strconv.FormatBool(!b.cfg.NoAutoCreate), Doc: "Whether Metadata creates topics."},
		{Name: "default.replication.factor", Value: "1", Type: ConfigInt, Doc: "Replicas of a topic inside the region."},
		{Name: "message.max.bytes", Value: strconv.Itoa(b.cfg.MaxMessageBytes), Type: ConfigInt, Doc: "Largest batch in bytes, as it travels."},
		{Name: "num.partitions", Value: strconv.Itoa(int(b.cfg.Partitions)), Type: ConfigInt, Doc: "Partitions of a topic whose creator does not say."},
	}
	for i := range list {
		list[i].Default = list[i].Value
	}
	return list
}

// settings are the topic settings that the write path needs.
type settings struct {
	maxMessage int
	ahead      int64 // ms
	compacted  bool
	full       bool // look at each record
	appendTime bool // LogAppendTime
}

// settingsOf reads the settings of a topic. Values that do not parse, which
// CheckConfigs would have refused, count as absent.
func (b *Broker) settingsOf(configs map[string]string) settings {
	s := settings{maxMessage: b.cfg.MaxMessageBytes, ahead: DefaultTimestampAhead}
	if len(configs) == 0 {
		return s
	}
	if n, err := strconv.Atoi(configs[ConfigMaxMessage]); err == nil {
		s.maxMessage = n
	}
	if n, err := strconv.ParseInt(configs[ConfigTimestampAhead], 10, 64); err == nil {
		s.ahead = n
	}
	s.compacted = strings.Contains(configs[ConfigCleanupPolicy], "compact")
	s.full = s.compacted || configs[ConfigValidate] == "full"
	s.appendTime = configs[ConfigTimestampType] == "LogAppendTime"
	return s
}
