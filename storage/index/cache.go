package index

import (
	"container/list"
	"sync"
)

// Cache holds decoded blocks and handles of tables, least recently used out
// first, within a budget in bytes. It may be used by any goroutine.
type Cache struct {
	budget int64

	mu    sync.Mutex
	used  int64
	items map[cacheKey]*list.Element
	order list.List // front is the most recently used
}

type cacheKey struct {
	table *Table
	pos   uint64
}

type cacheItem struct {
	key   cacheKey
	value any
	cost  int64
}

// NewCache makes a cache that holds at most budget bytes; 0 holds nothing.
func NewCache(budget int64) *Cache {
	return &Cache{budget: budget, items: map[cacheKey]*list.Element{}}
}

func (c *Cache) get(t *Table, pos uint64) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[cacheKey{t, pos}]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cacheItem).value, true
}

func (c *Cache) put(t *Table, pos uint64, value any, cost int64) {
	if cost > c.budget {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := cacheKey{t, pos}
	if _, ok := c.items[k]; ok {
		return
	}
	c.items[k] = c.order.PushFront(&cacheItem{k, value, cost})
	c.used += cost
	for c.used > c.budget {
		c.remove(c.order.Back())
	}
}

func (c *Cache) remove(e *list.Element) {
	it := c.order.Remove(e).(*cacheItem)
	delete(c.items, it.key)
	c.used -= it.cost
}

func (c *Cache) forget(t *Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.items {
		if k.table == t {
			c.remove(e)
		}
	}
}

// Used is how many bytes the cache holds now.
func (c *Cache) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
