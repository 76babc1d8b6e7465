package vfs

import (
	"io/fs"
	"syscall"
)

// OpKind names an operation of [Mem] for hooks.
type OpKind string

// The operations.
const (
	OpCreate   OpKind = "create"
	OpOpen     OpKind = "open"
	OpRemove   OpKind = "remove"
	OpRename   OpKind = "rename"
	OpMkdir    OpKind = "mkdir"
	OpList     OpKind = "list"
	OpStat     OpKind = "stat"
	OpSyncDir  OpKind = "syncdir"
	OpLock     OpKind = "lock"
	OpUsage    OpKind = "usage"
	OpRead     OpKind = "read"
	OpWrite    OpKind = "write"
	OpSync     OpKind = "sync"
	OpAllocate OpKind = "allocate"
	OpTruncate OpKind = "truncate"
	OpClose    OpKind = "close"
)

// Changes reports whether the operation can change what a crash leaves.
func (k OpKind) Changes() bool {
	switch k {
	case OpList, OpStat, OpLock, OpUsage, OpRead, OpClose:
		return false
	}
	return true
}

// Op is an operation about to happen.
type Op struct {
	Kind OpKind
	Name string // file or folder; the old name of a rename
	N    int64  // running number of the operation on this Mem, from 1
	Off  int64  // writes and reads
	Len  int64  // writes and reads: bytes; allocate and truncate: the size
	// Direct: a read past the cache.
	Direct bool
}

// ShortWrite is returned by a hook to let only the first N bytes of a write
// through before it fails with Err (EIO if nil). Other operations just fail.
type ShortWrite struct {
	N   int64
	Err error
}

// Error describes the fault.
func (s *ShortWrite) Error() string { return "vfs: short write" }

func (s *ShortWrite) cause() error {
	if s.Err != nil {
		return s.Err
	}
	return syscall.EIO
}

// SetNoDirect is what TryDirect answers from now on.
func (m *Mem) SetNoDirect(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noDirect = why
}

// SetHook installs fn, called before each operation without any lock held, so
// that it may use this Mem, above all CrashClone. If it returns an error, the
// operation fails with it and has no effect, except: a [ShortWrite] writes a
// part, and a failed sync loses track of what it should have made safe (see the
// package comment). nil removes the hook.
func (m *Mem) SetHook(fn func(op Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = fn
}

// SetCapacity limits the bytes of all files; beyond it writes and Allocate fail
// with ENOSPC. 0 is no limit.
func (m *Mem) SetCapacity(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = n
}

// SetUsage makes DiskUsage answer what fn says, whatever is true. nil ends it.
func (m *Mem) SetUsage(fn func() (Usage, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage = fn
}

// Ops tells how many operations there were.
func (m *Mem) Ops() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// before counts the operation and asks the hook.
func (m *Mem) before(op Op) error {
	m.mu.Lock()
	m.ops++
	op.N = m.ops
	hook := m.hook
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	err := hook(op)
	if short, ok := err.(*ShortWrite); ok && op.Kind != OpWrite {
		return short.cause()
	}
	return err
}

func pathError(op OpKind, name string, err error) error {
	return &fs.PathError{Op: string(op), Path: name, Err: err}
}

// room gives how many of the bytes that a file wants to grow by the disk has.
func (m *Mem) room(grow int64) (int64, error) {
	if m.capacity == 0 || grow <= 0 || m.used+grow <= m.capacity {
		return max(grow, 0), nil
	}
	return max(m.capacity-m.used, 0), syscall.ENOSPC
}
