package statedb

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// ErrNotMade is wrapped by [OpenReadOnly] where no database was ever made.
var ErrNotMade = pebble.ErrDBDoesNotExist

var errReadOnly = errors.New("statedb: opened for reading only")

// Files gives the log files that have settled and must be there, by id.
func (db *DB) Files() (ids []uint64, err error) {
	err = db.scan([]byte{prefixFile}, func(k, v []byte) error {
		if len(k) != 1+8 {
			return corruptf("file key of %d bytes", len(k))
		}
		ids = append(ids, tail(k))
		return checkRow("file", v, fileSize)
	})
	return ids, err
}

// LogEnds gives what was kept last; ok is false if nothing ever was, as in a
// database from before there was this row.
func (db *DB) LogEnds() (e LogEnds, ok bool, err error) {
	err = db.scan([]byte{prefixLog}, func(k, v []byte) error {
		if len(k) != 1 {
			return corruptf("log key of %d bytes", len(k))
		}
		ok = true
		e, err = parseLogEnds(v)
		return err
	})
	return e, ok, err
}

// OpenReadOnly opens the database without a lock and without changing anything, for
// tools. What a process that uses it at the same time writes is not seen, and may make
// this fail.
func OpenReadOnly(fsys vfs.FS, dir string) (*DB, error) {
	db := &DB{dir: dir, failed: make(chan struct{})}
	db.fs = &pebbleFS{fs: fsys, readOnly: true, closing: make(chan struct{}), onFail: func(error) { close(db.failed) }}
	db.cache = pebble.NewCache(1 << 20)
	opts := &pebble.Options{
		FS: db.fs, Cache: db.cache, DisableWAL: true, ReadOnly: true, ErrorIfNotExists: true, MaxOpenFiles: 64,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             fatalLogger{db.fs},
		// What is not damaged is still read.
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}},
	}
	opts.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	p, err := pebble.Open(dir, opts)
	if err != nil {
		db.cache.Unref()
		return nil, fmt.Errorf("statedb: open %s: %w", dir, plain(err))
	}
	db.pebble = p
	return db, nil
}

// noLock is the lock of a database that is only read.
type noLock struct{}

func (noLock) Close() error { return nil }

var _ io.Closer = noLock{}
