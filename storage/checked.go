package storage

import (
	"sync"
	"time"
)

const (
	// checkedFor is for how long a batch that was compared with its CRC is taken to be
	// still what it was. Readers of the same data come close together; a disk that
	// spoils what lies on it is found within this time.
	checkedFor = time.Hour
	// maxChecked bounds the bits, in bytes: enough for a terabyte.
	maxChecked = 8 << 20
)

// checkedSet remembers of which batches that are given by their place the CRC was
// compared. A file has a bit for each MinPlace bytes: no two such batches begin within
// as many. What lies at a place of a file is never written anew while the file has its
// id.
type checkedSet struct {
	mu    sync.Mutex
	files map[uint64]*checkedFile
	bytes int
}

type checkedFile struct {
	since time.Time // of the oldest bit
	bits  []uint64
}

func bitOf(pos uint64) (word int, bit uint64) {
	n := pos / MinPlace
	return int(n / 64), 1 << (n % 64)
}

func (c *checkedSet) has(file, pos uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[file]
	if f == nil {
		return false
	}
	if time.Since(f.since) > checkedFor {
		c.drop(file)
		return false
	}
	word, bit := bitOf(pos)
	return word < len(f.bits) && f.bits[word]&bit != 0
}

func (c *checkedSet) add(file, pos uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes >= maxChecked {
		clear(c.files)
		c.bytes = 0
	}
	f := c.files[file]
	if f == nil {
		f = &checkedFile{since: time.Now()}
		if c.files == nil {
			c.files = map[uint64]*checkedFile{}
		}
		c.files[file] = f
	}
	word, bit := bitOf(pos)
	for len(f.bits) <= word {
		f.bits = append(f.bits, 0)
		c.bytes += 8
	}
	f.bits[word] |= bit
}

// forget drops a file that is gone.
func (c *checkedSet) forget(file uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(file)
}

func (c *checkedSet) drop(file uint64) {
	if f := c.files[file]; f != nil {
		c.bytes -= 8 * len(f.bits)
		delete(c.files, file)
	}
}
