package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/blocks"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// Names in the data directory.
const (
	lockName    = "LOCK"
	reserveName = "RESERVE"
	logDir      = "log"
	stateDir    = "state"
	indexDir    = "index"
	indexSuffix = ".idx"
	tmpSuffix   = ".tmp"
)

var (
	// ErrClosed is what callers get after Close.
	ErrClosed = rhumb.Errorf(rhumb.KindUnavailable, "storage: closed")
	// ErrKilled is what callers get after Kill (tests).
	ErrKilled = rhumb.Errorf(rhumb.KindUnavailable, "storage: killed")
)

// Store is one node's data. See the package comment for who may call what.
type Store struct {
	// Fixed by Open.
	cfg    Config
	format format
	lock   io.Closer
	log    *commitlog.Log
	db     *statedb.DB
	cache  *index.Cache
	shards []*Shard
	kick   chan struct{} // wakes the settler; capacity 1, a wake-up is never lost

	tail       tailCache
	space      space
	files      fileSet
	segments   segmentSet
	checked    checkedSet
	blocks     *blocks.Cache // nil unless the log is written past the page cache
	preparer   preparer
	damage     damageSet
	compacting compacting
	// holds counts open snapshot readers: no file is deleted.
	holds atomic.Int32
	// settling is held while a file settles or a stuck shard's entries are copied.
	// installs counts open installations, during which neither may be: it grows under
	// settling.
	settling sync.Mutex
	installs atomic.Int32
	ends     statedb.LogEnds // as kept in db; the settler's, after Open

	life   context.Context // ends with Close and Kill
	ended  context.CancelCauseFunc
	mu     sync.Mutex
	state  runState
	joined chan struct{} // closed when Run has returned
	close  sync.Once
	result error
}

type runState uint8

const (
	opened runState = iota
	running
	stopped
)

// Identity gives the data directory's own id and the mesh it belongs to.
func (s *Store) Identity() (data, mesh rhumb.UUID) { return s.format.data, s.format.mesh }

// Shards is the number of data shards: shards 0 to Shards() exist.
func (s *Store) Shards() int { return int(s.format.shards) }

// Shard gives one of the shards 0 to Shards().
func (s *Store) Shard(id rhumb.ShardID) *Shard { return s.shards[id] }

// Run writes, flushes and settles until ctx ends or the store fails; then it has
// flushed what was queued, and joined its goroutines. It may be called once.
// Nothing that Save queued is done before Run runs.
func (s *Store) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.state != opened || s.life.Err() != nil {
		s.mu.Unlock()
		return ErrClosed
	}
	s.state = running
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.state = stopped
		s.mu.Unlock()
		close(s.joined)
	}()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.life, func() { stop(context.Cause(s.life)) })()
	logCtx, stopLog := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLog()

	var loops sync.WaitGroup
	logDone := make(chan error, 1)
	goNamed(&loops, "commitlog", func() {
		err := s.log.Run(logCtx)
		if err != nil {
			s.failed(err)
		}
		logDone <- err
		stop(err)
	})
	goNamed(&loops, "settler", func() {
		if err := s.settleLoop(ctx); err != nil {
			stop(err)
		}
	})
	goNamed(&loops, "compactor", func() { s.compactLoop(ctx) })
	goNamed(&loops, "space", func() { s.watchSpace(ctx) })
	goNamed(&loops, "state-db", func() {
		select {
		case <-s.db.Failed():
			stop(s.db.Err())
			_ = s.db.Close() // or Pebble tries again and again
		case <-ctx.Done():
		}
	})
	<-ctx.Done()
	switch {
	case context.Cause(s.life) == ErrKilled:
		s.log.Kill()
	case s.life.Err() == nil && s.space.failure() == nil:
		// The log still runs: the database may flush it.
		if err := s.db.Flush(logCtx); err != nil {
			s.failed(err)
		}
	}
	stopLog()
	loops.Wait()
	if err := s.space.failure(); err != nil {
		return err
	}
	return <-logDone
}

// goNamed starts a loop with a profiler label.
func goNamed(wg *sync.WaitGroup, name string, fn func()) {
	wg.Add(1)
	go pprof.Do(context.Background(), pprof.Labels("loop", "storage-"+name), func(context.Context) {
		defer wg.Done()
		fn()
	})
}

// failed makes err the store's end: nothing more is stored.
func (s *Store) failed(err error) {
	if s.life.Err() != nil || !s.space.fail(err) {
		return
	}
	if s.cfg.Events.Failed != nil {
		s.cfg.Events.Failed(err)
	}
}

// Close ends the store. What was saved is flushed if Run has ended by itself or
// is still running; it waits for Run.
func (s *Store) Close() error {
	s.close.Do(func() { s.result = s.end(false) })
	return s.result
}

// Kill ends the store as kill -9 would: nothing is flushed. For tests, which take
// a crash clone of the file system first. All goroutines end before it returns.
func (s *Store) Kill() {
	s.close.Do(func() { s.result = s.end(true) })
}

func (s *Store) end(kill bool) error {
	var errs []error
	s.mu.Lock()
	wasRunning := s.state == running
	s.mu.Unlock()
	if wasRunning && !kill && s.space.failure() == nil {
		errs = append(errs, s.db.Flush(s.life))
	}
	if kill {
		s.ended(ErrKilled)
		s.log.Kill()
	} else {
		s.ended(ErrClosed)
	}
	if wasRunning {
		<-s.joined
	}
	s.preparer.close()
	if s.blocks != nil {
		s.blocks.Close()
	}
	if kill {
		s.db.Kill()
	} else {
		errs = append(errs, s.db.Close(), s.log.Close())
	}
	s.segments.closeAll()
	errs = append(errs, s.lock.Close())
	if err := s.space.failure(); err != nil {
		return fmt.Errorf("storage: failed before it was closed: %w", err)
	}
	return errors.Join(errs...)
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, parts...)...)
}

// wake makes the settler look again.
func (s *Store) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
