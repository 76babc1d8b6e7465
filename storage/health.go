package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// State is a store's condition.
type State uint8

// The states of a store.
const (
	StateOK       State = iota
	StateLowSpace       // free space is below min_free: writers are refused, reads and deletion go on
	StateFailed         // a write or flush failed: nothing more is stored, recover at the next start
)

// String gives the state's words.
func (s State) String() string { return [...]string{"ok", "low space", "failed"}[min(s, StateFailed)] }

// Health is a store's condition and its cause.
type Health struct {
	State   State
	Err     error  // why it failed, nil otherwise
	Free    uint64 // bytes, as last seen
	MinFree uint64 // bytes
	// Damaged are the files that are known to be damaged, at most 64.
	Damaged []Damage
}

// errLowSpace is what writers get while space is low.
var errLowSpace = rhumb.Errorf(rhumb.KindNoSpace, "storage: free space is below min_free")

// space watches the disk and keeps the reserve file.
type space struct {
	fs      vfs.FS
	dir     string
	min     int64 // configured; see Config.MinFree
	reserve int64

	mu     sync.Mutex
	failed error
	low    bool
	held   bool // the reserve file is there
	free   uint64
	limit  uint64
}

func (s *space) health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Health{Free: s.free, MinFree: s.limit, Err: s.failed}
	switch {
	case s.failed != nil:
		h.State = StateFailed
	case s.low:
		h.State = StateLowSpace
	}
	return h
}

// fail keeps the first failure and tells whether this is it.
func (s *space) fail(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return false
	}
	s.failed = err
	return true
}

func (s *space) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// check looks at the disk once. Space is low below the limit, and enough again
// an eighth above it. The reserve goes when half of it is all that is left, and
// comes back when that leaves enough.
func (s *space) check() (changed bool, err error) {
	u, err := s.fs.DiskUsage(s.dir)
	if err != nil {
		return false, fmt.Errorf("storage: free space of %s: %w", s.dir, err)
	}
	limit := uint64(max(s.min, 0))
	if s.min == 0 {
		limit = max(u.Total*minFreePercent/100, minFreeAtLeast)
	}
	s.mu.Lock()
	was, held := s.low, s.held
	s.free, s.limit = u.Free, limit
	if s.low {
		s.low = u.Free < limit+limit/8
	} else {
		s.low = u.Free < limit
	}
	low := s.low
	s.mu.Unlock()
	switch {
	case s.reserve <= 0:
	case held && low && u.Free < uint64(s.reserve)/2:
		err = s.dropReserve()
	case !held && !low && u.Free > limit+uint64(s.reserve):
		err = s.makeReserve()
	}
	return low != was, err
}

func (s *space) setHeld(held bool) {
	s.mu.Lock()
	s.held = held
	s.mu.Unlock()
}

func (s *space) dropReserve() error {
	err := s.fs.Remove(filepath.Join(s.dir, reserveName))
	if err == nil {
		s.setHeld(false)
		err = s.fs.SyncDir(s.dir)
	}
	return err
}

func (s *space) makeReserve() error {
	f, err := s.fs.OpenReadWrite(filepath.Join(s.dir, reserveName))
	if err != nil {
		return err
	}
	if err = f.Allocate(s.reserve); err == nil {
		s.setHeld(true)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// watchSpace looks at the disk until ctx ends.
func (s *Store) watchSpace(ctx context.Context) {
	t := time.NewTicker(s.cfg.SpaceInterval)
	defer t.Stop()
	for {
		s.checkSpace()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// checkSpace looks at the disk once and tells if the state changed. A disk that
// does not answer changes nothing: the next write will say what is wrong.
func (s *Store) checkSpace() {
	changed, err := s.space.check()
	if err != nil && s.cfg.Events.SettleError != nil {
		s.cfg.Events.SettleError(err)
	}
	if changed && s.cfg.Events.LowSpace != nil {
		h := s.Health()
		s.cfg.Events.LowSpace(h.State == StateLowSpace, h.Free, h.MinFree)
	}
}

// Health is the store's condition now. It may be asked by any goroutine.
func (s *Store) Health() Health {
	h := s.space.health()
	h.Damaged = s.damage.list()
	return h
}

// Disk gives the directory that holds everything, and the space of its disk now.
func (s *Store) Disk() (dir string, u vfs.Usage, err error) {
	u, err = s.space.fs.DiskUsage(s.space.dir)
	return s.space.dir, u, err
}

// Writable is nil if new data may be written: kind no space while space is low
// (it opens again by itself), kind unavailable after the store has failed.
// Deletion, log starts and what Raft needs go on while space is low.
func (s *Store) Writable() error {
	switch h := s.space.health(); h.State {
	case StateFailed:
		return rhumb.Errorf(rhumb.KindUnavailable, "storage: failed: %w", h.Err)
	case StateLowSpace:
		return errLowSpace
	}
	return nil
}
