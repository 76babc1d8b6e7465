//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

type osFS struct{}

// OS gives the operating system's file system.
func OS() FS { return osFS{} }

func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o640)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY) }

func (osFS) OpenReadWrite(name string) (File, error) { return openOS(name, os.O_RDWR|os.O_CREATE) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o750) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (osFS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	info := Info{IsDir: st.IsDir(), ModTime: st.ModTime()}
	if !info.IsDir {
		info.Size = st.Size()
	}
	return info, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	// flock, not fcntl: the lock belongs to this handle, so a second open in the
	// same process is refused too, and closing another handle does not drop it.
	err = ignoringInterrupts(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, name)
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}

func (osFS) DiskUsage(dir string) (Usage, error) {
	var st unix.Statfs_t
	if err := ignoringInterrupts(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := uint64(st.Bsize)
	return Usage{Total: uint64(st.Blocks) * block, Free: uint64(st.Bavail) * block}, nil
}

// osFile adds what os.File lacks; WriteVec, WriteTail, ReadDirect, Sync and Allocate differ
// by system.
type osFile struct {
	*os.File
	tail   osTail
	direct osDirect
}

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// grow is the portable Allocate: it sets the size without reserving space.
func (f *osFile) grow(size int64) error {
	now, err := f.Size()
	if err != nil || now >= size {
		return err
	}
	return f.Truncate(size)
}

func ignoringInterrupts(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
