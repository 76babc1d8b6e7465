package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// MakeDir makes a folder and those above it that are missing, so that their
// names survive a power loss. The folder's own name is made safe even if it was
// there: whoever made it may have died before that.
func MakeDir(fsys FS, dir string) error {
	dir = filepath.Clean(dir)
	unsafe := []string{filepath.Dir(dir)}
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if _, err := fsys.Stat(d); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if parent := filepath.Dir(d); parent != unsafe[0] {
			unsafe = append(unsafe, parent)
		}
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for _, parent := range unsafe {
		if err := fsys.SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}
