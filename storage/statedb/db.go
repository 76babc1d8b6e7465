package statedb

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Config says where the database is and what it may use.
type Config struct {
	FS  vfs.FS
	Dir string
	// CacheSize is the budget of the block cache in bytes. Default 8 MiB.
	CacheSize int64
	// MemTableSize is the size of one memtable in bytes; up to three exist at a
	// time. Default 8 MiB.
	MemTableSize int64
	// FlushLog makes all that was queued to the commit log before the call safe.
	FlushLog func() error
	// OnFailure is called once with the error that ended the database; it must
	// not block. It may be nil.
	OnFailure func(error)
}

// DB is the state database. All methods but Close and Kill may be called by any
// goroutine.
type DB struct {
	pebble *pebble.DB
	dir    string
	cache  *pebble.Cache
	fs     *pebbleFS
	failed chan struct{}

	closeOnce sync.Once
	closeErr  error

	// use is held for reading while Pebble is used, and taken to close it: Pebble
	// panics if it is used after that.
	use    sync.RWMutex
	closed bool
}

// enter begins a use of Pebble, which leave ends.
func (db *DB) enter() error {
	db.use.RLock()
	if !db.closed {
		return nil
	}
	db.use.RUnlock()
	if err := db.Err(); err != nil {
		return err
	}
	return errClosed
}

func (db *DB) leave() { db.use.RUnlock() }

// Open opens the database, making it if absent.
func Open(cfg Config) (*DB, error) {
	if cfg.CacheSize == 0 {
		cfg.CacheSize = 8 << 20
	}
	if cfg.MemTableSize == 0 {
		cfg.MemTableSize = 8 << 20
	}
	db := &DB{dir: cfg.Dir, failed: make(chan struct{})}
	db.fs = &pebbleFS{fs: cfg.FS, flushLog: cfg.FlushLog, closing: make(chan struct{}), onFail: func(err error) {
		close(db.failed)
		if cfg.OnFailure != nil {
			cfg.OnFailure(err)
		}
	}}
	db.cache = pebble.NewCache(cfg.CacheSize)
	opts := &pebble.Options{
		FS:                          db.fs,
		Cache:                       db.cache,
		DisableWAL:                  true,
		MemTableSize:                uint64(cfg.MemTableSize),
		MemTableStopWritesThreshold: 3,
		MaxOpenFiles:                256,
		// The newest format is the only one that works in more than one synctest
		// bubble of a process.
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             fatalLogger{db.fs},
		// Pebble retries at once and for ever what failed in the background, also what
		// only reads: it ends the database, too.
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { _ = db.fs.fail(plain(err)) },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { _ = db.fs.fail(damaged(info)) },
		},
	}
	// Without periodic granting: a compaction that waits starts when the running one
	// ends, which is all that a fixed limit of one needs. The default scheduler wakes
	// up ten times a second for ever, and its goroutine outlives a failed Open.
	opts.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	opts.CompactionConcurrencyRange = func() (lower, upper int) { return 1, 1 }
	p, err := pebble.Open(cfg.Dir, opts)
	if err != nil {
		db.cache.Unref()
		return nil, fmt.Errorf("statedb: open %s: %w", cfg.Dir, plain(err))
	}
	db.pebble = p
	if err := db.Err(); err != nil {
		return nil, fmt.Errorf("statedb: open %s: %w", cfg.Dir, db.Close())
	}
	return db, nil
}

// fatalLogger turns what Pebble cannot go on after into the database's failure.
type fatalLogger struct{ fs *pebbleFS }

func (fatalLogger) Infof(string, ...any)  {}
func (fatalLogger) Errorf(string, ...any) {}

func (l fatalLogger) Fatalf(format string, args ...any) {
	_ = l.fs.fail(fmt.Errorf("statedb: "+format, args...))
}

// Failed is closed when the database has failed.
func (db *DB) Failed() <-chan struct{} { return db.failed }

// Err is why the database failed, nil if it has not.
func (db *DB) Err() error { return db.fs.failure() }

// Flush makes all that was committed before the call safe on disk.
func (db *DB) Flush(ctx context.Context) error {
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.enter(); err != nil {
		return err
	}
	done, err := db.pebble.AsyncFlush()
	db.leave()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return db.Err()
	case <-db.failed:
		return db.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the database. What was not flushed is lost, as in a crash: call
// [DB.Flush] first to keep it. A failed database should be closed soon, since
// Pebble goes on trying. Close waits for what uses the database.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.fs.closing)
		db.use.Lock()
		defer db.use.Unlock()
		db.closed = true
		db.closeErr = db.pebble.Close()
		db.cache.Unref()
		if err := db.Err(); err != nil {
			db.closeErr = err // the cause; what Pebble says after it only follows
		}
	})
	return db.closeErr
}

// Kill ends the database as a crash would: nothing more is written.
func (db *DB) Kill() {
	db.fs.mu.Lock()
	if db.fs.failed == nil {
		db.fs.failed = errKilled
		close(db.failed)
	}
	db.fs.mu.Unlock()
	_ = db.Close()
}

var (
	errKilled = errors.New("statedb: killed")
	errClosed = errors.New("statedb: closed")
)

func (db *DB) scan(prefix []byte, fn func(key, value []byte) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	it, err := db.pebble.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return plain(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err == nil {
			err = fn(it.Key(), v)
		}
		if err != nil {
			_ = it.Close()
			return plain(err)
		}
	}
	return plain(it.Close())
}

// Applied says how far the shard has applied; the zero state if it never did.
func (db *DB) Applied(shard rhumb.ShardID) (Applied, error) {
	if err := db.enter(); err != nil {
		return Applied{}, err
	}
	defer db.leave()
	v, closer, err := db.pebble.Get(appendShard(nil, prefixApplied, shard))
	if err == pebble.ErrNotFound {
		return Applied{Conf: &raftpb.ConfState{}}, nil
	}
	if err != nil {
		return Applied{}, plain(err)
	}
	defer closer.Close()
	return parseApplied(v)
}

// Tables calls fn with each pair of the shard's tables, in key order. The slices
// are valid during the call only.
func (db *DB) Tables(shard rhumb.ShardID, fn func(key, value []byte) error) error {
	return db.scan(appendShard(nil, prefixTable, shard), func(k, v []byte) error { return fn(k[shardKeySize:], v) })
}

// Partitions calls fn with each partition of the shard and its log start.
func (db *DB) Partitions(shard rhumb.ShardID, fn func(rhumb.PartitionID, rhumb.Offset) error) error {
	return db.scan(appendShard(nil, prefixPartition, shard), func(k, v []byte) error {
		if len(k) != partitionKeySize {
			return corruptf("partition key of %d bytes", len(k))
		}
		start, err := parsePartitionRow(v)
		if err != nil {
			return err
		}
		return fn(rhumb.PartitionID(tail(k)), start)
	})
}

// Refs calls fn with each dense row of the shard, by partition and base offset.
func (db *DB) Refs(shard rhumb.ShardID, fn func(rhumb.PartitionID, index.Ref) error) error {
	return db.scan(appendShard(nil, prefixDense, shard), func(k, v []byte) error {
		if len(k) != partitionKeySize+8 {
			return corruptf("dense key of %d bytes", len(k))
		}
		r, err := parseRef(v, rhumb.Offset(tail(k)))
		if err != nil {
			return err
		}
		return fn(rhumb.PartitionID(tail(k[:partitionKeySize])), r)
	})
}

// Run is a run of a shard's entries of one term.
type Run struct {
	Index uint64 // first
	Term  uint64
}

// Runs gives the shard's term runs, by index.
func (db *DB) Runs(shard rhumb.ShardID) (runs []Run, err error) {
	err = db.scan(appendShard(nil, prefixRun, shard), func(k, v []byte) error {
		if len(k) != shardKeySize+8 {
			return corruptf("run key of %d bytes", len(k))
		}
		term, err := parseRunRow(v)
		runs = append(runs, Run{tail(k), term})
		return err
	})
	return runs, err
}

// TableReader walks a shard's tables as they were when it was opened.
type TableReader struct {
	db      *DB
	it      *pebble.Iterator
	started bool
}

// OpenTables opens the shard's tables as they are now. The database does not close
// before the reader.
func (db *DB) OpenTables(shard rhumb.ShardID) (*TableReader, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	prefix := appendShard(nil, prefixTable, shard)
	it, err := db.pebble.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		db.leave()
		return nil, plain(err)
	}
	return &TableReader{db: db, it: it}, nil
}

// Next gives the next pair, in key order; ok is false at the end. The slices are
// valid until the next call.
func (r *TableReader) Next() (key, value []byte, ok bool, err error) {
	if r.started {
		ok = r.it.Next()
	} else {
		ok, r.started = r.it.First(), true
	}
	if !ok {
		return nil, nil, false, plain(r.it.Error())
	}
	value, err = r.it.ValueAndErr()
	return r.it.Key()[shardKeySize:], value, err == nil, plain(err)
}

// Close ends the reader, once.
func (r *TableReader) Close() error {
	defer r.db.leave()
	return r.it.Close()
}
