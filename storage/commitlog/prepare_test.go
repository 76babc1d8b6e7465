package commitlog

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// zeroWrites counts the writes that fill a file, and lets the hold-th of them wait.
type zeroWrites struct {
	mu   sync.Mutex
	n    map[string]int
	hold int
	wait chan error
}

func (z *zeroWrites) hook(op vfs.Op) error {
	if op.Kind != vfs.OpWrite || op.Len != fillSize {
		return nil
	}
	z.mu.Lock()
	z.n[op.Name]++
	n := z.n[op.Name]
	z.mu.Unlock()
	if n == z.hold {
		return <-z.wait
	}
	return nil
}

func (z *zeroWrites) of(name string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.n[name]
}

// TestNextFileIsFilled writes to half a file and waits: the next one is filled with
// zeros, unless it was used before, or nobody waits for flushes. Then the log is idle.
func TestNextFileIsFilled(t *testing.T) {
	for _, c := range []struct {
		durability Durability
		want       int
	}{{Fsync, 4}, {None, 0}} {
		bubble.Test(t, func(t *testing.T) {
			fs, z := vfs.NewMem(vfs.MemConfig{}), &zeroWrites{n: map[string]int{}}
			fs.SetHook(z.hook)
			l := start(t, Config{FS: fs, FileSize: 4 * fillSize, Durability: c.durability})
			fill(l, 1, 5, 500<<10)
			later(time.Hour)
			if got := z.of(secondFile); got != c.want {
				t.Errorf("%v: %d writes of zeros, want %d", c.durability, got, c.want)
			}
			fill(l, 6, 10, 500<<10)
			if err := l.Remove(1); err != nil {
				t.Fatal(err)
			}
			fill(l, 16, 7, 500<<10) // file 3 was made already, file 4 is what was file 1
			later(time.Hour)
			if files := l.Files(); len(files) != 2 || z.of("log/0000000000000004.log") != 0 {
				t.Errorf("files %+v, zeros %v", files, z.n)
			}
			if err := l.stopped(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFillingEndsBeforeTheFileIsUsed lets a write of zeros take long, while the file is
// needed: no zeros are written over what is stored. One that fails changes nothing.
func TestFillingEndsBeforeTheFileIsUsed(t *testing.T) {
	for _, outcome := range []error{nil, syscall.ENOSPC} {
		bubble.Test(t, func(t *testing.T) {
			fs, z := vfs.NewMem(vfs.MemConfig{}), &zeroWrites{n: map[string]int{}, hold: 1, wait: make(chan error)}
			fs.SetHook(z.hook)
			l := start(t, Config{FS: fs, FileSize: 4 * fillSize})
			fill(l, 1, 5, 500<<10)
			synctest.Wait()
			done := make(chan error, 1)
			go func() {
				for i := range 6 {
					_, err := l.try(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(i+6), 1, strings.Repeat("y", 500<<10))}, true)
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			synctest.Wait()
			if files := l.Files(); len(files) != 1 {
				t.Errorf("files %+v while zeros are written", files)
			}
			z.wait <- outcome
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			later(time.Hour)
			fs.SetHook(nil)
			l2, rep := openLog(t, Config{FS: fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})})
			defer l2.Close()
			if got := replayed(t, l2, 0); len(got) != 5+11 /* hard states and entries */ || rep.CutBytes > 0 {
				t.Errorf("%d entries, report %+v", len(got), rep)
			}
		})
	}
}
