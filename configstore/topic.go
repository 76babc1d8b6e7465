package configstore

import (
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// Topic is the document of one topic. It exists only where the topic differs
// from its namespace, or was deleted in the whole mesh at least once. It has no
// tombstone: that would forget the count.
type Topic struct {
	Meta
	// Topic is in the key.
	Topic rhumb.Topic `json:"-"`
	// Deletions counts how often the topic was deleted in the whole mesh. A life
	// that was born under a lower count is deleted everywhere.
	Deletions uint64 `json:"deletions,omitzero"`
	// Partitions is how many the topic has at least; zero leaves it to the lives.
	Partitions int32 `json:"partitions,omitzero"`
	// Configs are Kafka topic configs that differ from the namespace. nil: none
	// were ever set.
	Configs map[string]string `json:"configs,omitzero"`
	// Topology of this topic, in place of the namespace's: any shape but
	// active-standby, since roles are the namespace's. nil: as the namespace. An
	// empty list (full-mesh: []): the topic stays in its region.
	Topology *Topology `json:"topology,omitzero"`
	// Retention of this topic. A bound that is nil is the namespace's. What Kafka
	// clients set for the topic goes before it.
	Retention *Retention `json:"retention,omitzero"`
}

// MaxPartitions bounds the partitions of a topic.
const MaxPartitions = 100_000

func (t *Topic) validate(old *Topic) error {
	switch {
	case t.Deleted:
		return invalid("deleted", "a topic's document is never deleted: its deletion count goes up")
	case t.Partitions < 0 || t.Partitions > MaxPartitions:
		return invalid("partitions", "must be 1 to %d, not %d", MaxPartitions, t.Partitions)
	}
	if old != nil {
		if t.Deletions < old.Deletions {
			return invalid("deletions", "only grows: it is %d, not %d", old.Deletions, t.Deletions)
		}
		if t.Deletions == old.Deletions && t.Partitions < old.Partitions {
			return invalid("partitions", "cannot shrink from %d to %d", old.Partitions, t.Partitions)
		}
	}
	if err := t.validatePolicy(); err != nil {
		return err
	}
	return ValidateTopicConfigs(t.Configs)
}

// validatePolicy checks what the topic has in place of its namespace's.
func (t *Topic) validatePolicy() error {
	var r refusals
	r.add(t.Retention.validate("retention"))
	switch {
	case t.Topology == nil:
	case t.Topology.ActiveStandby != nil:
		r.add(invalid("topology.active-standby", "roles are the namespace's: a topic has none of its own"))
	default:
		r.add(t.Topology.validate())
	}
	return r.err()
}

// HasPolicy reports whether the topic differs from its namespace in what a
// topology file says.
func (t *Topic) HasPolicy() bool { return t.Topology != nil || t.Retention != nil }

// Bounds of a topic's configs.
const (
	maxConfigs     = 128
	maxConfigName  = 128  // bytes
	maxConfigValue = 4096 // bytes
)

// ValidateTopicConfigs checks the Kafka configs of a topic. A value of a known
// config that this version cannot honour is refused with field and reason.
// Configs that Rhumb does not know are accepted and kept, because Kafka's own
// tools set some (min.insync.replicas, flush.ms) on every topic.
func ValidateTopicConfigs(configs map[string]string) error {
	if len(configs) > maxConfigs {
		return invalid("configs", "has %d entries, at most %d are allowed", len(configs), maxConfigs)
	}
	for name, value := range configs {
		if name == "" || len(name) > maxConfigName || len(value) > maxConfigValue || strings.ContainsFunc(name, illegalInKey) {
			return invalid("configs", "%.40q must be of [A-Za-z0-9._-], at most %d bytes, its value at most %d", name, maxConfigName, maxConfigValue)
		}
		if d := topicconf.Topic(name); d != nil {
			if err := d.Check(value); err != nil {
				return invalid("configs."+name, "%v", err)
			}
		}
	}
	return nil
}
