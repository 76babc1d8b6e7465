package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTryDirect: a trial leaves nothing, and where it says yes, what the log does works.
func TestTryDirect(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "direct.try")
		left := create(t, fsys, name, "of a trial that a crash ended")
		must(t, left.Close())
		why := fsys.TryDirect(dir)
		if why != nil && !errors.Is(why, ErrNoDirect) {
			t.Errorf("no reason of its own kind: %v", why)
		}
		if _, ok := fsys.(*Mem); !ok && why == nil {
			if _, err := fsys.Stat(name); err == nil {
				t.Error("the trial's file is left")
			}
		}
		if why != nil {
			t.Log(why)
			return
		}
		f, err := fsys.Create(filepath.Join(dir, "f"))
		must(t, err)
		must(t, f.Allocate(1<<20))
		must(t, f.WriteTail(0, [][]byte{make([]byte, 2*DirectFrom)}))
		must(t, f.Sync())
		if _, err := f.ReadDirect(0, [][]byte{Aligned(TailBlock)}); err != nil {
			t.Errorf("the trial said yes, and a read says %v", err)
		}
		must(t, f.Close())
	})
}

// TestTryDirectSaysNo: where it cannot be tried, and on file systems that are in memory.
func TestTryDirectSaysNo(t *testing.T) {
	if err := OS().TryDirect(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNoDirect) {
		t.Errorf("in no folder: %v", err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "rhumb-direct")
	if err != nil {
		t.Skip("no /dev/shm: ", err)
	}
	defer os.RemoveAll(dir)
	if err := OS().TryDirect(dir); !errors.Is(err, ErrNoDirect) {
		t.Errorf("in memory: %v", err)
	}
	m := NewMem(MemConfig{})
	m.SetNoDirect(ErrNoDirect)
	if err := m.TryDirect("/"); err != ErrNoDirect {
		t.Errorf("Mem, told to say no: %v", err)
	}
}
