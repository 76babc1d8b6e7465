package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestContractDirect: what is read past the cache is what was written, by each way of
// writing, up to the end of the file, wherever that is.
func TestContractDirect(t *testing.T) {
	eachFS(t, testDirect)
}

// The file system in memory that Linux has may be unable to do it: then it says so, each
// time.
func TestDirectOnTmpfs(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "rhumb-direct")
	if err != nil {
		t.Skip("no /dev/shm: ", err)
	}
	defer os.RemoveAll(dir)
	testDirect(t, OS(), dir)
}

func testDirect(t *testing.T, fsys FS, dir string) {
	for _, size := range []int{5 * TailBlock, 5*TailBlock + 100, 100, 1<<20 - 1} {
		name := filepath.Join(dir, "f")
		f, err := fsys.Create(name)
		must(t, err)
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i*7 + i>>9)
		}
		must(t, f.WriteTail(0, [][]byte{want}))
		must(t, f.Sync())
		able := checkDirect(t, f, want)
		copy(want[min(size/2, 2*TailBlock):], "others")
		_, err = f.WriteAt(want, 0)
		must(t, err)
		must(t, f.Sync())
		if checkDirect(t, f, want) != able {
			t.Errorf("%d bytes: able at one time only", size)
		}
		read, err := fsys.Open(name) // as files of an earlier run are
		must(t, err)
		checkDirect(t, read, want)
		must(t, read.Close())
		must(t, f.Close())
		if _, err := f.ReadDirect(0, [][]byte{Aligned(TailBlock)}); !errors.Is(err, fs.ErrClosed) && !errors.Is(err, ErrNoDirect) {
			t.Errorf("closed: %v", err)
		}
	}
}

// checkDirect reads a file in whole and in parts; it is false if the system cannot.
func checkDirect(t *testing.T, f File, want []byte) bool {
	t.Helper()
	blocks := (len(want) + TailBlock - 1) / TailBlock
	for _, from := range []int{0, blocks / 2, blocks - 1, blocks, blocks + 3} {
		for _, n := range []int{1, 2, blocks - from, blocks - from + 2} {
			if n <= 0 {
				continue
			}
			all := Aligned(n * TailBlock)
			bufs := [][]byte{all[: n/3*TailBlock : n/3*TailBlock], all[n/3*TailBlock:]}
			got, err := f.ReadDirect(int64(from*TailBlock), bufs)
			if errors.Is(err, ErrNoDirect) {
				return false
			}
			rest := want[min(len(want), from*TailBlock):]
			rest = rest[:min(len(rest), len(all))]
			if int(got) != len(rest) || !bytes.Equal(all[:got], rest) || (len(rest) < len(all)) != (err == io.EOF) || err != nil && err != io.EOF {
				t.Fatalf("%d blocks from block %d of %d bytes: %d, %v", n, from, len(want), got, err)
			}
		}
	}
	return true
}

// TestDirectBesideClose: reads that a Close overtakes end, and read nothing of another file
// that gets the same descriptor.
func TestDirectBesideClose(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		for range 50 {
			f, err := fsys.Create(filepath.Join(dir, "f"))
			must(t, err)
			must(t, f.WriteVec(0, [][]byte{bytes.Repeat([]byte{7}, 4*TailBlock)}))
			must(t, f.Sync())
			var readers sync.WaitGroup
			for range 3 {
				readers.Go(func() {
					b := Aligned(4 * TailBlock)
					for {
						n, err := f.ReadDirect(0, [][]byte{b})
						if err != nil {
							return
						}
						if n != int64(len(b)) || b[0] != 7 || b[n-1] != 7 {
							t.Errorf("%d bytes, %d", n, b[0])
							return
						}
					}
				})
			}
			other := create(t, fsys, filepath.Join(dir, "g"), "")
			must(t, other.WriteVec(0, [][]byte{bytes.Repeat([]byte{9}, 4*TailBlock)}))
			must(t, f.Close())
			again := create(t, fsys, filepath.Join(dir, "h"), "")
			readers.Wait()
			must(t, other.Close())
			must(t, again.Close())
		}
	})
}
