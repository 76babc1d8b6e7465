package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/settle"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// settleLoop settles closed files and deletes dead ones until ctx ends, or the store
// with an error. It is woken by a new log file, by log starts, and by the shards that it
// waits for.
func (s *Store) settleLoop(ctx context.Context) error {
	for {
		var retry <-chan time.Time
		if err := s.settleAll(ctx); err != nil && ctx.Err() == nil {
			if s.cfg.Events.SettleError != nil {
				s.cfg.Events.SettleError(err)
			}
			retry = time.After(settleRetry)
		}
		if err := s.space.failure(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		case <-retry:
		}
	}
}

// settleAll settles what can settle now and deletes what is dead.
func (s *Store) settleAll(ctx context.Context) error {
	if err := s.space.failure(); err != nil {
		return nil // nothing is written any more; Run ends with the failure
	}
	if err := s.noteNewest(); err != nil {
		return err
	}
	for since := 0; ctx.Err() == nil; {
		n, again, err := s.settleNext(ctx)
		if err != nil {
			return errors.Join(err, s.giveBack(ctx)) // the disk may be full
		}
		if !again {
			break
		}
		if since += n; since >= settleRow { // files may come faster than they settle, for hours
			since = 0
			if err := s.giveBack(ctx); err != nil {
				return err
			}
		}
	}
	return s.giveBack(ctx)
}

// giveBack deletes what is dead, and has files rewritten of which little is not.
func (s *Store) giveBack(ctx context.Context) error {
	if err := s.removeDead(ctx); err != nil {
		return err
	}
	if ids, next := s.sparse(time.Now()); len(ids) > 0 || !next.IsZero() {
		select {
		case s.compacting.emptied <- struct{}{}:
		default:
		}
	}
	return nil
}

// settleNext looks at the oldest files that have not settled, and tells how many it
// settled, and if it is to look again.
func (s *Store) settleNext(ctx context.Context) (settled int, again bool, err error) {
	files, closed, err := s.oldestClosed(ctx)
	if err != nil {
		return 0, false, err
	}
	do, blocking := s.plan(files, closed)
	switch do {
	case settle.Nothing:
		return 0, false, nil
	case settle.Wait:
		return 0, s.waitFor(blocking), nil
	}
	s.settling.Lock()
	defer s.settling.Unlock()
	if s.installs.Load() > 0 {
		// Looked at again when the installation ends. Until then the shard's entries
		// may be cancelled in the log and not yet in memory: a copy would revive them.
		return 0, false, nil
	}
	if do == settle.Adopt {
		n := 1
		for n < len(files) && s.isApplied(files[n]) {
			n++
		}
		return n, true, s.adopt(ctx, files[:n])
	}
	for _, b := range blocking {
		if err := s.shards[b.ID].copyForward(ctx); err != nil {
			return 0, false, err
		}
	}
	return 0, true, nil
}

// plan decides about the first of files.
func (s *Store) plan(files []uint64, closed int) (do settle.Do, blocking []settle.Shard) {
	if len(files) == 0 {
		return settle.Nothing, nil
	}
	shards := make([]settle.Shard, len(s.shards))
	for i, sh := range s.shards {
		end, _ := sh.entries.endOf(files[0])
		shards[i] = settle.Shard{ID: sh.id, End: end, Applied: sh.applied.Load()}
	}
	return settle.Plan(closed, s.cfg.CopyForwardFiles, shards)
}

// isApplied tells if nothing that lives in a file, or an older one, waits to be applied.
func (s *Store) isApplied(file uint64) bool {
	for _, sh := range s.shards {
		if end, _ := sh.entries.endOf(file); sh.applied.Load() < end {
			return false
		}
	}
	return true
}

// waitFor says that the settler waits for shards; it gives true if one of them
// got there meanwhile.
func (s *Store) waitFor(blocking []settle.Shard) bool {
	waits := map[rhumb.ShardID]uint64{}
	for _, b := range blocking {
		waits[b.ID] = b.End
	}
	s.files.setWaits(waits)
	for _, b := range blocking {
		if s.shards[b.ID].applied.Load() < b.End {
			return false
		}
	}
	return true
}

// oldestClosed gives the oldest unsettled files, as many as settle together, and how many
// unsettled ones are closed. A file counts as closed only after an entry was placed in a
// later one: then all that live in it are known.
func (s *Store) oldestClosed(ctx context.Context) (files []uint64, closed int, err error) {
	through, newest := s.files.settledThrough(), s.files.newest.Load()
	for attempt := 0; ; attempt++ {
		older := 0
		for _, f := range s.log.Files() {
			if f.ID <= through || f.ID >= newest {
				continue
			}
			older++
			if !f.Closed {
				continue
			}
			if closed++; closed == older && len(files) < settleRow {
				files = append(files, f.ID)
			}
		}
		if older == closed || attempt > 0 {
			return files, closed, nil
		}
		// Written, but with this durability not flushed yet.
		if err := s.log.Flush(ctx); err != nil {
			return nil, 0, err
		}
		files, closed = files[:0], 0
	}
}

// adopt writes the indexes of closed files, which follow each other, and lets them take
// the dense refs' place. They share what takes most of the time on a busy disk: the flushes
// of log and state database. What comes before a file that does not settle does so.
func (s *Store) adopt(ctx context.Context, files []uint64) error {
	row := make([]adopting, 0, len(files))
	var fault error
	for _, file := range files {
		a := adopting{file: file, ends: s.endsOf(file)}
		if err := s.writeIndex(&a, row); err != nil {
			fault = fmt.Errorf("storage: index of log file %016x: %w", file, err)
			break
		}
		row = append(row, a)
	}
	if len(row) > 0 {
		placed, err := s.placeIndexes(ctx, row)
		if err != nil {
			fault = fmt.Errorf("storage: indexes of log files %016x to %016x: %w", row[0].file, row[len(row)-1].file, err)
		}
		row = row[:placed]
	}
	if len(row) == 0 {
		return fault
	}
	return cmp.Or(s.takeRow(row), fault)
}

// takeRow lets the indexes of a row, which are in their places, be what is read.
func (s *Store) takeRow(row []adopting) error {
	b := s.db.NewBatch()
	for k := range row {
		s.takeOver(&row[k], b)
	}
	s.ends.Through = row[len(row)-1].file
	b.SetLogEnds(s.ends)
	if err := b.Commit(); err != nil {
		return err
	}
	for k := range row {
		a := &row[k]
		s.files.unguard(a.file)
		for i, sh := range s.shards {
			sh.forget.Store(sh.settled.Load())
			sh.settled.Store(a.ends[i].Index)
		}
		if s.cfg.Events.Settled != nil {
			s.cfg.Events.Settled(a.file, a.batches)
		}
	}
	return nil
}

// adopting is a file that settles.
type adopting struct {
	file    uint64
	ends    []index.ShardEnd // the last entries that live in it or before it
	dir     *index.Directory
	batches uint64
}

// endsOf gives the last entries that live in a file or an older one.
func (s *Store) endsOf(file uint64) []index.ShardEnd {
	ends := make([]index.ShardEnd, len(s.shards))
	for i, sh := range s.shards {
		end, term := sh.entries.endOf(file)
		ends[i] = index.ShardEnd{Shard: sh.id, Index: end, Term: term}
		if settled := sh.settled.Load(); end < settled {
			ends[i].Index, ends[i].Term = settled, 0
		}
	}
	return ends
}

// takeOver puts a file's parts in the place of the dense refs and of their rows.
func (s *Store) takeOver(a *adopting, b *statedb.Batch) {
	s.files.add(a.file, s.newTable(a.file, a.dir))
	for _, p := range a.dir.Parts {
		sh := s.shards[p.Key.Shard]
		sh.mu.Lock()
		if ix := sh.parts[p.Key.Partition]; ix != nil && ix.Settle(p) {
			s.files.hold(p)
		}
		sh.mu.Unlock()
		b.DropRefs(p.Key.Shard, p.Key.Partition, p.Last+1)
		a.batches += p.Batches
	}
	b.AddFile(a.file)
}

// writeIndex writes the index of a file beside its place, flushed; before are the files
// before it that settle with it.
func (s *Store) writeIndex(a *adopting, before []adopting) error {
	f, err := s.cfg.FS.Create(s.path(indexDir, indexName(a.file)) + tmpSuffix)
	if err != nil {
		return err
	}
	a.dir, err = s.fillIndex(f, a, before)
	if err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close())
}

// placeIndexes puts indexes in their places, after log and state
// database are flushed: then no restart needs the files' entries, and what an index
// leaves out is left out by the database, too. Shards apply while it is written: what
// a log start or a drop took away in the meantime is not in it, and if the database
// forgot that in a crash, those batches would be in neither. The log is flushed for what
// cancelled or copied entries of the files, since replay will begin behind them.
//
// One comes after the other, each safely: a restart takes all files before the newest
// index for settled ones. It gives how many are in place. Of one that has its name, and
// whose folder cannot be flushed, nobody knows whether a restart finds it: that ends the
// store.
func (s *Store) placeIndexes(ctx context.Context, row []adopting) (placed int, err error) {
	if err := s.log.Flush(ctx); err != nil {
		return 0, err
	}
	if err := s.db.Flush(ctx); err != nil {
		return 0, err
	}
	for k := range row {
		name := s.path(indexDir, indexName(row[k].file))
		if err := s.cfg.FS.Rename(name+tmpSuffix, name); err != nil {
			return k, err
		}
		if err := s.cfg.FS.SyncDir(s.path(indexDir)); err != nil {
			s.failed(err)
			return k, err
		}
	}
	return len(row), nil
}

func (s *Store) fillIndex(f io.WriterAt, a *adopting, before []adopting) (*index.Directory, error) {
	if _, err := f.WriteAt(index.AppendHeader(nil, index.MagicIndex, a.file), 0); err != nil {
		return nil, err
	}
	w := index.NewWriter(f, index.HeaderSize)
	for i, sh := range s.shards {
		from := settling{file: a.file, end: a.ends[i].Index}
		if k := len(before); k > 0 {
			from.firstFile, from.settles = before[0].file, before[k-1].ends[i].Index
		}
		if err := sh.settleInto(w, from); err != nil {
			return nil, err
		}
	}
	dir, _, err := w.Finish(a.ends)
	return dir, err
}

// settling says which of a shard's batches live in a file.
type settling struct {
	file, end uint64 // the last entry in it
	// Files from firstFile to the one before it settle at the same time, up to entry
	// settles. 0: there are none.
	firstFile, settles uint64
}

// has tells if a batch lives in the file.
func (f *settling) has(r *index.Ref) bool {
	return r.File == f.file || r.File == 0 && r.Raft > f.settles && r.Raft <= f.end
}

// hasBefore tells if it lives in one of those that settle at the same time.
func (f *settling) hasBefore(r *index.Ref) bool {
	return f.firstFile > 0 && (r.File >= f.firstFile && r.File < f.file || r.File == 0 && r.Raft <= f.settles)
}

// settleInto adds the shard's batches that live in the file.
func (sh *Shard) settleInto(w *index.Writer, from settling) error {
	sh.mu.RLock()
	ids := make([]rhumb.PartitionID, 0, len(sh.parts))
	for id := range sh.parts {
		ids = append(ids, id)
	}
	sh.mu.RUnlock()
	slices.Sort(ids)
	for _, id := range ids {
		sh.mu.RLock()
		p := sh.parts[id]
		var start index.Vector
		var refs []index.Ref
		var err error
		if p != nil {
			start, refs, err = p.Unsettled(from.hasBefore, from.has)
		}
		sh.mu.RUnlock()
		if err != nil {
			return err
		}
		if len(refs) == 0 {
			continue
		}
		if err := w.Partition(index.Key{Shard: sh.id, Partition: id}, start); err != nil {
			return err
		}
		for i := range refs {
			r := &refs[i]
			if err := sh.place(r); err != nil {
				return err
			}
			if r.File != from.file {
				return fmt.Errorf("shard %d: entry %d lives in file %016x", sh.id, r.Raft, r.File)
			}
			if err := w.Add(*r); err != nil {
				return err
			}
		}
	}
	return nil
}

// place makes a ref name its file, if it names its entry.
func (sh *Shard) place(r *index.Ref) error {
	if r.File != 0 {
		return nil
	}
	_, loc, ok := sh.entries.lookup(r.Raft)
	if !ok || loc.File == 0 {
		return fmt.Errorf("shard %d: entry %d has no place", sh.id, r.Raft)
	}
	r.File, r.Pos = loc.File, uint64(loc.Pos)+r.Pos
	return nil
}

// copyForward writes a stuck shard's unapplied entries to the log again, so that
// the files that hold them may settle. All to the last one are copied, in one
// frame: after a crash the entries live in the copy or where they were, never half
// here and half there.
func (sh *Shard) copyForward(ctx context.Context) error {
	done := make(chan error, 1)
	entries, err := sh.queueCopy(done)
	if err != nil {
		return fmt.Errorf("storage: shard %d: copying entries forward: %w", sh.id, err)
	}
	if sh.store.cfg.Events.CopyForward != nil {
		sh.store.cfg.Events.CopyForward(sh.id, entries)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// queueCopy queues the frame of a copy; done gets its outcome.
func (sh *Shard) queueCopy(done chan<- error) (entries int, err error) {
	sh.saving.Lock()
	defer sh.saving.Unlock()
	last, _ := sh.LastIndex()
	first := sh.applied.Load() + 1
	if first > last {
		done <- nil // it has applied them meanwhile
		return 0, nil
	}
	list, err := sh.Entries(first, last+1, math.MaxUint64)
	if err != nil {
		return 0, err
	}
	sh.append(nil, list, true, func(err error) { done <- err })
	return len(list), nil
}

// removeDead deletes the settled files that all log starts have passed, after the
// database has made the log starts safe, and that the files may be gone.
func (s *Store) removeDead(ctx context.Context) error {
	ids := s.files.dead()
	if len(ids) == 0 || s.holds.Load() > 0 {
		return nil
	}
	slices.SortFunc(ids, cmp.Compare)
	at, _ := slices.BinarySearch(ids, segmentBit)
	ids, segments := ids[:at], ids[at:]
	b := s.db.NewBatch()
	for _, id := range ids {
		b.DropFile(id)
	}
	for _, id := range segments {
		b.DropSegment(id)
	}
	if err := b.Commit(); err != nil {
		return err
	}
	if err := s.db.Flush(ctx); err != nil {
		return err
	}
	if err := s.removeSegments(segments); err != nil || len(ids) == 0 {
		return err
	}
	for _, id := range ids {
		if err := s.log.Remove(id); err != nil && !errors.Is(err, commitlog.ErrRemoved) {
			return err
		}
	}
	// The index goes after its log file: until then it tells that nothing of the file
	// was needed.
	if err := s.cfg.FS.SyncDir(s.path(logDir)); err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.cfg.FS.Remove(s.path(indexDir, indexName(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.files.remove(id).Forget()
		s.forget(id)
		if s.cfg.Events.Removed != nil {
			s.cfg.Events.Removed(id)
		}
	}
	return s.cfg.FS.SyncDir(s.path(indexDir))
}

// newTable makes a table whose blocks are read from the index file.
func (s *Store) newTable(file uint64, dir *index.Directory) *index.Table {
	return s.tableAt(s.path(indexDir, indexName(file)), file, dir)
}

func (s *Store) tableAt(name string, file uint64, dir *index.Directory) *index.Table {
	return index.NewTable(file, dir, s.cache, func() (index.ReadCloser, error) {
		f, err := s.cfg.FS.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, index.ErrGone
		}
		return f, err
	})
}
