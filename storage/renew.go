package storage

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// RenewNewest makes the file log/NEWEST of a data directory anew that has lost only
// this one, and gives the id of the newest log file, which it names. Whoever calls it
// vouches that no newer one was there: what such a one held is lost without a trace,
// and its offsets are given a second time. The directory must not be in use.
func RenewNewest(fsys vfs.FS, dir string) (newest uint64, err error) {
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return 0, fmt.Errorf("storage: %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	f, err := ReadFormat(fsys, dir)
	if err != nil {
		return 0, fmt.Errorf("storage: %s: %w", dir, err)
	}
	if !f.KeepsNewest() {
		return 0, rhumb.Errorf(rhumb.KindInvalid, "storage: %s was written by a version that keeps no log/NEWEST: it opens without", dir)
	}
	return commitlog.RenewNewest(fsys, filepath.Join(dir, logDir))
}
