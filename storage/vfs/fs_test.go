package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// eachFS runs a contract test on both implementations, in an empty folder.
func eachFS(t *testing.T, test func(t *testing.T, fs FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := NewMem(MemConfig{})
		must(t, m.MkdirAll("/some/dir"))
		test(t, m, "/some/dir")
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, fs FS, name, content string) File {
	t.Helper()
	f, err := fs.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	return f
}

func content(t testing.TB, fs FS, name string) string {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if int64(n) != size || err != nil && err != io.EOF {
		t.Fatalf("read %d of %d: %v", n, size, err)
	}
	return string(b)
}

func TestContractFiles(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		name := filepath.Join(dir, "f")
		f := create(t, fs, name, "hello")
		must(t, f.WriteVec(3, [][]byte{[]byte("LO"), nil, []byte(" world"), {}}))
		must(t, f.Sync())
		if got := content(t, fs, name); got != "helLO world" {
			t.Fatalf("got %q", got)
		}
		b := make([]byte, 20)
		if n, err := f.ReadAt(b, 6); n != 5 || err != io.EOF {
			t.Fatalf("read at the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(b, 100); n != 0 || err != io.EOF {
			t.Fatalf("read behind the end: %d, %v", n, err)
		}
		must(t, f.Truncate(4))
		must(t, f.Allocate(8))
		must(t, f.Allocate(2))
		if got := content(t, fs, name); got != "helL\x00\x00\x00\x00" {
			t.Fatalf("got %q", got)
		}
		must(t, f.Close())
		if err := f.Close(); err == nil {
			t.Fatal("second close must fail")
		}
		f, err := fs.OpenReadWrite(name)
		must(t, err)
		if size, _ := f.Size(); size != 8 {
			t.Fatalf("size %d", size)
		}
		must(t, f.Close())
		f = create(t, fs, name, "x")
		if got := content(t, fs, name); got != "x" {
			t.Fatalf("Create kept %q", got)
		}
		must(t, f.Close())
		r, err := fs.Open(name)
		must(t, err)
		if _, err := r.WriteAt([]byte("y"), 0); err == nil {
			t.Fatal("write to a file opened for reading")
		}
		must(t, r.Close())
	})
}

func TestContractLongVector(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		f := create(t, fs, filepath.Join(dir, "f"), "")
		defer f.Close()
		var vec [][]byte
		var want []byte
		for i := range 5000 {
			b := bytes.Repeat([]byte{byte(i)}, i%37)
			vec, want = append(vec, b), append(want, b...)
		}
		must(t, f.WriteVec(0, vec))
		if got := content(t, fs, filepath.Join(dir, "f")); got != string(want) {
			t.Fatalf("%d bytes differ from %d", len(got), len(want))
		}
	})
}

func TestContractNames(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		at := func(s string) string { return filepath.Join(dir, s) }
		must(t, fsys.MkdirAll(at("a/b")))
		must(t, fsys.MkdirAll(at("a/b")))
		must(t, create(t, fsys, at("a/one"), "1").Close())
		must(t, create(t, fsys, at("a/two"), "2").Close())
		names, err := fsys.List(at("a"))
		if must(t, err); !slices.Equal(names, []string{"b", "one", "two"}) {
			t.Fatalf("list %q", names)
		}
		held, err := fsys.Open(at("a/two"))
		must(t, err)
		must(t, fsys.Rename(at("a/one"), at("a/two")))
		if got := content(t, fsys, at("a/two")); got != "1" {
			t.Fatalf("renamed file has %q", got)
		}
		b := make([]byte, 1)
		if _, err := held.ReadAt(b, 0); err != nil || b[0] != '2' {
			t.Fatalf("handle of a replaced file: %q, %v", b, err)
		}
		must(t, held.Close())
		must(t, fsys.SyncDir(at("a")))
		for _, err := range []error{
			fsys.Remove(at("a/one")), fsys.Rename(at("a/one"), at("x")), errOf(fsys.Open(at("a/one"))),
			errOf(fsys.Stat(at("nope"))), errOf(fsys.Create(at("no/such/dir"))), errOf(fsys.List(at("nope"))),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("want not exist, got %v", err)
			}
		}
		if err := fsys.Remove(at("a")); err == nil {
			t.Error("removed a folder with files")
		}
		info, err := fsys.Stat(at("a"))
		if must(t, err); !info.IsDir {
			t.Error("a folder is not one")
		}
		must(t, fsys.Remove(at("a/two")))
		must(t, fsys.Remove(at("a/b")))
		must(t, fsys.Remove(at("a")))
		u, err := fsys.DiskUsage(dir)
		if must(t, err); u.Total == 0 || u.Free > u.Total {
			t.Errorf("usage %+v", u)
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

func TestContractLock(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		lock, err := fs.Lock(name)
		must(t, err)
		if _, err := fs.Lock(name); !errors.Is(err, ErrLocked) {
			t.Fatalf("second lock: %v", err)
		}
		must(t, lock.Close())
		lock, err = fs.Lock(name)
		must(t, err)
		must(t, lock.Close())
	})
}
