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
)

// settleLoop settles closed files and deletes dead ones until ctx ends. It is
// woken by a new log file, by log starts, and by the shards that it waits for.
func (s *Store) settleLoop(ctx context.Context) {
	for {
		var retry <-chan time.Time
		if err := s.settleAll(ctx); err != nil && ctx.Err() == nil {
			if s.cfg.Events.SettleError != nil {
				s.cfg.Events.SettleError(err)
			}
			retry = time.After(settleRetry)
		}
		select {
		case <-ctx.Done():
			return
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
	for n := 1; ctx.Err() == nil; n++ {
		again, err := s.settleNext(ctx)
		if err != nil {
			return err
		}
		if !again {
			break
		}
		if n%settleRow == 0 { // files may come faster than they settle, for hours
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

// settleNext looks at the oldest file that has not settled.
func (s *Store) settleNext(ctx context.Context) (again bool, err error) {
	file, closed, err := s.oldestClosed(ctx)
	if err != nil {
		return false, err
	}
	shards := make([]settle.Shard, len(s.shards))
	for i, sh := range s.shards {
		end, _ := sh.entries.endOf(file)
		shards[i] = settle.Shard{ID: sh.id, End: end, Applied: sh.applied.Load()}
	}
	do, blocking := settle.Plan(closed, s.cfg.CopyForwardFiles, shards)
	switch do {
	case settle.Nothing:
		return false, nil
	case settle.Wait:
		return s.waitFor(blocking), nil
	}
	s.settling.Lock()
	defer s.settling.Unlock()
	if s.installs.Load() > 0 {
		// Looked at again when the installation ends. Until then the shard's entries
		// may be cancelled in the log and not yet in memory: a copy would revive them.
		return false, nil
	}
	if do == settle.Adopt {
		return true, s.adopt(ctx, file)
	}
	for _, b := range blocking {
		if err := s.shards[b.ID].copyForward(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
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

// oldestClosed gives the oldest unsettled file and how many unsettled ones are
// closed. A file counts as closed only after an entry was placed in a later one:
// then all that live in it are known.
func (s *Store) oldestClosed(ctx context.Context) (file uint64, closed int, err error) {
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
			closed++
			if file == 0 {
				file = f.ID
			}
		}
		if older == closed || attempt > 0 {
			return file, closed, nil
		}
		// Written, but with this durability not flushed yet.
		if err := s.log.Flush(ctx); err != nil {
			return 0, 0, err
		}
		file, closed = 0, 0
	}
}

// adopt writes a closed file's index and lets it take the dense refs' place.
func (s *Store) adopt(ctx context.Context, file uint64) error {
	ends := make([]index.ShardEnd, len(s.shards))
	for i, sh := range s.shards {
		end, term := sh.entries.endOf(file)
		ends[i] = index.ShardEnd{Shard: sh.id, Index: end, Term: term}
		if settled := sh.settled.Load(); end < settled {
			ends[i].Index, ends[i].Term = settled, 0
		}
	}
	dir, err := s.writeIndex(ctx, file, ends)
	if err != nil {
		return fmt.Errorf("storage: index of log file %016x: %w", file, err)
	}
	t := s.newTable(file, dir)
	s.files.add(file, t)
	b := s.db.NewBatch()
	var batches uint64
	for _, p := range dir.Parts {
		sh := s.shards[p.Key.Shard]
		sh.mu.Lock()
		if ix := sh.parts[p.Key.Partition]; ix != nil && ix.Settle(p) {
			s.files.hold(p)
		}
		sh.mu.Unlock()
		b.DropRefs(p.Key.Shard, p.Key.Partition, p.Last+1)
		batches += p.Batches
	}
	s.ends.Through = file
	b.AddFile(file)
	b.SetLogEnds(s.ends)
	if err := b.Commit(); err != nil {
		return err
	}
	s.files.unguard(file)
	for i, sh := range s.shards {
		sh.forget.Store(sh.settled.Load())
		sh.settled.Store(ends[i].Index)
	}
	if s.cfg.Events.Settled != nil {
		s.cfg.Events.Settled(file, batches)
	}
	return nil
}

// writeIndex writes the index of a file and puts it in place, after log and state
// database are flushed: then no restart needs the file's entries, and what the index
// leaves out is left out by the database, too. Shards apply while it is written: what
// a log start or a drop took away in the meantime is not in it, and if the database
// forgot that in a crash, those batches would be in neither. The log is flushed for what
// cancelled or copied entries of the file, since replay will begin behind it.
func (s *Store) writeIndex(ctx context.Context, file uint64, ends []index.ShardEnd) (*index.Directory, error) {
	name := s.path(indexDir, indexName(file))
	f, err := s.cfg.FS.Create(name + tmpSuffix)
	if err != nil {
		return nil, err
	}
	dir, err := s.fillIndex(f, file, ends)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.log.Flush(ctx)
	}
	if err == nil {
		err = s.db.Flush(ctx)
	}
	if err == nil {
		err = s.cfg.FS.Rename(name+tmpSuffix, name)
	}
	if err == nil {
		err = s.cfg.FS.SyncDir(s.path(indexDir))
	}
	return dir, err
}

func (s *Store) fillIndex(f io.WriterAt, file uint64, ends []index.ShardEnd) (*index.Directory, error) {
	if _, err := f.WriteAt(index.AppendHeader(nil, index.MagicIndex, file), 0); err != nil {
		return nil, err
	}
	w := index.NewWriter(f, index.HeaderSize)
	for i, sh := range s.shards {
		if err := sh.settleInto(w, file, ends[i].Index); err != nil {
			return nil, err
		}
	}
	dir, _, err := w.Finish(ends)
	return dir, err
}

// settleInto adds the shard's batches that live in the file.
func (sh *Shard) settleInto(w *index.Writer, file, end uint64) error {
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
			start, refs, err = p.Unsettled(func(r *index.Ref) bool {
				return r.File == file || r.File == 0 && r.Raft <= end
			})
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
			if r.File != file {
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
