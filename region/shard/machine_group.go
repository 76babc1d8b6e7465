package shard

func (m *machine) group(k GroupKey) *group {
	g := m.groups[k]
	if g == nil {
		g = &group{offsets: make(map[OffsetKey]OffsetCommit)}
		m.groups[k] = g
	}
	return g
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
		g.offsets[o.Key()] = o
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
			delete(g.offsets, o)
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
