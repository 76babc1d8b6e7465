package shard

func (m *machine) group(k GroupKey) *group {
	g := m.groups[k]
	if g == nil {
		g = &group{offsets: make(map[OffsetKey]OffsetCommit)}
		m.groups[k] = g
	}
	return g
}

// OffsetsUse is what committed offsets take in memory, in bytes, about.
type OffsetsUse struct {
	More  int64 // that commits would add
	Group int64 // of the group
	All   int64 // of all groups
	Count int64 // committed offsets of all groups
}

// offsetOverhead is what a committed offset takes beside its strings.
const offsetOverhead = 256

func offsetSize(c *OffsetCommit) int64 {
	return offsetOverhead + int64(len(c.Topic.Tenant)+len(c.Topic.Namespace)+len(c.Topic.Name)+len(c.Metadata))
}

// setOffset and dropOffset change a group's offsets and count what they take.
func (m *machine) setOffset(g *group, c OffsetCommit) {
	m.dropOffset(g, c.Key())
	g.offsets[c.Key()] = c
	m.countOffset(g, 1, offsetSize(&c))
}

func (m *machine) dropOffset(g *group, key OffsetKey) {
	if old, ok := g.offsets[key]; ok {
		delete(g.offsets, key)
		m.countOffset(g, -1, -offsetSize(&old))
	}
}

func (m *machine) countOffset(g *group, n, bytes int64) {
	g.bytes += bytes
	m.offsetCount.Add(n)
	m.offsetBytes.Add(bytes)
}

func (m *machine) forgetEmpty(k GroupKey, g *group) {
	if len(g.blob) == 0 && len(g.offsets) == 0 {
		delete(m.groups, k)
	}
}

func (m *machine) applyCommitOffsets(_ entry, c *commitOffsetsCommand) result {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(c.key)
	for _, o := range c.commits {
		m.setOffset(g, o)
		m.set(offsetRowKey(c.key, o.Key()), encodeCommit(o))
	}
	m.forgetEmpty(c.key, g)
	return result{}
}

func (m *machine) applyDeleteOffsets(_ entry, c *deleteOffsetsCommand) result {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[c.key]
	if g == nil {
		return result{}
	}
	keys := c.offsets
	if c.all {
		keys = nil
		for o := range g.offsets {
			keys = append(keys, o)
		}
		if len(g.blob) > 0 {
			g.blob = nil
			m.unset(groupRowKey(c.key))
		}
	}
	for _, o := range keys {
		if old, ok := g.offsets[o]; ok && (c.before == 0 || old.At < c.before) {
			m.dropOffset(g, o)
			m.unset(offsetRowKey(c.key, o))
		}
	}
	m.forgetEmpty(c.key, g)
	return result{}
}

func (m *machine) applyPutGroup(_ entry, c *putGroupCommand) result {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(c.key)
	if len(c.blob) == 0 && len(g.blob) > 0 {
		m.unset(groupRowKey(c.key))
	} else if len(c.blob) > 0 {
		m.set(groupRowKey(c.key), c.blob)
	}
	g.blob = c.blob
	m.forgetEmpty(c.key, g)
	return result{}
}
