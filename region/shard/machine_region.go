package shard

import "github.com/rhumbmq/rhumb/internal/rhumb"

// blockEpoch is where the clock that seeds blocks of producer ids starts:
// 2024-01-01, in seconds since 1970.
const blockEpoch = 1704067200

func (m *machine) putTopicRow(t *Topic) {
	m.set(topicKey(tableTopic, t.ID), encodeTopic(t))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.topics[t.ID], m.names[t.Name] = t, t
	m.topicsSeen++
}

func (m *machine) applyCreateTopic(ctx entry, c *createTopicCommand) result {
	if t := m.names[c.topic]; t != nil {
		return result{value: t, err: rhumb.Errorf(rhumb.KindExists, "topic %s exists", c.topic)}
	}
	if n := m.deletions[c.topic]; c.deletions < n {
		return result{err: rhumb.Errorf(rhumb.KindFenced, "topic %s of deletion count %d was deleted, the count is %d", c.topic, c.deletions, n)}
	}
	t := &Topic{Name: c.topic, ID: c.id, Deletions: c.deletions, Configs: configMap(c.configs), CreatedAt: ctx.time}
	for _, s := range c.shards {
		t.Partitions = append(t.Partitions, TopicPartition{Ref: rhumb.PartitionRef{Shard: s}})
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
	t = t.changed()
	for _, s := range c.shards[len(t.Partitions):] {
		t.Partitions = append(t.Partitions, TopicPartition{Ref: rhumb.PartitionRef{Shard: s}})
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
	m.unset(topicKey(tableTopic, t.ID))
	m.set(topicKey(tableDoomed, t.ID), encodeTopic(t))
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.topics, t.ID)
	delete(m.names, t.Name)
	m.doomed[t.ID] = t
	m.topicsSeen++
	return result{value: t}
}

func (m *machine) applySetConfigs(_ entry, c *setConfigsCommand) result {
	t := m.topics[c.id]
	if t == nil {
		return result{err: rhumb.Errorf(rhumb.KindNotFound, "no topic %s", c.id)}
	}
	t = t.changed()
	t.Configs = configMap(c.configs)
	m.putTopicRow(t)
	return result{value: t}
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
