package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// flip changes one byte of a file.
func flip(t testing.TB, fs vfs.FS, path string, pos int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, pos); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, pos); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// threeFrames makes a log of one file whose frames were flushed one by one.
func threeFrames(t *testing.T) (*vfs.Mem, []Location) {
	fs := vfs.NewMem(vfs.MemConfig{})
	l := start(t, Config{FS: fs})
	var locs []Location
	for i := range 3 {
		data := strings.Repeat(fmt.Sprint(i), 3000)
		locs = append(locs, l.save(&Frame{Kind: KindEntries, Shard: 5, Entries: entries(uint64(i+1), 1, data)})...)
	}
	if err := l.stopped(); err != nil {
		t.Fatal(err)
	}
	return fs, locs
}

const firstFile = "log/0000000000000001.log"

func TestI12DamageBelowTheMarkIsAnError(t *testing.T) {
	fs, locs := threeFrames(t)
	places := map[string]int64{"checkpoint": framesStart + 20, "header": locs[1].Pos - entrySize - 30, "table": locs[1].Pos - 10, "data": locs[1].Pos + 700}
	for name, pos := range places {
		t.Run(name, func(t *testing.T) {
			c := fs.CrashClone(vfs.CrashOptions{})
			flip(t, c, firstFile, pos)
			before := c.Ops()
			_, _, err := Open(Config{FS: c, Dir: "log"})
			var damage *CorruptError
			if !errors.As(err, &damage) || rhumb.KindOf(err) != rhumb.KindCorrupt {
				t.Fatalf("open: %v", err)
			}
			if damage.File != firstFile || damage.ID != 1 || damage.Pos > pos || damage.Pos < pos-200 && name != "data" {
				t.Fatalf("damage at %d is reported as %+v", pos, damage)
			}
			if (name == "table" || name == "data") && (!damage.IsShard || damage.Shard != 5) {
				t.Fatalf("the shard is known, but: %+v", damage)
			}
			if !strings.Contains(err.Error(), firstFile) {
				t.Fatalf("error does not name the file: %v", err)
			}
			c.SetHook(func(op vfs.Op) error {
				if op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate || op.Kind == vfs.OpRemove {
					t.Errorf("a damaged log was changed: %+v", op)
				}
				return nil
			})
			if _, _, err := Open(Config{FS: c, Dir: "log"}); err == nil || c.Ops() == before {
				t.Fatal("second open did not fail")
			}
		})
	}
}

func TestTornTailIsCutAndReported(t *testing.T) {
	fs, locs := threeFrames(t)
	flip(t, fs, firstFile, locs[2].Pos+1500) // no mark covers the last frame
	l, rep := openLog(t, Config{FS: fs})
	defer l.Close()
	start := locs[2].Pos - entrySize - frameHeaderSize
	if rep.CutAt != (Mark{File: 1, Pos: start}) || rep.CutBytes != 3000+entrySize+frameHeaderSize || rep.CutReason == "" {
		t.Fatalf("report %+v, want a cut at %d", rep, start)
	}
	if got := replayed(t, l, 0); len(got) != 2 {
		t.Fatalf("kept %d entries, want 2", len(got))
	}
}

// TestOneFileHeaderIsEnough damages either copy, then both.
func TestOneFileHeaderIsEnough(t *testing.T) {
	fs, _ := threeFrames(t)
	for _, pos := range []int64{30, fileHeaderCopy + 30} {
		c := fs.CrashClone(vfs.CrashOptions{})
		flip(t, c, firstFile, pos)
		l, _ := openLog(t, Config{FS: c})
		if got := replayed(t, l, 0); len(got) != 3 {
			t.Fatalf("header copy at %d damaged: %d entries", pos, len(got))
		}
		l.Close()
	}
}

// TestI12LostFileHeader damages a file of which only a later file knows that it was
// flushed.
func TestI12LostFileHeader(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, FileSize: 64 << 10}
	l := start(t, cfg)
	fill(l, 1, 10, 20<<10)
	second := l.Files()[1].ID
	l.stopped()
	path := l.files.path(second)
	flip(t, fs, path, 30)
	flip(t, fs, path, fileHeaderCopy+30)
	_, rep, err := Open(Config{FS: fs, Dir: "log", FileSize: 64 << 10})
	if err != nil {
		t.Fatalf("a damaged old file must not stop the log: %v", err)
	}
	if len(rep.Damaged) != 1 || rep.Damaged[0].ID != second {
		t.Fatalf("report %+v", rep)
	}
}

// fill saves n frames of one entry each, from an index on.
func fill(l *running, first uint64, n, size int) {
	l.t.Helper()
	for i := range n {
		index := first + uint64(i)
		l.save(&Frame{Kind: KindEntries, Shard: 1, HardState: hardState(index, 3, index), Entries: entries(index, index, strings.Repeat("x", size))})
	}
}

// TestI2CutTailNeverComesBack loses the first of two unflushed frames, so that the
// second stands intact behind the cut, and then removes the file that knew of the cut.
func TestI2CutTailNeverComesBack(t *testing.T) {
	fs, locs := threeFrames(t)
	f, err := fs.OpenReadWrite(firstFile)
	if err != nil {
		t.Fatal(err)
	}
	// The third frame without the second's flush: give it the mark of the second.
	at := locs[2].Pos - entrySize - frameHeaderSize
	head, _ := readHead(fs, firstFile)
	frame := make([]byte, frameHeaderMax)
	f.ReadAt(frame, at)
	h, err := parseFrameHeader(frame, head.seed(), at)
	if err != nil {
		t.Fatal(err)
	}
	h.mark.Pos = locs[1].Pos - entrySize - frameHeaderSize
	h.put(frame, head.seed(), at)
	f.WriteAt(frame[:frameHeaderSize], at)
	f.Close()
	flip(t, fs, firstFile, locs[1].Pos)

	l := start(t, Config{FS: fs, FileSize: 64 << 10})
	if got := replayed(t, l.Log, 0); len(got) != 1 {
		t.Fatalf("%d entries, want 1", len(got))
	}
	fill(l, 2, 8, 20<<10)
	if err := l.Remove(2); err != nil {
		t.Fatal(err)
	}
	l.stopped()
	l = start(t, Config{FS: fs, FileSize: 64 << 10})
	err = l.Replay(0, func(f *Frame, _ []Location) error {
		for _, e := range f.Entries {
			if bytes.HasPrefix(e.GetData(), []byte("22")) {
				t.Error("an entry that was cut is back")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestI1VoteOutlivesItsFile removes all files that a vote, term and commit were
// written to.
func TestI1VoteOutlivesItsFile(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, FileSize: 64 << 10}
	l := start(t, cfg)
	l.SetConf(7, []byte("conf"))
	l.save(&Frame{Kind: KindEntries, Shard: 7, HardState: hardState(9, 2, 4), Entries: entries(1, 9, "a", "b", "c", "d", "e")})
	l.CompactTo(7, 3, 9)
	for round := range 3 {
		fill(l, uint64(round*20+1), 20, 20<<10)
		for _, f := range l.Files() {
			if f.Closed {
				if err := l.Remove(f.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.stopped()
		l = start(t, cfg)
	}
	if files := l.Files(); files[0].ID < 10 {
		t.Fatalf("old files are still there: %+v", files)
	}
	want := ShardState{Shard: 7, Term: 9, Vote: 2, Commit: 4, Compacted: 3, CompactedTerm: 9, Last: 5, LastTerm: 9, Conf: []byte("conf")}
	if got := l.Shards()[1]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	fs, _ := threeFrames(t)
	c := fs.CrashClone(vfs.CrashOptions{})
	head, _ := readHead(c, firstFile)
	f, _ := c.OpenReadWrite(firstFile)
	at := framesStart + int64(0)
	frame := make([]byte, frameHeaderMax)
	f.ReadAt(frame, at)
	h, err := parseFrameHeader(frame, head.seed(), at)
	if err != nil {
		t.Fatal(err)
	}
	h.flags |= 1 << 20 // an unknown one that a reader must know
	h.put(frame, head.seed(), at)
	f.WriteAt(frame[:frameHeaderSize], at)
	f.Close()
	if _, _, err := Open(Config{FS: c, Dir: "log"}); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Fatalf("open: %v", err)
	}
}
