package blocks

// Ahead tells that blocks of a file are about to be read, from the one that holds from to
// the one that holds to-1: those that are missing are read now, in the background, and
// then what follows, up to end, and the file next from its beginning to nextEnd, which
// may be 0. It is false if the first one is not to be had from here.
func (c *Cache) Ahead(file uint64, from, to, end int64, next uint64, nextEnd int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, last := from/Size, (min(to, end)-1)/Size
	if c.closed || c.m[key{file, first}] == nil && c.worn(key{file, first}) {
		return false
	}
	// To the end of a row that one read takes, so that the next one begins a row.
	want, blocks := (last+int64(c.ahead))|(loadBlocks-1), (end+Size-1)/Size
	if c.missing(file, first, last) || c.missing(file, last+1, min(blocks-1, last+int64(c.ahead)/2)) {
		c.start(file, first, min(blocks-1, want), last)
	}
	if over := want - blocks; over >= 0 && nextEnd > 0 {
		upto := min(over, (nextEnd-1)/Size)
		if c.missing(next, 0, upto) {
			c.start(next, 0, upto, -1)
		}
	}
	return true
}

// worn tells if a block was read from disk as often as it may be.
func (c *Cache) worn(k key) bool {
	seen := c.passes[k.file]
	return k.block < int64(len(seen)) && seen[k.block] >= maxPasses
}

// missing tells if one of a row of blocks is not there nor on its way.
func (c *Cache) missing(file uint64, first, last int64) bool {
	for i := first; i <= last; i++ {
		if c.m[key{file, i}] == nil {
			return true
		}
	}
	return false
}

// start has the missing ones of a row of blocks read; those after asked are for later.
func (c *Cache) start(file uint64, first, last, asked int64) {
	for i := first; i <= last && c.loads < maxLoads; {
		if c.m[key{file, i}] != nil {
			i++
			continue
		}
		var part []*Block
		for ; i <= last && len(part) < loadBlocks && c.m[key{file, i}] == nil; i++ {
			b := c.add(key{file, i})
			if b == nil {
				break
			}
			b.unused = i > asked
			part = append(part, b)
		}
		if len(part) == 0 {
			return // no memory, or the page cache's business
		}
		c.loads++
		c.wg.Go(func() {
			c.load(part)
			Release(part)
			c.mu.Lock()
			c.loads--
			c.mu.Unlock()
		})
	}
}

// load reads blocks of one file that were added, in rising order, in as few reads as may
// be. What cannot be read is marked and taken out.
func (c *Cache) load(blocks []*Block) {
	for len(blocks) > 0 {
		n := 1
		for n < len(blocks) && n < loadBlocks && blocks[n].key.block == blocks[n-1].key.block+1 {
			n++
		}
		c.loadRow(blocks[:n])
		blocks = blocks[n:]
	}
}

func (c *Cache) loadRow(row []*Block) {
	bufs := make([][]byte, len(row))
	for i, b := range row {
		bufs[i] = b.buf
	}
	got, err := c.source(row[0].key.file, row[0].key.block*Size, bufs)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range row {
		b.n = int(max(0, min(got, Size)))
		got -= int64(b.n)
		if b.failed = err != nil || b.n == 0; b.failed {
			c.drop(b)
		}
		close(b.ready)
	}
}
