package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func exists(m *Mem, name string) bool {
	_, err := m.Stat(name)
	return err == nil
}

func TestCrashKeepsWhatIsSynced(t *testing.T) {
	m := NewMem(MemConfig{})
	f := create(t, m, "f", strings.Repeat("a", 5000))
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	_, err := f.WriteAt(bytes.Repeat([]byte("b"), 4000), 500)
	must(t, err)
	kinds := map[string]bool{}
	for seed := range uint64(200) {
		c := m.CrashClone(CrashOptions{Seed: seed})
		got := content(t, c, "f")
		if len(got) != 5000 || strings.Trim(got[:500]+got[4500:], "a") != "" {
			t.Fatalf("seed %d touched what was synced", seed)
		}
		switch n := strings.Count(got, "b"); {
		case n == 0:
			kinds["lost"] = true
		case n == 4000:
			kinds["kept"] = true
		default:
			kinds["torn"] = true
			if end := strings.IndexByte(got, 'b'); end%sectorSize != 0 && end != 500 {
				t.Fatalf("seed %d tears inside of a sector, at %d", seed, end)
			}
		}
		if again := content(t, m.CrashClone(CrashOptions{Seed: seed}), "f"); again != got {
			t.Fatalf("seed %d is not one crash", seed)
		}
	}
	if len(kinds) != 3 {
		t.Fatalf("only %v happened", kinds)
	}
	if got := content(t, m.CrashClone(CrashOptions{Unsynced: UnsyncedLost}), "f"); strings.Contains(got, "b") {
		t.Fatal("UnsyncedLost kept something")
	}
	if got := content(t, m.CrashClone(CrashOptions{Unsynced: UnsyncedKept}), "f"); strings.Count(got, "b") != 4000 {
		t.Fatal("UnsyncedKept lost something")
	}
}

func TestCrashReordersWrites(t *testing.T) {
	m := NewMem(MemConfig{})
	f := create(t, m, "f", "")
	must(t, m.SyncDir("/"))
	for i := range 4 {
		_, err := f.WriteAt(bytes.Repeat([]byte{'0' + byte(i)}, sectorSize), int64(i*sectorSize))
		must(t, err)
	}
	seen := false
	for seed := range uint64(100) {
		got := content(t, m.CrashClone(CrashOptions{Seed: seed}), "f")
		seen = seen || strings.Contains(got, "3") && !strings.Contains(got, "0")
	}
	if !seen {
		t.Fatal("no later write survives an earlier one")
	}
}

func TestCrashNamesNeedSyncDir(t *testing.T) {
	m := NewMem(MemConfig{})
	must(t, m.MkdirAll("d"))
	must(t, create(t, m, "d/a", "1").Sync())
	if exists(m.CrashClone(CrashOptions{Unsynced: UnsyncedLost}), "d") {
		t.Fatal("a folder nobody synced survives")
	}
	must(t, m.SyncDir("/"))
	if exists(m.CrashClone(CrashOptions{Unsynced: UnsyncedLost}), "d/a") {
		t.Fatal("a name nobody synced survives")
	}
	must(t, m.SyncDir("d"))
	must(t, m.Rename("d/a", "d/b"))
	must(t, m.Rename("d/b", "d/c"))
	seen := map[string]bool{}
	for seed := range uint64(100) {
		names, err := m.CrashClone(CrashOptions{Seed: seed}).List("d")
		must(t, err)
		seen[fmt.Sprint(names)] = true
	}
	if len(seen) != 3 || !seen["[a]"] || !seen["[b]"] || !seen["[c]"] {
		t.Fatalf("renames left %v", seen)
	}
	must(t, m.SyncDir("d"))
	if !exists(m.CrashClone(CrashOptions{Unsynced: UnsyncedLost}), "d/c") {
		t.Fatal("a synced name is lost")
	}
}

func TestFailedSyncIsNeverMadeUpFor(t *testing.T) {
	m := NewMem(MemConfig{})
	f := create(t, m, "f", "old!")
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	_, err := f.WriteAt([]byte("lost"), 0)
	must(t, err)
	m.SetHook(func(op Op) error {
		if op.Kind == OpSync {
			return syscall.EIO
		}
		return nil
	})
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	m.SetHook(nil)
	must(t, f.Sync())
	if got := content(t, m, "f"); got != "lost" {
		t.Fatalf("cache has %q", got)
	}
	if got := content(t, m.CrashClone(CrashOptions{Unsynced: UnsyncedLost}), "f"); got != "old!" {
		t.Fatalf("a later sync saved %q", got)
	}
	_, err = f.WriteAt([]byte("lost"), 0)
	must(t, err)
	must(t, f.Sync())
	for seed := range uint64(20) {
		if got := content(t, m.CrashClone(CrashOptions{Seed: seed}), "f"); got != "lost" {
			t.Fatalf("written again and synced, but %q", got)
		}
	}
}

func TestFaults(t *testing.T) {
	m := NewMem(MemConfig{Capacity: 10})
	f := create(t, m, "f", "12345")
	if n, err := f.WriteAt([]byte("abcdefgh"), 5); n != 5 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("full disk: %d, %v", n, err)
	}
	if err := f.Allocate(11); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("allocate on a full disk: %v", err)
	}
	if u, _ := m.DiskUsage("/"); u.Free != 0 || u.Total != 10 {
		t.Fatalf("usage %+v", u)
	}
	m.SetUsage(func() (Usage, error) { return Usage{Total: 100, Free: 90}, nil })
	if u, _ := m.DiskUsage("/"); u.Free != 90 {
		t.Fatalf("the lie is %+v", u)
	}
	m.SetUsage(nil)
	must(t, f.Truncate(0))
	m.SetHook(func(op Op) error {
		if op.Kind == OpWrite {
			return &ShortWrite{N: 3}
		}
		return nil
	})
	if n, err := f.WriteAt([]byte("abcdef"), 0); n != 3 || !errors.Is(err, syscall.EIO) {
		t.Fatalf("short write: %d, %v", n, err)
	}
	m.SetHook(nil)
	if got := content(t, m, "f"); got != "abc" {
		t.Fatalf("short write left %q", got)
	}
	must(t, m.Remove("f"))
	if u, _ := m.DiskUsage("/"); u.Free != 7 {
		t.Fatalf("an open file must keep its space: %+v", u)
	}
	must(t, f.Close())
	if u, _ := m.DiskUsage("/"); u.Free != 10 {
		t.Fatalf("a removed file must give its space back: %+v", u)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("read after close: %v", err)
	}
}

// TestImageModel compares the sparse image, through file and crash clones, with a
// plain slice.
func TestImageModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem(MemConfig{})
		f, err := m.Create("f")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		var now, safe []byte
		grow := func(n int) {
			if n > len(now) {
				now = append(now, make([]byte, n-len(now))...)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			off := rapid.IntRange(0, 20000).Draw(t, "off")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				b := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(0, 9000).Draw(t, "len"))
				_, err = f.WriteAt(b, int64(off))
				if len(b) > 0 {
					grow(off + len(b))
				}
				copy(now[min(off, len(now)):], b)
			case 2:
				err = f.Truncate(int64(off))
				grow(off)
				now = now[:off:off]
			case 3:
				err = f.Allocate(int64(off))
				grow(off)
			case 4:
				err = f.Sync()
				safe = bytes.Clone(now)
			}
			if err != nil {
				t.Fatal(err)
			}
			for want, fs := range map[*[]byte]*Mem{&now: m, &safe: m.CrashClone(CrashOptions{Unsynced: UnsyncedLost})} {
				g, err := fs.Open("f")
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(*want)+1)
				if n, err := g.ReadAt(got, 0); err != io.EOF || !bytes.Equal(got[:n], *want) {
					t.Fatalf("content differs: %d bytes, want %d, %v", n, len(*want), err)
				}
			}
		}
	})
}
