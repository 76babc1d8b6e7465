package storage

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
)

// settledFile is a log file that has its index, or a segment.
type settledFile struct {
	table   *index.Table
	live    int       // parts that a log start has not passed, and a guard
	bytes   int64     // of the batches in those parts
	size    int64     // of all batches, of a segment
	guarded bool      // its parts are not all counted yet
	since   time.Time // when little of it was first seen to be live, zero: it is not
}

// fileSet is what the settler knows of log files.
type fileSet struct {
	newest  atomic.Uint64 // highest file in which an entry was placed
	waiting atomic.Bool   // waits is not empty

	mu      sync.Mutex
	settled map[uint64]*settledFile
	through uint64                   // all files up to it have settled or are gone
	waits   map[rhumb.ShardID]uint64 // applied index that the settler waits for
}

// sawFile notes that an entry was placed in a file, and calls fn for a new one.
// Places come in order, so all entries of the files before it are placed.
func (f *fileSet) sawFile(id uint64, fn func()) {
	for old := f.newest.Load(); id > old; old = f.newest.Load() {
		if f.newest.CompareAndSwap(old, id) {
			fn()
		}
	}
}

// setWaits says which applied indexes the settler waits for.
func (f *fileSet) setWaits(waits map[rhumb.ShardID]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits = waits
	f.waiting.Store(len(waits) > 0)
}

// waitsFor tells if the settler waits for the shard to have applied index.
func (f *fileSet) waitsFor(shard rhumb.ShardID, index uint64) bool {
	if !f.waiting.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	want, ok := f.waits[shard]
	return ok && index >= want
}

// add makes a file a settled one. It counts as having one live part, until the
// caller releases that with unguard.
func (f *fileSet) add(id uint64, t *index.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled[id] = &settledFile{table: t, live: 1, guarded: true}
	f.through = max(f.through, id)
}

// addSegment makes a segment a settled file, likewise.
func (f *fileSet) addSegment(id uint64, t *index.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := int64(0)
	for _, p := range t.Dir.Parts {
		size += int64(p.Bytes)
	}
	f.settled[id] = &settledFile{table: t, live: 1, size: size, guarded: true}
}

func (f *fileSet) unguard(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.settled[id]; s != nil {
		s.live--
		s.guarded = false
	}
}

// hold counts a part of a partition's log.
func (f *fileSet) hold(p *index.Part) { f.count(p, 1) }

// release gives back parts that log starts passed, or that were replaced.
func (f *fileSet) release(parts []*index.Part) {
	for _, p := range parts {
		f.count(p, -1)
	}
}

func (f *fileSet) count(p *index.Part, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.settled[p.File()]; s != nil {
		s.live += n
		s.bytes += int64(n) * int64(p.Bytes)
	}
}

// dead gives the settled files of which nothing is live.
func (f *fileSet) dead() (ids []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.settled {
		if s.live == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// isLive tells if something is left of a settled file that a log start has not
// passed; the caller's own guard does not count.
func (f *fileSet) isLive(id uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.settled[id]
	return s != nil && s.live > 1
}

// passed notes that all files up to id have settled or are gone.
func (f *fileSet) passed(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.through = max(f.through, id)
}

// remove forgets a settled file that is gone.
func (f *fileSet) remove(id uint64) *index.Table {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.settled[id].table
	delete(f.settled, id)
	return t
}

func (f *fileSet) settledThrough() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.through
}

func indexName(id uint64) string { return fmt.Sprintf("%016x%s", id, indexSuffix) }

func parseIndexName(name string) (id uint64, ok bool) {
	hex, ok := strings.CutSuffix(name, indexSuffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(hex, 16, 64)
	return id, err == nil
}
