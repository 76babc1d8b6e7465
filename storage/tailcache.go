package storage

import "sync"

// entryOverhead is what a cached entry costs beside its data, in bytes.
const entryOverhead = 192

// tailCache bounds the data of Raft entries that memory holds although the log
// has them: oldest out first, over all shards.
type tailCache struct {
	budget int64

	mu    sync.Mutex
	used  int64
	queue []cachedEntry
	head  int
}

type cachedEntry struct {
	table *entryTable
	index uint64
	term  uint64
	size  int
}

// add counts entries whose places are known now, and evicts the oldest ones above
// the budget. No table's lock may be held.
func (c *tailCache) add(entries []cachedEntry) {
	if len(entries) == 0 {
		return
	}
	c.mu.Lock()
	for _, e := range entries {
		c.queue = append(c.queue, e)
		c.used += int64(e.size + entryOverhead)
	}
	var out []cachedEntry
	for c.used > c.budget && c.head < len(c.queue) {
		old := c.queue[c.head]
		c.queue[c.head] = cachedEntry{}
		c.head++
		c.used -= int64(old.size + entryOverhead)
		out = append(out, old)
	}
	if c.head > 1024 && c.head > len(c.queue)/2 {
		n := copy(c.queue, c.queue[c.head:])
		clear(c.queue[n:])
		c.queue, c.head = c.queue[:n], 0
	}
	c.mu.Unlock()
	for _, e := range out {
		e.table.evict(e.index, e.term)
	}
}
