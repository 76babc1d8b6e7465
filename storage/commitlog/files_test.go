package commitlog

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func TestInvalidFramesAreRefused(t *testing.T) {
	l := start(t, Config{FS: vfs.NewMem(vfs.MemConfig{})})
	holes := append(entries(1, 1, "a"), entries(3, 1, "b")...)
	for _, f := range []*Frame{
		{}, {Kind: KindCheckpoint}, {Kind: KindSnapshot}, {Kind: 9},
		{Kind: KindEntries, Entries: holes}, {Kind: KindEntries, Conf: []byte("x")},
	} {
		if _, err := l.try(f, true); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if l.save(&Frame{Kind: KindEntries, Entries: entries(1, 1, "a")}); l.Err() != nil {
		t.Fatal("the log ended")
	}
}

// TestReadsBesideWrites reads entries while others are written, files rotate, go away
// and are used again.
func TestReadsBesideWrites(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": vfs.NewMem(vfs.MemConfig{}), "os": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			l := start(t, Config{FS: fs, Dir: t.TempDir() + "/log", FileSize: 64 << 10, MaxOpen: 2})
			places := make(chan Location, 512)
			var readers sync.WaitGroup
			for range 3 {
				readers.Go(func() {
					for loc := range places {
						release, ok := l.Pin(loc.File)
						buf := make([]byte, loc.Len)
						err := l.ReadAt(loc, buf)
						if want := strings.Repeat("x", len(buf)); ok && (err != nil || string(buf) != want) {
							t.Errorf("read %v: %v, %.20q", loc, err, buf)
						}
						if !ok && err != nil && !errors.Is(err, ErrRemoved) {
							t.Errorf("read %v: %v", loc, err)
						}
						release()
					}
				})
			}
			for i := range 300 {
				locs := l.save(&Frame{Kind: KindEntries, Entries: entries(uint64(i+1), 1, strings.Repeat("x", 100*(i%60)+1))})
				places <- locs[0]
				if files := l.Files(); len(files) > 3 && files[0].Closed {
					if err := l.Remove(files[0].ID); err != nil {
						t.Error(err)
					}
				}
			}
			close(places)
			readers.Wait()
			files := l.Files()
			if files[0].ID < 8 || l.Remove(files[len(files)-1].ID) != ErrInUse || l.Remove(1) != ErrRemoved {
				t.Errorf("files %+v", files)
			}
		})
	}
}

// TestI2RecycledFilesShowNothingOld reads a removed file until its pin is released;
// then it is used again, and its old frames are not seen in its new life.
func TestI2RecycledFilesShowNothingOld(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, FileSize: 64 << 10}
	l := start(t, cfg)
	old := l.save(&Frame{Kind: KindEntries, Shard: 9, Entries: entries(1, 1, "old")})[0]
	fill(l, 1, 10, 20<<10)
	release, ok := l.Pin(1)
	if !ok {
		t.Fatal("no pin")
	}
	if err := l.Remove(1); err != nil {
		t.Fatal(err)
	}
	fill(l, 11, 10, 20<<10)
	buf := make([]byte, 3)
	if err := l.ReadAt(old, buf); err != nil || string(buf) != "old" {
		t.Fatalf("a pinned file: %q, %v", buf, err)
	}
	release()
	release()
	if _, ok := l.Pin(1); ok {
		t.Fatal("pinned a file that is gone")
	}
	if err := l.ReadAt(old, buf); !errors.Is(err, ErrRemoved) {
		t.Fatalf("read of a file that is gone: %v", err)
	}
	if names, _ := fs.List("log"); !strings.Contains(fmt.Sprint(names), "0000000000000001.free") {
		t.Fatalf("no spare file: %v", names)
	}
	fill(l, 21, 10, 20<<10)
	if names, _ := fs.List("log"); strings.Contains(fmt.Sprint(names), ".free") {
		t.Fatalf("the spare file was not used: %v", names)
	}
	l.stopped()
	l = start(t, cfg)
	for _, line := range replayed(t, l.Log, 0) {
		if strings.HasPrefix(line, "9 ") {
			t.Fatalf("an old frame is back: %s", line)
		}
	}
}

// TestLastIndexFollowsCancelling tells which files hold entries that still count.
func TestLastIndexFollowsCancelling(t *testing.T) {
	cfg := Config{FS: vfs.NewMem(vfs.MemConfig{}), FileSize: 64 << 10}
	l := start(t, cfg)
	fill(l, 1, 6, 20<<10) // three in a file
	check := func(want string) {
		t.Helper()
		var got []string
		for _, f := range l.Files() {
			got = append(got, fmt.Sprint(f.LastIndex))
		}
		if fmt.Sprint(got) != want {
			t.Fatalf("last indexes %v, want %s", got, want)
		}
	}
	check("[map[1:3] map[1:6]]")
	l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(3, 9, "new", "new")})
	check("[map[1:2] map[1:4]]")
	l.stopped()
	l = start(t, cfg)
	// Only the second file was read as a whole: the first one's index comes from the
	// second's checkpoint and what the second cancels.
	check("[map[1:2] map[1:4]]")
}

// TestEndFileBeginsANewOne with the next frame, once, and only for the active file; a
// restart finds what both hold.
func TestEndFileBeginsANewOne(t *testing.T) {
	cfg := Config{FS: vfs.NewMem(vfs.MemConfig{}), FileSize: 64 << 10}
	l := start(t, cfg)
	file := func(i uint64) uint64 {
		return l.save(&Frame{Kind: KindEntries, Entries: entries(i, 1, "x")})[0].File
	}
	first := file(1)
	l.EndFile(first + 7)
	if got := file(2); got != first {
		t.Errorf("a file that is not there ended file %d", first)
	}
	l.EndFile(first)
	second := file(3)
	if got := file(4); second != first+1 || got != second {
		t.Errorf("files %d, then %d, behind %d", second, got, first)
	}
	if infos := l.Files(); len(infos) != 2 || !infos[0].Closed {
		t.Errorf("files %+v", infos)
	}
	l.stopped()
	l = start(t, cfg)
	if lines := replayed(t, l.Log, 0); len(lines) < 4 {
		t.Errorf("after a restart: %q", lines)
	}
}

// TestUnflushedFilesStayOpen writes more files in one round than may be open: each is
// flushed before its handle goes. Then only as many handles are left as may be.
func TestUnflushedFilesStayOpen(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": vfs.NewMem(vfs.MemConfig{}), "os": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			l, _ := openLog(t, Config{FS: fs, Dir: t.TempDir() + "/log", FileSize: 64 << 10, MaxOpen: 1})
			var saved sync.WaitGroup
			for i := range 20 {
				saved.Add(1)
				l.Append(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(i+1), 1, strings.Repeat("x", 50<<10))}, true,
					func(_ []Location, err error) {
						if err != nil {
							t.Errorf("entry %d: %v", i+1, err)
						}
						saved.Done()
					})
			}
			r := run1(t, l)
			saved.Wait()
			if r.Err() != nil || len(r.Files()) != 20 {
				t.Fatalf("%d files, %v", len(r.Files()), r.Err())
			}
			r.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(21, 1, strings.Repeat("x", 50<<10))})
			if l.files.opened > 3 {
				t.Errorf("%d handles are open", l.files.opened)
			}
		})
	}
}
