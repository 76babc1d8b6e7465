package commitlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestDescriptorsAreBounded writes and reads many files in both ways: no more descriptors
// stay open than MaxOpen says, and those of the file that is written and of the next one.
func TestDescriptorsAreBounded(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct %v", direct), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			const most = 6
			l := start(t, Config{FS: vfs.OS(), Dir: dir, FileSize: 256 << 10, Direct: direct, MaxOpen: most})
			var locs []Location
			for i := range uint64(20) {
				locs = append(locs, l.save(&Frame{Kind: KindEntries, Shard: 1, HardState: hardState(1, 1, i),
					Entries: entries(i+1, 1, strings.Repeat("x", 150_000))})...)
			}
			for _, loc := range locs {
				if err := l.ReadAt(loc, make([]byte, loc.Len)); err != nil {
					t.Fatal(err)
				}
				if l.Fixed(loc.File) > 0 {
					if _, err := l.ReadDirect(loc.File, 0, [][]byte{vfs.Aligned(vfs.TailBlock)}); err != nil && !errors.Is(err, vfs.ErrNoDirect) {
						t.Fatal(err)
					}
				}
			}
			open := map[string]int{}
			total := 0
			for _, name := range descriptors(t) {
				if filepath.Dir(name) == dir && strings.HasSuffix(name, logSuffix) {
					open[filepath.Base(name)]++
					total++
				}
			}
			if len(l.Files()) < 15 || total > most+3 || total == 0 {
				t.Errorf("of %d files %d descriptors are open: %v", len(l.Files()), total, open)
			}
			last := fileName(l.Files()[len(l.Files())-1].ID, logSuffix)
			for name, n := range open {
				if n > 2 && name != last || n > 1 && !direct {
					t.Errorf("%d descriptors of %s", n, name)
				}
			}
		})
	}
}

// descriptors gives the names of what this process has open.
func descriptors(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	for _, e := range list {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			names = append(names, name)
		}
	}
	return names
}
