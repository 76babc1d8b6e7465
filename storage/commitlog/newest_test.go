package commitlog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI1NewestFileTakenAway kills a process after each frame and takes away the file
// that was written to, with or without the one that was made for later: no other
// file names it, and the log must not open without it.
func TestI1NewestFileTakenAway(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, FileSize: 64 << 10}
	type moment struct {
		disk    *vfs.Mem
		written uint64
	}
	var mu sync.Mutex
	var written uint64
	var between []moment // a later file has its name, and the record does not name it yet
	fs.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.Changes() && strings.HasSuffix(op.Name, newestName) && written > 0 {
			between = append(between, moment{fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept}), written})
		}
		return nil
	})
	for start1 := range 2 { // the second time the log goes on after a restart
		l := start(t, cfg)
		for i := range 9 {
			l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(9*start1+i+1), 1, strings.Repeat("x", 20<<10))})
			files := l.Files()
			mu.Lock()
			written = files[len(files)-1].ID
			mu.Unlock()
			for _, unsynced := range []vfs.Unsynced{vfs.UnsyncedKept, vfs.UnsyncedLost} {
				takeNewest(t, fs.CrashClone(vfs.CrashOptions{Unsynced: unsynced}), files[len(files)-1].ID)
			}
		}
		if err := l.stopped(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range between {
		takeNewest(t, m.disk, m.written)
	}
	if len(between) < 6 {
		t.Errorf("only %d moments in which the record changes", len(between))
	}
}

func takeNewest(t *testing.T, disk *vfs.Mem, written uint64) {
	t.Helper()
	names, err := disk.List("log")
	if err != nil {
		t.Fatal(err)
	}
	want := fileName(written, logSuffix)
	var later []string // at most one: made, and not begun
	for _, n := range names {
		if strings.HasSuffix(n, logSuffix) && n > want {
			later = append(later, n)
		}
	}
	for with := 0; with <= len(later); with++ {
		c := disk.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept})
		for _, n := range append(later[:with:with], want) {
			if err := c.Remove("log/" + n); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // and it changes nothing
			l, _, err := Open(Config{FS: c, Dir: "log", FileSize: 64 << 10})
			if err == nil {
				l.Close()
			}
			if rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), want) {
				t.Fatalf("I1: opened without %s and %d later ones: %v", want, with, err)
			}
		}
		if ids, _, err := LostNewest(c, "log"); err != nil || len(ids) == 0 || ids[0] != written {
			t.Fatalf("lost %v, %v, want %d first", ids, err, written)
		}
	}
	l, _ := openLog(t, Config{FS: disk, FileSize: 64 << 10})
	l.Close()
}

// TestNewestFileCutToNothing: the file that was begun last is empty, and the one before
// it went by itself: what is refused names the one that is there.
func TestNewestFileCutToNothing(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, FileSize: 64 << 10}
	l := start(t, cfg)
	for i := range 5 {
		l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(i+1), 1, strings.Repeat("x", 20<<10))})
	}
	files := l.Files()
	disk := fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
	for _, f := range files[:len(files)-1] {
		if err := disk.Remove(l.files.path(f.ID)); err != nil {
			t.Fatal(err)
		}
	}
	last := l.files.path(files[len(files)-1].ID)
	f, err := disk.OpenReadWrite(last)
	if err == nil {
		err = errors.Join(f.Truncate(0), f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.stopped(); err != nil {
		t.Fatal(err)
	}
	cfg = l.cfg
	cfg.FS = disk
	_, _, err = Open(cfg)
	if rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), "unless "+last+" lost its beginning") {
		t.Errorf("opened with %v", err)
	}
}

// TestNewestGolden keeps the bytes of a record.
func TestNewestGolden(t *testing.T) {
	const golden = "5248554d424e4557010000008766781d070000000000000009000000000000000800000000000000"
	r := newestRecord{seq: 7, newest: 9, begun: 8}
	var b [newestSize]byte
	r.put(b[:])
	if got := hex.EncodeToString(b[:]); got != golden {
		t.Errorf("record is %s, the golden one %s", got, golden)
	}
	if got, ok, err := parseNewest(b[:]); got != r || !ok || err != nil {
		t.Errorf("record %+v, %v, %v", got, ok, err)
	}
	b[11] = 0x01 // a flag that must be known
	binary.LittleEndian.PutUint32(b[12:], newestSum(b[:]))
	if _, _, err := parseNewest(b[:]); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("unknown flag: %v", err)
	}
}

// TestNewestOfAnOldLog opens a log that has no record, and one whose record was torn
// when it was first written.
func TestNewestOfAnOldLog(t *testing.T) {
	for _, torn := range []bool{false, true} {
		fs := vfs.NewMem(vfs.MemConfig{})
		l := start(t, Config{FS: fs})
		l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(1, 1, "a")})
		l.stopped()
		if err := fs.Remove("log/" + newestName); err != nil {
			t.Fatal(err)
		}
		if torn {
			f, err := fs.Create("log/" + newestName)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte(newestMagic), 0); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		l2, _ := openLog(t, Config{FS: fs})
		l2.Close()
		if r, err := readNewest(fs, "log"); err != nil || r.newest != 1 || r.begun != 1 {
			t.Errorf("torn %v: record %+v, %v", torn, r, err)
		}
	}
}

// TestI1NewestRecordTakenAway loses the record itself, or both of its slots: the log
// is refused, changes nothing, and opens again when somebody vouched for its end.
func TestI1NewestRecordTakenAway(t *testing.T) {
	for name, lose := range map[string]func(fs *vfs.Mem) error{
		"taken away": func(fs *vfs.Mem) error { return fs.Remove("log/" + newestName) },
		"overwritten": func(fs *vfs.Mem) error {
			f, err := fs.Create("log/" + newestName)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, newestSlots*newestSlot), 0)
			return errors.Join(err, f.Close())
		},
	} {
		fs := vfs.NewMem(vfs.MemConfig{})
		cfg := Config{FS: fs, FileSize: 64 << 10}
		l := start(t, cfg)
		for i := range 9 {
			l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(i+1), 1, strings.Repeat("x", 20<<10))})
		}
		if err := l.stopped(); err != nil {
			t.Fatal(err)
		}
		if _, err := RenewNewest(fs, "log"); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("%s: renewed although it is there: %v", name, err)
		}
		if err := lose(fs); err != nil {
			t.Fatal(err)
		}
		kept := Config{FS: fs, Dir: "log", FileSize: 64 << 10, KeepsNewest: true}
		for range 2 {
			if l, _, err := Open(kept); rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), "log/NEWEST") {
				if err == nil {
					l.Close()
				}
				t.Fatalf("%s: opened: %v", name, err)
			}
		}
		if ids, missing, err := LostNewest(fs, "log"); len(ids) > 0 || !missing || err != nil {
			t.Errorf("%s: lost %v, missing %t, %v", name, ids, missing, err)
		}
		id, err := RenewNewest(fs, "log")
		if _, missing, _ := LostNewest(fs, "log"); err != nil || id < 3 || missing {
			t.Errorf("%s: renewed with file %d, missing %t, %v", name, id, missing, err)
		}
		again, rep, err := Open(kept)
		if err != nil || rep.CutBytes > 0 {
			t.Fatalf("%s: %+v, %v", name, rep, err)
		}
		again.Close()
	}
}

// TestNewestIsNoLossInANewLog crashes at every operation of a log that is made: what
// it leaves opens, as one that keeps the record.
func TestNewestIsNoLossInANewLog(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	var mu sync.Mutex
	var left []*vfs.Mem
	fs.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.Changes() {
			for _, u := range []vfs.Unsynced{vfs.UnsyncedKept, vfs.UnsyncedLost} {
				left = append(left, fs.CrashClone(vfs.CrashOptions{Unsynced: u}))
			}
		}
		return nil
	})
	l := start(t, Config{FS: fs, FileSize: 64 << 10})
	for i := range 6 {
		l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(i+1), 1, strings.Repeat("x", 30<<10))})
	}
	if err := l.stopped(); err != nil {
		t.Fatal(err)
	}
	for i, disk := range left {
		again, _, err := Open(Config{FS: disk, Dir: "log", FileSize: 64 << 10, KeepsNewest: true})
		if err != nil {
			t.Fatalf("crash %d of %d: %v", i, len(left), err)
		}
		again.Close()
	}
}

// FuzzNewest opens a log beside any record: it is refused or it works.
func FuzzNewest(f *testing.F) {
	r := newestRecord{seq: 1, newest: 2, begun: 1}
	b := make([]byte, 2*newestSlot)
	r.put(b[newestSlot:])
	f.Add(b)
	f.Add([]byte(newestMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem(vfs.MemConfig{})
		if err := fs.MkdirAll("log"); err != nil {
			t.Fatal(err)
		}
		file, err := fs.Create("log/" + newestName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		l, _, err := Open(Config{FS: fs, Dir: "log"})
		if err != nil {
			return
		}
		l.Close()
	})
}

// TestI1NewestThatWasOnlyReadIsWrittenAgain: a log ends while it notes that a file goes that was made
// and not begun, and the note is in the page cache only. The next process must not take the
// file away on the strength of it, or a power loss leaves a log that is refused.
func TestI1NewestThatWasOnlyReadIsWrittenAgain(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := Config{FS: fs, FileSize: 64 << 10}
	l := start(t, cfg)
	fill(l, 1, 3, 20<<10)
	for made := false; !made; { // file 2 is made behind our back
		l.mu.Lock()
		made = l.prep.ready != nil
		l.mu.Unlock()
		runtime.Gosched()
	}
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, newestName) {
			return &vfs.ShortWrite{N: op.Len} // all of it
		}
		return nil
	})
	if err := l.stopped(); err != nil {
		t.Fatal(err)
	}
	fs.SetHook(nil)
	again, _ := openLog(t, cfg)
	again.Close()
	cfg.FS, cfg.KeepsNewest = fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost}), true
	last, _ := openLog(t, cfg)
	if got := replayed(t, last, 0); len(got) != 2*3 /* hard states and entries */ {
		t.Errorf("the log has %q", got)
	}
	last.Close()
}
