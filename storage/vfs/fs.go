package vfs

import (
	"errors"
	"io"
	"time"
	"unsafe"
)

// ErrLocked is wrapped by [FS.Lock] when somebody else holds the lock.
var ErrLocked = errors.New("vfs: locked by another process")

// ErrNoDirect says that the file system cannot be read past its cache, or that it does not pay.
var ErrNoDirect = errors.New("vfs: cannot read past the cache")

// FS is a file system.
type FS interface {
	// Create makes an empty file, or empties the one that is there, for reading
	// and writing.
	Create(name string) (File, error)
	// Open opens a file for reading only.
	Open(name string) (File, error)
	// OpenReadWrite opens a file for reading and writing, making it if absent.
	OpenReadWrite(name string) (File, error)
	// Remove removes a file or an empty folder. Open handles keep working.
	Remove(name string) error
	// Rename moves a file in one step, replacing what has the new name.
	Rename(oldName, newName string) error
	// MkdirAll makes a folder and those above it; it is no error if they exist.
	MkdirAll(dir string) error
	// List gives the sorted names (without folder) in a folder.
	List(dir string) ([]string, error)
	// Stat describes a file or folder.
	Stat(name string) (Info, error)
	// SyncDir makes the names in a folder safe.
	SyncDir(dir string) error
	// Lock takes an exclusive lock for this process and holds it until closed. It
	// makes the file if absent and fails with [ErrLocked] if it is held.
	Lock(name string) (io.Closer, error)
	// DiskUsage tells the space of the disk that holds dir.
	DiskUsage(dir string) (Usage, error)
	// TryDirect tells if it pays to pass the page cache by in dir, from a trial there with a
	// file of its own, which is not left: nil, or why not, which wraps [ErrNoDirect]. That
	// no trial could be made, as on a full disk, is a reason, too.
	TryDirect(dir string) error
}

// File is an open file. ReadAt follows io.ReaderAt.
type File interface {
	io.ReaderAt
	io.WriterAt
	// WriteVec writes bufs one after the other from off on, as one write where
	// the system can. An error may leave any part of it written. It keeps neither
	// bufs nor what they point to.
	WriteVec(off int64, bufs [][]byte) error
	// WriteTail is WriteVec at the end of what counts in a file whose space is
	// reserved: what lies behind it, up to the next multiple of [TailBlock], means
	// nothing and may become zeros. Large writes so can pass the page cache by.
	// It never grows the file by more than bufs do.
	WriteTail(off int64, bufs [][]byte) error
	// EndTail says that no WriteTail follows: what it has open for that is given back.
	EndTail()
	// ReadDirect fills bufs one after the other from off on, past the page cache: what is
	// read costs no page of it. off and the lengths are multiples of [TailBlock], and the
	// memory is as [Aligned] gives it. It tells how much was read: less than asked with
	// io.EOF at the end of the file. It is for what is flushed and not written any
	// more; [ErrNoDirect] says that the system does not do it.
	ReadDirect(off int64, bufs [][]byte) (int64, error)
	// Sync makes what was written before the call safe (fdatasync).
	Sync() error
	// Allocate reserves space up to size and grows the file to it with zeros. It
	// never shrinks. Systems that cannot reserve only grow it.
	Allocate(size int64) error
	// Truncate sets the size, adding zeros or cutting off.
	Truncate(size int64) error
	// Size tells the size in bytes.
	Size() (int64, error)
	// Close gives the handle back. It does not make anything safe.
	Close() error
}

// TailBlock is what WriteTail may touch at a time, in bytes: a multiple of the blocks
// of usual disks and file systems. ReadDirect reads whole ones.
const TailBlock = 4096

// DirectFrom is the size from which WriteTail passes the page cache by, where it can. The
// kernel's copy into fresh pages, and writing them back, cost more than what is read past
// the cache later; a smaller write is gone before the disk has taken it.
const DirectFrom = 64 << 10

// Aligned makes n bytes of memory that begin at the border of a block.
func Aligned(n int) []byte {
	b := make([]byte, n+TailBlock)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (TailBlock - 1)
	return b[skip : skip+n : skip+n]
}

// Info describes a file or folder.
type Info struct {
	Size    int64 // bytes; 0 for folders
	IsDir   bool
	ModTime time.Time
}

// Usage is the space of a disk in bytes. Free is what this process may use.
type Usage struct {
	Total, Free uint64
}

// ReadAhead asks the system to have a part of a file in memory soon, without waiting
// for it. Where it cannot be asked, nothing happens.
func ReadAhead(f File, off, n int64) {
	if a, ok := f.(interface{ readAhead(off, n int64) }); ok {
		a.readAhead(off, n)
	}
}
