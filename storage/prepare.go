package storage

import (
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/blocks"
	"github.com/rhumbmq/rhumb/storage/index"
)

const (
	// maxPrepared is how many bytes of a partition are prepared for its next reader at most,
	// unless one batch has more.
	maxPrepared = 1 << 20
	// maxPreparing is how many goroutines do it, and maxToPrepare how many partitions may
	// wait for them; what does not fit is done by who reads it.
	maxPreparing, maxToPrepare = 2, 64
)

// preparer reads and checks what readers by place are likely to ask for next, while they
// are busy with what they got: a client asks for more when it has worked off an answer,
// and would wait for the disk and the comparison with the CRC once more. Nothing is kept
// but the note that a batch was checked, and blocks of the cache.
type preparer struct {
	mu      sync.Mutex
	waiting []prepareNext
	running int
	closed  bool
	wg      sync.WaitGroup
}

// prepareNext is what comes after what a reader got.
type prepareNext struct {
	shard *Shard
	query Query
}

// after has what follows on got prepared, if the last batch of that came by its place: who
// is at the end of a partition gets it from memory.
func (w *preparer) after(sh *Shard, q Query, got []Stored) {
	if len(got) == 0 || got[len(got)-1].Place == nil {
		return
	}
	q.From, q.MaxBytes = got[len(got)-1].Last()+1, min(q.MaxBytes, maxPrepared)
	if q.From >= q.Limit {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.waiting) >= maxToPrepare {
		return
	}
	w.waiting = append(w.waiting, prepareNext{sh, q})
	if w.running < maxPreparing { // those that run are busy with what does not wait any more
		w.running++
		goNamed(&w.wg, "prepare", w.work)
	}
}

// work prepares until nothing waits.
func (w *preparer) work() {
	for {
		w.mu.Lock()
		if len(w.waiting) == 0 || w.closed {
			w.running--
			w.waiting = nil
			w.mu.Unlock()
			return
		}
		next := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.mu.Unlock()
		// What cannot be read, who reads it is told.
		_, _ = next.shard.readFrom(next.query, next.shard.check)
	}
}

// close ends it; work that is going on is waited for.
func (w *preparer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wg.Wait()
}

// check is byPlace without giving anything.
func (sh *Shard) check(p rhumb.PartitionID, refs []index.Ref) ([]Stored, error) {
	raw := make([][]byte, len(refs))
	if err := sh.fromMemory(refs, raw); err != nil {
		return nil, err
	}
	s := sh.store
	direct := s.readAhead(refs, raw)
	w := placer{store: s}
	defer w.done()
	for i := range refs {
		if raw[i] != nil || refs[i].Size < MinPlace || s.checked.has(refs[i].File, refs[i].Pos) {
			continue
		}
		if direct != nil && direct[i] {
			// Where blocks are short, the page cache is not to have what is not asked for.
			if b, ok := s.placeInBlocks(p, &refs[i], blocks.Early); ok {
				b.Place.Release()
			}
			continue
		}
		b, err := w.open(p, &refs[i])
		if err != nil {
			return nil, err
		}
		b.Place.Release()
	}
	return nil, nil
}
