package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"unsafe"
)

// change is a write, or a new size if data is nil, that no Sync has made safe.
type change struct {
	off    int64 // of data, or the size
	data   []byte
	grow   bool // of a size: Allocate, which never cuts
	doomed bool // a Sync failed on it: later ones do not help
	safe   bool // synced, but behind a doomed one in the list
}

func (c *change) apply(im *image) {
	switch {
	case c.data != nil:
		im.write(c.off, c.data)
	case c.grow:
		im.size = max(im.size, c.off)
	default:
		im.truncate(c.off)
	}
}

// memFile is an open handle.
type memFile struct {
	m        *Mem
	n        *node
	name     string
	readOnly bool
	closed   bool // under m.mu
}

// begin runs the hook and, if the operation may go on, takes the lock, which
// the caller gives back if err is nil.
func (f *memFile) begin(op Op) error {
	op.Name = f.name
	hooked := f.m.before(op)
	f.m.mu.Lock()
	var err error
	switch {
	case f.closed:
		err = fs.ErrClosed
	case hooked != nil:
		err = hooked
	case f.readOnly && op.Kind.Changes() && op.Kind != OpSync:
		err = syscall.EBADF
	default:
		return nil
	}
	defer f.m.mu.Unlock()
	if op.Kind == OpSync && !f.closed {
		for i := range f.n.pending {
			f.n.pending[i].doomed = true
		}
	}
	return pathError(op.Kind, f.name, err)
}

// ReadAt reads what was written, synced or not.
func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.begin(Op{Kind: OpRead, Off: off, Len: int64(len(b))}); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	if off < 0 {
		return 0, pathError(OpRead, f.name, syscall.EINVAL)
	}
	n := f.n.now.read(off, b)
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// ReadDirect is a read of its own kind to hooks, and refuses what is not aligned.
func (f *memFile) ReadDirect(off int64, bufs [][]byte) (done int64, err error) {
	total := int64(0)
	for _, b := range bufs {
		if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%TailBlock != 0 || len(b)%TailBlock != 0 || off%TailBlock != 0 {
			return 0, pathError(OpRead, f.name, syscall.EINVAL)
		}
		total += int64(len(b))
	}
	if err := f.begin(Op{Kind: OpRead, Off: off, Len: total, Direct: true}); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	for _, b := range bufs {
		n := f.n.now.read(off+done, b)
		if done += int64(n); n < len(b) {
			return done, io.EOF
		}
	}
	return done, nil
}

// WriteAt writes b at off.
func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.write(off, int64(len(b)), [][]byte{b})
	return int(n), err
}

// WriteVec writes bufs as one operation.
func (f *memFile) WriteVec(off int64, bufs [][]byte) error {
	total := int64(0)
	for _, b := range bufs {
		total += int64(len(b))
	}
	_, err := f.write(off, total, bufs)
	return err
}

// WriteTail writes bufs and zeros up to the next border of a block, as one operation.
func (f *memFile) WriteTail(off int64, bufs [][]byte) error {
	end := off
	for _, b := range bufs {
		end += int64(len(b))
	}
	f.m.mu.Lock()
	padding := min(-end&(TailBlock-1), max(0, f.n.now.size-end))
	f.m.mu.Unlock()
	if padding > 0 {
		bufs = append(slices.Clip(bufs), make([]byte, padding))
	}
	return f.WriteVec(off, bufs)
}

// EndTail has nothing to give back.
func (f *memFile) EndTail() {}

func (f *memFile) write(off, total int64, bufs [][]byte) (int64, error) {
	err := f.begin(Op{Kind: OpWrite, Off: off, Len: total})
	var short *ShortWrite
	switch {
	case errors.As(err, &short):
		err = pathError(OpWrite, f.name, short.cause())
		total = min(total, short.N)
		f.m.mu.Lock()
	case err != nil:
		return 0, err
	}
	defer f.m.mu.Unlock()
	if off < 0 {
		return 0, pathError(OpWrite, f.name, syscall.EINVAL)
	}
	grow := off + total - f.n.now.size
	if fits, full := f.m.room(grow); full != nil {
		total -= grow - fits
		err = pathError(OpWrite, f.name, full)
	}
	if total <= 0 {
		return 0, err
	}
	data := make([]byte, 0, total)
	for _, b := range bufs {
		data = append(data, b[:min(int64(len(b)), total-int64(len(data)))]...)
	}
	f.change(change{off: off, data: data})
	return total, err
}

// change makes c visible and pending.
func (f *memFile) change(c change) {
	before := f.n.now.size
	c.apply(&f.n.now)
	f.n.pending = append(f.n.pending, c)
	f.m.used += f.n.now.size - before
	f.n.modified = f.m.clock()
}

// Sync makes all pending changes safe, except those that a Sync failed on.
func (f *memFile) Sync() error {
	if err := f.begin(Op{Kind: OpSync}); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	f.n.sync()
	return nil
}

// sync makes pending changes safe. If one of them is doomed, it and those behind
// it stay in the list, in order, since a crash may or may not leave it under them.
func (n *node) sync() {
	plain := true // only writes, none doomed
	for i := range n.pending {
		plain = plain && n.pending[i].data != nil && !n.pending[i].doomed
	}
	if plain {
		for i := range n.pending {
			c := &n.pending[i]
			for p := c.off / pageSize; p*pageSize < c.off+int64(len(c.data)); p++ {
				n.safe.take(p, &n.now)
			}
		}
		n.safe.size = n.now.size
		n.pending = nil
		return
	}
	i := 0
	for ; i < len(n.pending) && !n.pending[i].doomed; i++ {
		n.pending[i].apply(&n.safe)
	}
	n.pending = n.pending[i:]
	for i := range n.pending {
		n.pending[i].safe = !n.pending[i].doomed
	}
}

// Allocate reserves space and grows the file.
func (f *memFile) Allocate(size int64) error {
	if err := f.begin(Op{Kind: OpAllocate, Len: size}); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if _, full := f.m.room(size - f.n.now.size); full != nil {
		return pathError(OpAllocate, f.name, full)
	}
	if size > f.n.now.size {
		f.change(change{off: size, grow: true})
	}
	return nil
}

// Truncate sets the size.
func (f *memFile) Truncate(size int64) error {
	if err := f.begin(Op{Kind: OpTruncate, Len: size}); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if size < 0 {
		return pathError(OpTruncate, f.name, syscall.EINVAL)
	}
	if _, full := f.m.room(size - f.n.now.size); full != nil {
		return pathError(OpTruncate, f.name, full)
	}
	if size != f.n.now.size {
		f.change(change{off: size})
	}
	return nil
}

// Size tells the current size. It is not an operation: nothing can fail in it.
func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return 0, pathError(OpStat, f.name, fs.ErrClosed)
	}
	return f.n.now.size, nil
}

// Close ends the handle.
func (f *memFile) Close() error {
	err := f.begin(Op{Kind: OpClose})
	if err != nil && errors.Is(err, fs.ErrClosed) {
		return err
	}
	if err != nil { // as the kernel does: closed even if it complains
		f.m.mu.Lock()
	}
	defer f.m.mu.Unlock()
	f.closed = true
	f.n.handles--
	f.m.forget(f.n)
	return err
}
