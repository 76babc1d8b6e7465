package commitlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestDirectReadsWhatIsFixed: while frames of all sizes are written, what is said to be
// fixed can be read past the cache, and is the same at the end.
func TestDirectReadsWhatIsFixed(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": vfs.NewMem(vfs.MemConfig{}), "os": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			l := start(t, Config{FS: fs, Dir: filepath.Join(t.TempDir(), "log"), FileSize: 1 << 20, Direct: true})
			rng := rand.New(rand.NewPCG(1, 2))
			was := map[uint64][]byte{}
			for i := range uint64(60) {
				n := []int{100, 5000, 70_000, 300_000, 1_500_000}[rng.IntN(5)]
				locs := l.save(&Frame{Kind: KindEntries, Shard: 1, HardState: hardState(1, 1, i), Entries: entries(i+1, 1, strings.Repeat(string(rune('a'+i%26)), n))})
				for _, f := range l.Files() {
					fixed := l.Fixed(f.ID)
					if fixed > f.Bytes || f.ID < locs[0].File && fixed != f.Bytes && fixed != 0 || f.ID == locs[0].File && fixed%vfs.TailBlock != 0 {
						t.Fatalf("file %d of %d bytes is fixed up to %d", f.ID, f.Bytes, fixed)
					}
					got, ok := readFixed(t, l.Log, f.ID, fixed)
					if !ok {
						t.Skip("this file system cannot read past the cache")
					}
					if before := was[f.ID]; len(got) < len(before) && fixed > 0 || !bytes.Equal(before[:min(len(before), len(got))], got[:min(len(before), len(got))]) {
						t.Fatalf("file %d has changed below %d", f.ID, len(before))
					}
					if len(got) > len(was[f.ID]) {
						was[f.ID] = got
					}
				}
			}
			if len(was) < 3 {
				t.Errorf("%d files", len(was))
			}
			for id, want := range was {
				got := make([]byte, len(want))
				if err := l.ReadAt(Location{File: id, Len: uint32(len(want))}, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("file %d: read past the cache it was something else: %v", id, err)
				}
			}
			first := l.Files()[0].ID
			if err := l.Remove(first); err != nil {
				t.Fatal(err)
			}
			if _, err := l.ReadDirect(first, 0, [][]byte{vfs.Aligned(vfs.TailBlock)}); !errors.Is(err, ErrRemoved) || l.Fixed(first) != 0 {
				t.Errorf("a file that is gone: %v", err)
			}
		})
	}
}

// readFixed reads a file up to its fixed end; it is false if the system cannot.
func readFixed(t *testing.T, l *Log, file uint64, fixed int64) ([]byte, bool) {
	t.Helper()
	if fixed == 0 {
		return nil, true
	}
	b := vfs.Aligned(int(fixed+2*vfs.TailBlock) &^ (vfs.TailBlock - 1))
	n, err := l.ReadDirect(file, 0, [][]byte{b[:vfs.TailBlock], b[vfs.TailBlock:]})
	if errors.Is(err, vfs.ErrNoDirect) {
		return nil, false
	}
	if err != nil || n != fixed {
		t.Fatalf("file %d up to %d: %d, %v", file, fixed, n, err)
	}
	if _, err := l.ReadDirect(file, (fixed+vfs.TailBlock-1)&^(vfs.TailBlock-1), [][]byte{vfs.Aligned(vfs.TailBlock)}); err == nil {
		t.Errorf("file %d can be read beyond %d", file, fixed)
	}
	return b[:n], true
}

// TestSmallRoundsStayWithTheCache: of a file that was written in small rounds nothing is
// read past the system's cache, which has it.
func TestSmallRoundsStayWithTheCache(t *testing.T) {
	l := start(t, Config{FS: vfs.NewMem(vfs.MemConfig{}), FileSize: 64 << 10, Direct: true})
	for i := range uint64(300) {
		l.save(&Frame{Kind: KindEntries, Shard: 1, HardState: hardState(1, 1, i), Entries: entries(i+1, 1, strings.Repeat("x", 500))})
	}
	for _, f := range l.Files() {
		if n := l.Fixed(f.ID); n != 0 {
			t.Errorf("file %d is fixed up to %d", f.ID, n)
		}
	}
}
