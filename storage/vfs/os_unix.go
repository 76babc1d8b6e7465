//go:build unix && !linux

package vfs

import (
	"fmt"
	"runtime"
)

// WriteVec writes the buffers one by one: a torn row of them is no worse than
// a torn single write.
func (f *osFile) WriteVec(off int64, bufs [][]byte) error {
	for _, b := range bufs {
		if _, err := f.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// osTail is what WriteTail remembers: nothing.
type osTail struct{}

// WriteTail is WriteVec.
func (f *osFile) WriteTail(off int64, bufs [][]byte) error { return f.WriteVec(off, bufs) }

// EndTail has nothing to give back.
func (f *osFile) EndTail() {}

// osDirect is what ReadDirect needs: nothing.
type osDirect struct{}

// ReadDirect is not there.
func (f *osFile) ReadDirect(int64, [][]byte) (int64, error) { return 0, ErrNoDirect }

// TryDirect is not tried.
func (osFS) TryDirect(string) error { return fmt.Errorf("%w on %s", ErrNoDirect, runtime.GOOS) }

// Huge is Aligned.
func Huge(n int) (b []byte, free func()) { return Aligned(n), func() {} }

// Sync is os.File's, which asks the drive too on darwin (F_FULLFSYNC).
func (f *osFile) Sync() error { return f.File.Sync() }

// Allocate only grows the file.
func (f *osFile) Allocate(size int64) error { return f.grow(size) }
