package vfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
)

// TestContractTail: rows of writes of all sizes at the end of what counts, some of them
// by another way or after a cut, leave what was written up to that end, and never a
// larger file; readers beside them see what is there.
func TestContractTail(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) { testTail(t, fs, filepath.Join(dir, fmt.Sprint(seed)), seed) })
		}
	})
}

func testTail(t *testing.T, fs FS, name string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	f, err := fs.Create(name)
	must(t, err)
	defer f.Close()
	size := int64(8<<20 - rng.IntN(2)*100)
	must(t, f.Allocate(size))
	var want []byte
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	wg.Go(func() { readBeside(t, f, stop) })
	defer wg.Wait()
	defer close(stop)
	for {
		n := []int{rng.IntN(64), rng.IntN(8 << 10), directSize + rng.IntN(256<<10), 3 * directSize &^ (TailBlock - 1), 5 << 19}[rng.IntN(5)]
		if int64(len(want)+n) > size {
			break
		}
		vec, all := pieces(rng, n)
		write := f.WriteTail
		switch rng.IntN(12) {
		case 0:
			write = f.WriteVec
		case 1:
			write = func(off int64, _ [][]byte) error { _, err := f.WriteAt(all, off); return err }
		case 2: // a round that failed is written again
			must(t, f.WriteTail(int64(len(want)), vec))
		case 3: // the end goes back
			want = want[:len(want)/2]
			must(t, f.Truncate(int64(len(want))))
			must(t, f.Allocate(size))
		}
		must(t, write(int64(len(want)), vec))
		want = append(want, all...)
		must(t, f.Sync())
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("after %d more, up to %d: %v, first difference at %d", n, len(want), err, firstDifference(got, want))
		}
	}
	if now, err := f.Size(); err != nil || now != size {
		t.Fatalf("the file of %d bytes has %d: %v", size, now, err)
	}
	must(t, f.WriteTail(size, [][]byte{want[:directSize+1]})) // a frame too large for the file
	if now, err := f.Size(); err != nil || now != size+directSize+1 {
		t.Fatalf("the file should have %d bytes and has %d: %v", size+directSize+1, now, err)
	}
}

// directSize is what every system that can writes past its cache.
const directSize = 64 << 10

func pieces(rng *rand.Rand, n int) (vec [][]byte, all []byte) {
	all = make([]byte, n)
	for i := range all {
		all[i] = byte(i%251 + 1 + n%5)
	}
	for rest := all; len(rest) > 0; {
		k := min(len(rest), 1+rng.IntN(1+n/3))
		vec, rest = append(vec, rest[:k:k]), rest[k:]
	}
	return vec, all
}

// readBeside has the system's cache hold parts of the file, also those that are yet to
// be written.
func readBeside(t *testing.T, f File, stop chan struct{}) {
	rng := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 64<<10)
	for {
		select {
		case <-stop:
			return
		default:
		}
		at := rng.Int64N(7 << 20)
		ReadAhead(f, at, 256<<10)
		_, _ = f.ReadAt(b, at) // it may be behind the end
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
