package blocks

import (
	"container/list"
	"sync"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	// Size is the length of a block in bytes.
	Size = 1 << 20
	// loadBlocks is how many blocks one read takes at most: a large one costs a third of
	// the processor time of many small ones.
	loadBlocks = 2
	// maxLoads is how many reads ahead run at a time.
	maxLoads = 4
	// leastAhead and mostAhead bound how many blocks are read ahead of a reader.
	leastAhead, mostAhead = 1, 8
	// maxPasses is how often a block is read from disk.
	maxPasses = 2
	// maxFiles bounds for how many files the passes are remembered: a byte for each block.
	maxFiles = 4096
)

// Source reads whole blocks of a file, past the page cache. It tells how many bytes count:
// less than asked where the file ends.
type Source func(file uint64, off int64, bufs [][]byte) (int64, error)

// Cache holds blocks. Its methods may be used by any goroutine.
type Cache struct {
	source Source
	budget int // blocks

	mu     sync.Mutex
	m      map[key]*Block
	idle   list.List // of *Block that are read and not in use, least recently used first
	slab   []byte    // all memory, from its first use on
	unmap  func()
	free   [][]byte
	made   int                // how many blocks of slab were ever used
	passes map[uint64][]uint8 // by file and block
	ahead  int                // how many blocks are read ahead
	used   int                // blocks that were read ahead and used, since ahead has changed
	loads  int
	closed bool
	wg     sync.WaitGroup // of the goroutines that read ahead
	stats  Stats
}

// Use says what for blocks are asked for.
type Use int

// The uses.
const (
	Short Use = iota // to copy from
	Long             // to hold, as for a client that they are sent to: refused while three quarters are in use
	Early            // for a look before a reader comes: refused while half are in use, or such blocks went unused
)

type key struct {
	file  uint64
	block int64
}

// Block is a part of a file in memory. Who got it releases it.
type Block struct {
	c     *Cache
	key   key
	buf   []byte
	ready chan struct{} // closed when n and failed are there

	n      int // bytes that count
	failed bool

	// Under Cache.mu.
	refs   int
	gone   bool          // not in the map any more
	unused bool          // read ahead, and nobody has asked for it yet
	idle   *list.Element // if refs is 0
}

// Stats counts since the start.
type Stats struct {
	Loaded int64 // blocks that were read
	Hits   int64 // blocks that were asked for and there, or on their way
	Wasted int64 // blocks that were read ahead and went unused
	Memory int64 // bytes
}

// New makes a cache that takes budget bytes at most, and at least two reads.
func New(budget int64, source Source) *Cache {
	return &Cache{source: source, budget: max(int(budget/Size), 2*loadBlocks), m: map[key]*Block{}, passes: map[uint64][]uint8{},
		ahead: mostAhead / 2}
}

// Stats tells what was done.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Memory = int64(c.made) * Size
	return s
}

// Get gives the bytes from from to to of a file, and the blocks that they are in, to be
// released. It is false if they cannot be had from here.
func (c *Cache) Get(file uint64, from, to int64, use Use) (data [][]byte, held []*Block, ok bool) {
	first, last := from/Size, (to-1)/Size
	held = make([]*Block, 0, last-first+1)
	var mine []*Block
	c.mu.Lock()
	ok = !c.closed && c.grants(use)
	for i := first; i <= last && ok; i++ {
		b := c.m[key{file, i}]
		if b == nil {
			if b = c.add(key{file, i}); b != nil {
				b.unused = use == Early
				mine = append(mine, b)
			}
		} else {
			c.stats.Hits++
			c.use(b, use != Early)
		}
		if ok = b != nil; ok {
			held = append(held, b)
		}
	}
	c.mu.Unlock()
	c.load(mine)
	for i, b := range held {
		if !ok {
			break
		}
		<-b.ready
		at := (first + int64(i)) * Size
		lo, hi := max(from-at, 0), min(to-at, Size)
		if ok = !b.failed && int(hi) <= b.n; ok {
			data = append(data, b.buf[lo:hi:hi])
		} else {
			c.outgrown(b)
		}
	}
	if !ok {
		Release(held)
		return nil, nil, false
	}
	return data, held, true
}

// outgrown takes out a block that was read when its file ended in it, and does not any more.
func (c *Cache) outgrown(b *Block) {
	c.mu.Lock()
	c.drop(b)
	c.mu.Unlock()
}

// Release lets go of blocks.
func Release(blocks []*Block) {
	for _, b := range blocks {
		b.c.mu.Lock()
		b.c.release(b)
		b.c.mu.Unlock()
	}
}

// Forget drops what is there of a file that is gone.
func (c *Cache) Forget(file uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.passes, file)
	for k, b := range c.m {
		if k.file == file {
			c.drop(b)
		}
	}
}

// Close ends reading ahead and gives the memory back, but for blocks that are held.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	for _, b := range c.m {
		c.drop(b)
	}
	c.mu.Unlock()
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack()
}

// giveBack frees the memory when the cache is closed and nothing is held.
func (c *Cache) giveBack() {
	if c.closed && len(c.free) == c.made && c.slab != nil {
		c.unmap()
		c.slab, c.free, c.made = nil, nil, 0
	}
}

// busy is how many blocks are in use or on their way.
func (c *Cache) busy() int { return c.made - len(c.free) - c.idle.Len() }

// grants tells if there is room for a use.
func (c *Cache) grants(use Use) bool {
	switch use {
	case Long:
		return c.busy() <= c.budget*3/4
	case Early:
		return c.busy() <= c.budget/2 && c.ahead >= mostAhead/2
	}
	return true
}

// use takes a block for a reader, or for one who asks for somebody else.
func (c *Cache) use(b *Block, reader bool) {
	if b.refs++; b.idle != nil {
		c.idle.Remove(b.idle)
		b.idle = nil
	}
	if b.unused && reader {
		b.unused = false
		if c.used++; c.used >= 4*mostAhead && c.ahead < mostAhead {
			c.ahead, c.used = c.ahead+1, 0
		}
	}
}

// add makes a block that is to be loaded by the caller, who has a use of it; nil if there is
// no memory, or it is not to be read from disk any more.
func (c *Cache) add(k key) *Block {
	if c.worn(k) {
		return nil
	}
	buf := c.memory()
	if buf == nil {
		return nil
	}
	seen := c.passes[k.file]
	if seen == nil && len(c.passes) >= maxFiles {
		clear(c.passes)
	}
	for int64(len(seen)) <= k.block {
		seen = append(seen, 0)
	}
	seen[k.block]++
	c.passes[k.file] = seen
	b := &Block{c: c, key: k, buf: buf, ready: make(chan struct{}), refs: 1}
	c.m[k] = b
	c.stats.Loaded++
	return b
}

// memory finds a buffer.
func (c *Cache) memory() []byte {
	if n := len(c.free); n > 0 {
		buf := c.free[n-1]
		c.free = c.free[:n-1]
		return buf
	}
	if c.made < c.budget {
		if c.slab == nil {
			c.slab, c.unmap = vfs.Huge(c.budget * Size)
		}
		c.made++
		return c.slab[(c.made-1)*Size : c.made*Size : c.made*Size]
	}
	e := c.idle.Front()
	if e == nil {
		return nil
	}
	b := e.Value.(*Block)
	if b.unused {
		c.stats.Wasted++
		c.ahead, c.used = max(leastAhead, c.ahead/2), 0
	}
	buf := b.buf
	c.idle.Remove(e)
	b.idle, b.gone = nil, true
	delete(c.m, b.key)
	return buf
}

// release ends one use of a block.
func (c *Cache) release(b *Block) {
	switch b.refs--; {
	case b.refs > 0:
	case b.gone:
		c.reuse(b)
	default:
		b.idle = c.idle.PushBack(b)
	}
}

// drop takes a block out; its memory follows when nobody uses it.
func (c *Cache) drop(b *Block) {
	if b.gone {
		return
	}
	delete(c.m, b.key)
	if b.gone = true; b.idle != nil {
		c.idle.Remove(b.idle)
		b.idle = nil
		c.reuse(b)
	}
}

func (c *Cache) reuse(b *Block) {
	c.free = append(c.free, b.buf)
	b.buf = nil
	c.giveBack()
}
