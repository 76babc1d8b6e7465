package blocks

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// disk is files whose bytes tell where they are.
type disk struct {
	size  atomic.Int64 // of each file
	reads atomic.Int64
	fail  atomic.Bool
	gate  chan struct{} // nil, or each read waits for it
}

func byteAt(file uint64, pos int64) byte { return byte(file*31 + uint64(pos)/512*7) }

func (d *disk) read(file uint64, off int64, bufs [][]byte) (done int64, err error) {
	d.reads.Add(1)
	if d.gate != nil {
		<-d.gate
	}
	if d.fail.Load() {
		return 0, errors.New("bad place")
	}
	for _, b := range bufs {
		if len(b)%vfs.TailBlock != 0 {
			return 0, errors.New("not whole blocks")
		}
		for len(b) > 0 {
			rest := d.size.Load() - off - done
			if rest <= 0 {
				return done, nil
			}
			row := b[:min(512, int64(len(b)), rest)]
			for i := range row {
				row[i] = byteAt(file, off+done)
			}
			b, done = b[len(row):], done+int64(len(row))
		}
	}
	return done, nil
}

func newDisk(size int64) *disk {
	d := &disk{}
	d.size.Store(size)
	return d
}

// check compares a few bytes of what Get gave.
func check(t *testing.T, file uint64, from, to int64, data [][]byte) {
	t.Helper()
	at := from
	for _, d := range data {
		for _, i := range []int{0, len(d) / 2, len(d) - 1} {
			if d[i] != byteAt(file, at+int64(i)) {
				t.Fatalf("file %d: byte %d is another one's", file, at+int64(i))
			}
		}
		at += int64(len(d))
	}
	if at != to {
		t.Fatalf("file %d: %d to %d, want %d", file, from, at, to)
	}
}

// TestReaders: several readers go through files beside each other, with files that go away and
// disks that fail at times: each byte is right, memory stays within its budget, and when all
// is over nothing is held.
func TestReaders(t *testing.T) {
	const budget, size = 8 << 20, 7<<20 + 777
	d := newDisk(size)
	c := New(budget, d.read)
	var readers sync.WaitGroup
	for r := range uint64(4) {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(r, 1))
			for file := r / 2; file < 6; file++ {
				for at := int64(0); at < size; {
					to := min(size, at+1+rng.Int64N(Size*3/2))
					c.Ahead(file, at, to, size, file+1, size)
					data, held, ok := c.Get(file, at, to, Use(rng.IntN(3)))
					if ok {
						check(t, file, at, to, data)
						if rng.IntN(20) == 0 {
							c.Forget(file)
							check(t, file, at, to, data)
						}
						Release(held)
					}
					d.fail.Store(rng.IntN(50) == 0)
					at = to + rng.Int64N(1000)
				}
			}
		})
	}
	readers.Wait()
	if s := c.Stats(); s.Memory > budget || s.Loaded == 0 || s.Hits == 0 {
		t.Errorf("%+v", s)
	}
	c.Close()
	if s := c.Stats(); s.Memory != 0 {
		t.Errorf("after all is over: %+v", s)
	}
	if _, _, ok := c.Get(1, 0, 10, Short); ok || c.Ahead(1, 0, 10, size, 0, 0) {
		t.Error("it gives blocks when it is closed")
	}
}

// TestOneReadForAll: readers that want a block while it is on its way wait for it.
func TestOneReadForAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDisk(64 << 20)
		d.gate = make(chan struct{})
		c := New(32<<20, d.read)
		var readers sync.WaitGroup
		for range 5 {
			readers.Go(func() {
				data, held, ok := c.Get(1, 100, Size+50, Short)
				if !ok {
					t.Error("not there")
					return
				}
				check(t, 1, 100, Size+50, data)
				Release(held)
			})
		}
		synctest.Wait()
		if n := d.reads.Load(); n != 1 {
			t.Errorf("%d reads", n)
		}
		close(d.gate)
		readers.Wait()
	})
}

// TestReadAhead: who goes through a file finds the next blocks there, and those of the next
// file; the disk is read in large pieces.
func TestReadAhead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const size = 16 << 20
		d := newDisk(size)
		c := New(32<<20, d.read)
		for file := range uint64(3) {
			for at := int64(0); at < size; at += 100_000 {
				to := min(size, at+100_000)
				c.Ahead(file, at, to, size, file+1, size)
				synctest.Wait()
				before := d.reads.Load()
				_, held, ok := c.Get(file, at, to, Long)
				if !ok || d.reads.Load() != before {
					t.Fatalf("file %d at %d waits for the disk: %v", file, at, ok)
				}
				Release(held)
			}
		}
		if n, s := d.reads.Load(), c.Stats(); n > 3*size/Size*2/3 || s.Wasted > 0 {
			t.Errorf("%d reads, %+v", n, s)
		}
		c.Close()
	})
}

// TestSlowReaders: blocks that are held are not used again, and beyond three quarters none is
// given to hold; others still read.
func TestSlowReaders(t *testing.T) {
	d := newDisk(256 << 20)
	c := New(32<<20, d.read)
	var all []*Block
	var pieces [][]byte
	n := int64(0)
	for ; ; n++ {
		data, held, ok := c.Get(1, n*Size, (n+1)*Size, Long)
		if !ok {
			break
		}
		all, pieces = append(all, held...), append(pieces, data...)
	}
	if n < 20 || n > 30 {
		t.Errorf("%d of 32 blocks are held", n)
	}
	for i := range int64(100) {
		data, held, ok := c.Get(2, i*Size, (i+1)*Size, Short)
		if !ok {
			t.Fatalf("block %d", i)
		}
		check(t, 2, i*Size, (i+1)*Size, data)
		Release(held)
	}
	check(t, 1, 0, n*Size, pieces)
	c.Forget(1)
	check(t, 1, 0, n*Size, pieces)
	Release(all)
	if s := c.Stats(); s.Memory > 32<<20 {
		t.Errorf("%+v", s)
	}
}

// TestEnds: a block in which its file ended is read again when the file has grown; a place
// that cannot be read is not there, and what is beside it is; nothing is read thrice.
func TestEnds(t *testing.T) {
	d := newDisk(1000)
	c := New(8<<20, d.read)
	get := func(from, to int64) bool {
		data, held, ok := c.Get(1, from, to, Short)
		if ok {
			check(t, 1, from, to, data)
			Release(held)
		}
		return ok
	}
	if !get(0, 1000) || get(0, 1001) {
		t.Error("up to the end, and not beyond")
	}
	d.size.Store(Size)
	if !get(0, 1001) || !get(5, Size) {
		t.Error("after it has grown")
	}
	d.size.Store(3 * Size)
	d.fail.Store(true)
	if get(Size, 2*Size) {
		t.Error("from a bad place")
	}
	d.fail.Store(false)
	if !get(Size, 2*Size) {
		t.Error("when it is well again")
	}
	for range 3 {
		for i := range int64(100) { // others, so that all of file 1 goes
			if _, held, ok := c.Get(9+uint64(i), 0, 100, Short); ok {
				Release(held)
			}
		}
	}
	if get(0, 10) || c.Ahead(1, 0, 10, Size, 0, 0) {
		t.Error("a block was read three times")
	}
	c.Forget(1)
	if !get(0, 10) {
		t.Error("after the file was forgotten")
	}
}
