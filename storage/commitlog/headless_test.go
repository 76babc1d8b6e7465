package commitlog

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// put writes over a part of a file.
func put(t testing.TB, fs vfs.FS, path string, pos int64, b []byte) {
	t.Helper()
	f, err := fs.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, pos); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, fs vfs.FS, path string, n int) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// beforeSync gives the disk as it was just before the n-th sync of a log file, from
// 0, with all that was written. Each file has three frames; with durability none only
// a new file starts a flush, of the one before and then of itself.
func beforeSync(t *testing.T, n int) *vfs.Mem {
	fs := vfs.NewMem(vfs.MemConfig{})
	var clones []*vfs.Mem
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, logSuffix) {
			clones = append(clones, fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept}))
		}
		return nil
	})
	l := start(t, Config{FS: fs, FileSize: 64 << 10, Durability: None, FlushInterval: time.Hour})
	for i := range 9 {
		l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(i+1), 1, strings.Repeat("x", 20<<10))})
	}
	if err := l.stopped(); err != nil {
		t.Fatal(err)
	}
	return clones[n]
}

const (
	secondFile = "log/0000000000000002.log"
	thirdFile  = "log/0000000000000003.log"
)

// TestI12HeaderThatWasNotFlushed loses headers, and what follows them, of files that
// were not flushed: the log ends before the first of them.
func TestI12HeaderThatWasNotFlushed(t *testing.T) {
	zeros := make([]byte, 64<<10)
	for _, c := range []struct {
		name   string
		sync   int // crash before it
		file   string
		lost   int // bytes from the file's start
		keeps  int
		reason string // none: there are no traces of what is cut
	}{
		{"first header", 0, firstFile, framesStart, 0, "0000000000000001 has no header"},
		{"first file", 0, firstFile, 64 << 10, 0, "nothing that the log can start with"},
		{"second header", 0, secondFile, framesStart, 3, "0000000000000002 has no header"},
		{"second file's first block", 0, secondFile, 4096, 3, ""},
		{"third header", 2, thirdFile, framesStart, 6, "0000000000000003 has no header"},
		{"third file", 2, thirdFile, 64 << 10, 6, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := beforeSync(t, c.sync)
			put(t, fs, c.file, 0, zeros[:c.lost])
			l, rep := openLog(t, Config{FS: fs, FileSize: 64 << 10})
			if got := replayed(t, l, 0); len(got) != c.keeps {
				t.Errorf("%d entries are left, want %d", len(got), c.keeps)
			}
			if (rep.CutBytes > 0) != (c.reason != "") || !strings.Contains(rep.CutReason, c.reason) || len(rep.Damaged) > 0 {
				t.Errorf("report %+v", rep)
			}
			if want := uint64(c.keeps / 3); rep.CutAt.File != want && c.reason != "" {
				t.Errorf("cut in file %d, want %d", rep.CutAt.File, want)
			}
			l.Close()
			l, rep = openLog(t, Config{FS: fs, FileSize: 64 << 10})
			if rep.CutBytes > 0 || len(replayed(t, l, 0)) != c.keeps {
				t.Errorf("opened again: %+v", rep)
			}
			l.Close()
		})
	}
}

// TestI12HeaderBelowTheMark damages headers of files that were flushed, as a frame
// behind them or in a later file tells.
func TestI12HeaderBelowTheMark(t *testing.T) {
	for _, c := range []struct {
		name   string
		newest bool // else the second file
		damage []byte
	}{
		{"a later file tells", false, make([]byte, framesStart)},
		{"a later file tells of all", false, make([]byte, 64<<10)},
		{"its own frames tell", true, make([]byte, framesStart)},
		{"its own frames tell behind the first block", true, make([]byte, 4096)},
		{"garbage", true, []byte(strings.Repeat("RLF1garbage", 93))},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := beforeSync(t, 2)
			path := secondFile
			if c.newest {
				l := start(t, Config{FS: fs, FileSize: 64 << 10})
				fill(l, 10, 3, 5000)
				path = l.files.path(4)
				l.stopped()
			}
			put(t, fs, path, 0, c.damage)
			_, rep, err := Open(Config{FS: fs, Dir: "log", FileSize: 64 << 10})
			var damage *CorruptError
			if !errors.As(err, &damage) || damage.File != path || damage.Pos != 0 {
				t.Errorf("open: %v, report %+v", err, rep)
			}
		})
	}
}

// TestI12HeaderOfAnEarlierLife loses the header of a file that is used again, so that
// the one of its earlier life is still there.
func TestI12HeaderOfAnEarlierLife(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		fs := vfs.NewMem(vfs.MemConfig{})
		cfg := Config{FS: fs, FileSize: 64 << 10}
		l := start(t, cfg)
		fill(l, 1, 4, 20<<10)
		old := get(t, fs, firstFile, framesStart)
		if err := l.Remove(1); err != nil { // it becomes file 3
			t.Fatal(err)
		}
		fill(l, 5, 3, 20<<10)
		path := l.files.path(3)
		c := fs.CrashClone(vfs.CrashOptions{})
		if flushed { // and its frames say so
			fill(l, 8, 1, 20<<10)
			c = fs.CrashClone(vfs.CrashOptions{})
		}
		before := get(t, c, path, framesStart)
		put(t, c, path, 0, old)
		_, rep, err := Open(Config{FS: c, Dir: "log", FileSize: 64 << 10})
		if flushed {
			var damage *CorruptError
			if !errors.As(err, &damage) || damage.File != path {
				t.Errorf("flushed: %v, report %+v", err, rep)
			}
		} else if err != nil || rep.CutBytes == 0 || rep.CutAt.File != 2 {
			t.Errorf("not flushed: %v, report %+v", err, rep)
		}
		if string(before) == string(old) {
			t.Fatal("the file was not used again")
		}
	}
}

func TestSeedOfAFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		crc, data := rng.Uint32(), make([]byte, rng.IntN(200))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if got := uncheck(codec.ChecksumUpdate(crc, data), data); got != crc {
			t.Fatalf("got %#x, want %#x", got, crc)
		}
	}
}

// TestI12SpareShowsOneLife cuts a file that was used again and whose new header is on
// disk, but not its first frame. What is left of both lives could be taken for traces
// of a third: the file is not used again.
func TestI12SpareShowsOneLife(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, FileSize: 64 << 10}
	l := start(t, cfg)
	fill(l, 1, 4, 20<<10)
	f, err := fs.Open(firstFile)
	if err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 4096)
	if _, err := f.ReadAt(old, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := l.Remove(1); err != nil { // it becomes file 3
		t.Fatal(err)
	}
	fill(l, 5, 3, 20<<10)
	fs = fs.CrashClone(vfs.CrashOptions{})
	put(t, fs, thirdFile, framesStart, old[framesStart:])
	cfg.FS = fs
	l2, rep := openLog(t, cfg)
	defer l2.Close()
	names, err := fs.List("log")
	if err != nil || len(names) != 2 || names[1] != newestName || rep.CutAt.File != 2 {
		t.Errorf("files %v, %v, report %+v", names, err, rep)
	}
}
