package storage

import (
	"errors"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI1LostNewestIsRefused: a directory that has lost log/NEWEST alone does not open,
// and opens again with all it had when somebody vouched for it. One that only older
// versions have written opens without, and keeps the file from then on.
func TestI1LostNewestIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := settledDisk(t)
		const newest = "data/log/NEWEST"
		if err := fs.Remove(newest); err != nil {
			t.Fatal(err)
		}
		old := fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept})
		for range 2 { // and it changes nothing
			if s, err := Open(testConfig(fs)); rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), newest) {
				if err == nil {
					s.Close()
				}
				t.Fatalf("opened without %s: %v", newest, err)
			}
		}
		if _, err := RenewNewest(fs, "data"); err != nil {
			t.Fatal(err)
		}
		opens(t, fs)

		b, err := readFile(old, "data/"+formatName, maxFormatSize)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseFormat(b)
		if err != nil || f.version != formatVersion || f.minReader > segmentFormat {
			t.Fatalf("format %+v, %v", f, err)
		}
		f.version = segmentFormat
		if err := writeFile(old, "data", formatName, f.encode()); err != nil {
			t.Fatal(err)
		}
		if _, err := RenewNewest(old, "data"); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("renewed where none is kept: %v", err)
		}
		opens(t, old)
		if info, err := ReadFormat(old, "data"); err != nil || !info.KeepsNewest() || info.MinReader != f.minReader {
			t.Errorf("format %+v, %v", info, err)
		}
		if err := old.Remove(newest); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(testConfig(old)); rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Errorf("opened without %s after it was kept: %v", newest, err)
		}
	})
}

func opens(t *testing.T, fs *vfs.Mem) {
	t.Helper()
	s, err := Open(testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
