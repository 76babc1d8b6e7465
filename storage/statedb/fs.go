package statedb

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// retryPause is how long Pebble is held back before it may retry after the
// database has failed.
const retryPause = 100 * time.Millisecond

// pebbleFS gives Pebble the storage's file system. Each sync flushes the commit
// log first. After the first failed change every later one fails.
type pebbleFS struct {
	fs       vfs.FS
	flushLog func() error
	onFail   func(error)
	closing  chan struct{}
	readOnly bool // nothing is locked or changed

	mu     sync.Mutex
	failed error
}

var _ pebblevfs.FS = (*pebbleFS)(nil)

func (p *pebbleFS) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// fail keeps the first error of a change and gives it back.
func (p *pebbleFS) fail(err error) error {
	if err == nil {
		return nil
	}
	p.mu.Lock()
	first := p.failed == nil
	if first {
		p.failed = err
	}
	p.mu.Unlock()
	if first {
		p.onFail(err)
	}
	return err
}

// ready fails if the database has failed, after a pause.
func (p *pebbleFS) ready() error {
	err := p.failure()
	if err == nil {
		return nil
	}
	t := time.NewTimer(retryPause)
	defer t.Stop()
	select {
	case <-p.closing:
	case <-t.C:
	}
	return fmt.Errorf("statedb: failed before: %w", err)
}

// mayChange is ready, for what changes something.
func (p *pebbleFS) mayChange() error {
	if p.readOnly {
		return errReadOnly
	}
	return p.ready()
}

// untold is whether Pebble must not learn that a change of the file failed. It gives
// up the process if a version of the database cannot be written to the manifest: part of
// what it holds in memory is of the next version by then, and it fails at something
// else soon if it is let go on. So it is told that all went well. The failure is kept,
// nothing is written after it or counted as safe, and the manifest on disk says what
// it said before.
func untold(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.")
}

func (p *pebbleFS) writable(open func(string) (vfs.File, error), name string) (pebblevfs.File, error) {
	if p.readOnly {
		return nil, errReadOnly
	}
	quiet := untold(name)
	if quiet && p.failure() != nil {
		return &file{fs: p, f: nowhere{}, name: name, quiet: true}, nil
	}
	if err := p.ready(); err != nil {
		return nil, err
	}
	f, err := open(name)
	switch {
	case err == nil:
		return &file{fs: p, f: f, name: name, unnamed: true, quiet: quiet}, nil
	case quiet:
		_ = p.fail(err)
		return &file{fs: p, f: nowhere{}, name: name, quiet: true}, nil
	}
	return nil, p.fail(err)
}

// nowhere takes the place of a file that could not be made.
type nowhere struct{ vfs.File }

func (nowhere) Close() error { return nil }

func (p *pebbleFS) Create(name string, _ pebblevfs.DiskWriteCategory) (pebblevfs.File, error) {
	return p.writable(p.fs.Create, name)
}

func (p *pebbleFS) OpenReadWrite(name string, _ pebblevfs.DiskWriteCategory, _ ...pebblevfs.OpenOption) (pebblevfs.File, error) {
	return p.writable(p.fs.OpenReadWrite, name)
}

func (p *pebbleFS) ReuseForWrite(oldName, newName string, c pebblevfs.DiskWriteCategory) (pebblevfs.File, error) {
	if err := p.Rename(oldName, newName); err != nil {
		return nil, err
	}
	return p.OpenReadWrite(newName, c)
}

func (p *pebbleFS) Open(name string, opts ...pebblevfs.OpenOption) (pebblevfs.File, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	f, err := p.fs.Open(name)
	if err != nil {
		return nil, err
	}
	pf := &file{fs: p, f: f, name: name}
	for _, o := range opts {
		o.Apply(pf)
	}
	return pf, nil
}

func (p *pebbleFS) OpenDir(name string) (pebblevfs.File, error) {
	return &file{fs: p, name: name}, nil
}

func (p *pebbleFS) Link(oldName, newName string) error {
	return fmt.Errorf("statedb: link %s to %s: hard links are not supported", oldName, newName)
}

func (p *pebbleFS) Remove(name string) error {
	if err := p.mayChange(); err != nil {
		return err
	}
	// Pebble makes the marker that names the next manifest, deletes the one before it and then
	// syncs the folder. Where that keeps no order a crash could leave neither, and a database
	// without a marker is an empty one.
	if strings.HasPrefix(filepath.Base(name), "marker.") {
		if err := p.fail(p.fs.SyncDir(filepath.Dir(name))); err != nil {
			return err
		}
	}
	return p.fs.Remove(name) // failing to delete loses nothing
}

func (p *pebbleFS) RemoveAll(name string) error {
	info, err := p.fs.Stat(name)
	if err != nil || !info.IsDir {
		return p.Remove(name)
	}
	names, err := p.fs.List(name)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := p.RemoveAll(filepath.Join(name, n)); err != nil {
			return err
		}
	}
	return p.Remove(name)
}

func (p *pebbleFS) Rename(oldName, newName string) error {
	if err := p.mayChange(); err != nil {
		return err
	}
	return p.fail(p.fs.Rename(oldName, newName))
}

func (p *pebbleFS) MkdirAll(dir string, _ os.FileMode) error {
	if err := p.mayChange(); err != nil {
		return err
	}
	return p.fail(p.fs.MkdirAll(dir))
}

func (p *pebbleFS) Lock(name string) (io.Closer, error) {
	if p.readOnly {
		return noLock{}, nil
	}
	return p.fs.Lock(name)
}

func (p *pebbleFS) List(dir string) ([]string, error) { return p.fs.List(dir) }

func (p *pebbleFS) Stat(name string) (pebblevfs.FileInfo, error) {
	info, err := p.fs.Stat(name)
	if err != nil {
		return nil, err
	}
	return fileInfo{name: filepath.Base(name), info: info}, nil
}

func (p *pebbleFS) PathBase(path string) string { return filepath.Base(path) }

func (p *pebbleFS) PathJoin(elem ...string) string { return filepath.Join(elem...) }

func (p *pebbleFS) PathDir(path string) string { return filepath.Dir(path) }

func (p *pebbleFS) GetDiskUsage(path string) (pebblevfs.DiskUsage, error) {
	u, err := p.fs.DiskUsage(path)
	return pebblevfs.DiskUsage{AvailBytes: u.Free, TotalBytes: u.Total, UsedBytes: u.Total - u.Free}, err
}

func (p *pebbleFS) Unwrap() pebblevfs.FS { return nil }

// fileInfo is a vfs.Info in os.FileInfo's shape.
type fileInfo struct {
	name string
	info vfs.Info
}

func (i fileInfo) Name() string                 { return i.name }
func (i fileInfo) Size() int64                  { return i.info.Size }
func (i fileInfo) ModTime() time.Time           { return i.info.ModTime }
func (i fileInfo) IsDir() bool                  { return i.info.IsDir }
func (i fileInfo) Sys() any                     { return nil }
func (i fileInfo) DeviceID() pebblevfs.DeviceID { return pebblevfs.DeviceID{} }

func (i fileInfo) Mode() fs.FileMode {
	if i.info.IsDir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// file is an open file, or a folder (f is nil) that can only be synced. Pebble
// reads and writes one place each at a time.
type file struct {
	fs    *pebbleFS
	f     vfs.File
	name  string
	read  int64
	write int64
	// unnamed: the folder was not synced since the file was made. Pebble makes a file
	// and a marker that names it with one sync of the folder, which promises no order.
	unnamed bool
	quiet   bool // see untold
}

// begin fails if the database has failed, and drop is true if Pebble must not be told.
func (f *file) begin() (drop bool, err error) {
	if f.quiet {
		return f.fs.failure() != nil, nil
	}
	return false, f.fs.ready()
}

// ended keeps the failure of a change, and gives what Pebble is told of it.
func (f *file) ended(err error) error {
	if err = f.fs.fail(err); f.quiet {
		return nil
	}
	return err
}

func (f *file) Close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}

func (f *file) Read(b []byte) (int, error) {
	n, err := f.f.ReadAt(b, f.read)
	f.read += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(b []byte, off int64) (int, error) { return f.f.ReadAt(b, off) }

func (f *file) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.write)
	f.write += int64(n)
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	drop, err := f.begin()
	switch {
	case err != nil:
		return 0, err
	case drop:
		return len(b), nil
	}
	n, err := f.f.WriteAt(b, off)
	if err = f.ended(err); err == nil {
		n = len(b)
	}
	return n, err
}

func (f *file) Preallocate(_, _ int64) error { return nil }

func (f *file) Stat() (pebblevfs.FileInfo, error) { return f.fs.Stat(f.name) }

func (f *file) Sync() error {
	if f.f == nil {
		return f.syncDir()
	}
	if drop, err := f.begin(); drop || err != nil {
		return err
	}
	return f.ended(f.sync())
}

func (f *file) sync() error {
	if err := f.fs.flushLog(); err != nil {
		return fmt.Errorf("statedb: flush of the commit log: %w", err)
	}
	if f.unnamed {
		if err := f.fs.fs.SyncDir(filepath.Dir(f.name)); err != nil {
			return err
		}
		f.unnamed = false
	}
	return f.f.Sync()
}

// syncDir syncs a folder. Pebble panics if that fails, so it is not told: the
// failure is kept, and nothing is written or counted as safe after it.
func (f *file) syncDir() error {
	if f.fs.mayChange() == nil {
		_ = f.fs.fail(f.fs.fs.SyncDir(f.name))
	}
	return nil
}

func (f *file) SyncData() error { return f.Sync() }

// SyncTo may queue a part of the file to be written; it promises nothing, so
// nothing is done.
func (f *file) SyncTo(int64) (bool, error) { return false, nil }

func (f *file) Prefetch(_, _ int64) error { return nil }

func (f *file) Fd() uintptr { return pebblevfs.InvalidFd }
