package shard

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ErrPartitionLimit means that the region may not have that many partitions.
var ErrPartitionLimit = errors.New("shard: too many partitions")

// ErrChanged means that settings are not what their change was made for: it is
// to be made anew.
var ErrChanged = errors.New("shard: settings were changed meanwhile")

// blockEpoch is where the clock that seeds blocks of producer ids starts:
// 2024-01-01, in seconds since 1970.
const blockEpoch = 1704067200

func (m *machine) putTopicRow(t *Topic) {
	m.set(topicKey(tableTopic, t.ID), encodeTopic(t))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holdTopic(t)
	m.topicsChanged(t.ID)
}

// holdTopic makes a topic what the maps show of it. Where others read, mu is held.
func (m *machine) holdTopic(t *Topic) {
	if old := m.topics[t.ID]; old != nil {
		m.parts -= len(old.Partitions)
	}
	m.topics[t.ID], m.names[t.Name] = t, t
	m.parts += len(t.Partitions)
	if t.ready() {
		delete(m.unready, t.ID)
	} else {
		m.unready[t.ID] = t
	}
}

// ready reports whether each of the topic's partitions has a log.
func (t *Topic) ready() bool {
	return !slices.ContainsFunc(t.Partitions, func(p TopicPartition) bool { return !p.Ready })
}

// roomFor refuses more partitions than the region may have.
func (m *machine) roomFor(more int, limit uint64) error {
	if limit > 0 && uint64(m.parts+more) > limit {
		return rhumb.Errorf(rhumb.KindNoSpace, "%w: the region has %d, %d more are above its limit of %d",
			ErrPartitionLimit, m.parts, more, limit)
	}
	return nil
}

func newTopicPartition(index int, shard rhumb.ShardID) TopicPartition {
	return TopicPartition{Index: int32(index), Ref: rhumb.PartitionRef{Shard: shard}}
}

func (m *machine) applyCreateTopic(ctx entry, c *createTopicCommand) result {
	if t := m.names[c.topic]; t != nil {
		return result{value: t, err: rhumb.Errorf(rhumb.KindExists, "topic %s exists", c.topic)}
	}
	if n := m.deletions[c.topic]; c.deletions < n {
		return result{err: rhumb.Errorf(rhumb.KindFenced, "topic %s of deletion count %d was deleted, the count is %d", c.topic, c.deletions, n)}
	}
	if err := m.roomFor(len(c.shards), c.limit); err != nil {
		return result{err: err}
	}
	t := &Topic{Name: c.topic, ID: c.id, Deletions: c.deletions, Configs: configMap(c.configs), CreatedAt: ctx.time}
	for i, s := range c.shards {
		t.Partitions = append(t.Partitions, newTopicPartition(i, s))
	}
	m.putTopicRow(t)
	return result{value: t}
}

// changed gives a copy of a topic to be changed: published ones stay as they are.
func (t *Topic) changed() *Topic {
	c := *t
	c.Partitions = append([]TopicPartition(nil), t.Partitions...)
	return &c
}

func (m *machine) applyGrowTopic(_ entry, c *growTopicCommand) result {
	t := m.topics[c.id]
	if t == nil {
		return result{err: rhumb.Errorf(rhumb.KindNotFound, "no topic %s", c.id)}
	}
	if len(c.shards) <= len(t.Partitions) {
		return result{value: t}
	}
	if err := m.roomFor(len(c.shards)-len(t.Partitions), c.limit); err != nil {
		return result{value: t, err: err}
	}
	t = t.changed()
	for _, s := range c.shards[len(t.Partitions):] {
		t.Partitions = append(t.Partitions, newTopicPartition(len(t.Partitions), s))
	}
	m.putTopicRow(t)
	return result{value: t}
}

// applyDeleteTopic raises a name's deletion count and dooms the topic that was
// born below it: its name is free at once, its partitions go one by one.
func (m *machine) applyDeleteTopic(_ entry, c *deleteTopicCommand) result {
	if c.deletions > m.deletions[c.topic] {
		m.set(deletionKey(c.topic), encodeNumber(int64(c.deletions)))
		m.mu.Lock()
		m.deletions[c.topic] = c.deletions
		m.mu.Unlock()
	}
	t := m.names[c.topic]
	if t == nil || t.Deletions >= c.deletions {
		return result{}
	}
	m.doom(t)
	return result{value: t}
}

// applyDeleteHere dooms a topic whatever count it was born under, and remembers
// under which one, if it shall: what others tell of that count makes it no more.
func (m *machine) applyDeleteHere(_ entry, c *deleteHereCommand) result {
	t := m.names[c.topic]
	if t == nil {
		return result{}
	}
	if c.mark {
		said := map[string]string{deletedHere: strconv.FormatUint(t.Deletions, 10)}
		m.set(settingsKey(topicScope(c.topic)), encodeSettings(said))
		m.mu.Lock()
		m.settings[topicScope(c.topic)] = said
		m.mu.Unlock()
	}
	m.doom(t)
	return result{value: t}
}

// topicScope is the scope of what the region remembers of a topic's name when the
// topic itself is gone.
func topicScope(t rhumb.Topic) string { return "topic " + t.String() }

// deletedHere names the deletion count under which a topic was born that was
// deleted in this region alone.
const deletedHere = "deleted.here"

// doom frees a topic's name at once; its partitions go one by one.
func (m *machine) doom(t *Topic) {
	m.unset(topicKey(tableTopic, t.ID))
	m.set(topicKey(tableDoomed, t.ID), encodeTopic(t))
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.topics, t.ID)
	delete(m.unready, t.ID)
	delete(m.names, t.Name)
	m.parts -= len(t.Partitions)
	m.doomed[t.ID] = t
	m.topicsChanged(t.ID)
}

func (m *machine) applySetConfigs(_ entry, c *setConfigsCommand) result {
	t := m.topics[c.id]
	if t == nil {
		return result{err: rhumb.Errorf(rhumb.KindNotFound, "no topic %s", c.id)}
	}
	if c.before != nil && !maps.Equal(t.Configs, configMap(*c.before)) {
		return result{value: t, err: rhumb.Errorf(rhumb.KindUnavailable, "topic %s: %w", t.Name, ErrChanged)}
	}
	t = t.changed()
	t.Configs = configMap(c.configs)
	m.putTopicRow(t)
	return result{value: t}
}

// applyPutSettings replaces the settings of a scope if they are what the change
// was made for.
func (m *machine) applyPutSettings(_ entry, c *putSettingsCommand) result {
	if !maps.Equal(m.settings[c.scope], configMap(c.before)) {
		return result{err: rhumb.Errorf(rhumb.KindUnavailable, "%w: scope %q", ErrChanged, c.scope)}
	}
	configs := configMap(c.configs)
	if len(configs) == 0 {
		m.unset(settingsKey(c.scope))
	} else {
		m.set(settingsKey(c.scope), encodeSettings(configs))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.settings, c.scope)
	if len(configs) > 0 {
		m.settings[c.scope] = configs
	}
	m.topicsChanged(rhumb.UUID{}) // whoever follows topics follows these, too
	return result{value: configs}
}

// applyPartitionReady notes where a partition's log is. Only the first one
// counts: the shard that made it makes no second one.
func (m *machine) applyPartitionReady(_ entry, c *partitionReadyCommand) result {
	t := m.topics[c.topicID]
	if t == nil || c.index < 0 || int(c.index) >= len(t.Partitions) || t.Partitions[c.index].Ready {
		return result{}
	}
	t = t.changed()
	p := &t.Partitions[c.index]
	p.Ref.ID, p.Life, p.Ready = c.partition, c.life, true
	m.putTopicRow(t)
	return result{}
}

func (m *machine) applyTopicGone(_ entry, c *topicGoneCommand) result {
	if m.doomed[c.id] != nil {
		m.unset(topicKey(tableDoomed, c.id))
		m.mu.Lock()
		delete(m.doomed, c.id)
		m.mu.Unlock()
	}
	return result{}
}

func (m *machine) applyInitRegion(_ entry, c *initRegionCommand) result {
	if m.clusterID.IsZero() {
		m.mu.Lock()
		m.clusterID = c.clusterID
		m.mu.Unlock()
		m.set(metaClusterID, c.clusterID[:])
	}
	return result{value: m.clusterID}
}

// applyProducerBlock gives out a block of producer ids. Blocks follow the entry's
// clock where they can, so that a later life of the region, which knows nothing
// of this one, starts above all of them.
func (m *machine) applyProducerBlock(ctx entry) result {
	block := max(m.block+1, ctx.time/1000-blockEpoch)
	if block >= 1<<32 {
		return result{err: rhumb.Errorf(rhumb.KindUnavailable, "no block of producer ids is left")}
	}
	m.block = block
	m.set(metaBlock, encodeNumber(block))
	return result{value: block}
}
