package storage

import (
	"context"
	"fmt"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/segment"
	"github.com/rhumbmq/rhumb/storage/statedb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// rewriter writes what compaction or log starts leave into segments, many partitions into one, and
// puts a segment's parts in the place of those that they were made of. Order: the
// segment is safe under its name; one batch of the state database names it and says
// for each partition where it lies now; then readers see it. The old files go when
// that batch is safe and nothing in them is live.
type rewriter struct {
	s       *Store
	seg     *segment.Writer
	file    vfs.File
	id      uint64
	swaps   []swap
	counted bool // something was put in its place
	plain   bool // batches are copied as they are: there are no more holes than before
	// failed are partitions that changed under a pass: what follows of it is void.
	failed map[index.Key]bool
}

// swap is a run of parts that is replaced.
type swap struct {
	sh   *Shard
	id   rhumb.PartitionID
	old  []*index.Part
	end  index.Vector
	any  bool           // something is left of them
	done *compact.State // the pass ends with it
}

func (w *swap) key() index.Key { return index.Key{Shard: w.sh.id, Partition: w.id} }

// begin starts what replaces old. A segment has a partition only once, and is of the
// size of a log file, so the one before may have to be finished.
func (w *rewriter) begin(ctx context.Context, sh *Shard, id rhumb.PartitionID, old []*index.Part) error {
	n := len(w.swaps)
	if n > 0 && (w.swaps[n-1].key() == index.Key{Shard: sh.id, Partition: id} || w.seg != nil && w.seg.Size() >= w.s.cfg.FileSize) {
		if err := w.finish(ctx); err != nil {
			return err
		}
	}
	w.swaps = append(w.swaps, swap{sh: sh, id: id, old: old, end: old[len(old)-1].End})
	return nil
}

// end says that the pass over a partition ends, with all that was begun of it.
func (w *rewriter) end(sh *Shard, id rhumb.PartitionID, state compact.State) {
	n := len(w.swaps)
	if n == 0 || w.swaps[n-1].key() != (index.Key{Shard: sh.id, Partition: id}) {
		w.swaps = append(w.swaps, swap{sh: sh, id: id})
		n++
	}
	w.swaps[n-1].done = &state
}

// add writes a batch that stays.
func (w *rewriter) add(r index.Ref, raw []byte) error {
	if w.seg == nil {
		if err := w.create(); err != nil {
			return err
		}
	}
	sw := &w.swaps[len(w.swaps)-1]
	if !sw.any {
		sw.any = true
		w.seg.Partition(sw.key(), sw.old[0].Start, sw.end)
	}
	written := &w.s.compacting.written
	if w.plain {
		written = &w.s.compacting.rewritten
	}
	written.Add(uint64(len(raw)))
	return w.seg.Add(r, raw)
}

// create makes the next segment's file. The first segment of all makes the directory
// one that older versions refuse.
func (w *rewriter) create() error {
	s := w.s
	if err := vfs.MakeDir(s.cfg.FS, s.path(segmentDir)); err != nil {
		return err
	}
	if err := s.raiseFormat(segmentFormat); err != nil {
		return err
	}
	w.id = s.segments.newSegment()
	f, err := s.cfg.FS.Create(s.path(segmentDir, segmentName(w.id)+tmpSuffix))
	if err != nil {
		return err
	}
	w.file, w.seg = f, segment.NewWriter(f, w.id)
	return nil
}

// discard forgets what has not been finished.
func (w *rewriter) discard() {
	if w.file != nil {
		_ = w.file.Close()
		_ = w.s.cfg.FS.Remove(w.s.path(segmentDir, segmentName(w.id)+tmpSuffix)) // or the next start removes it
	}
	w.file, w.seg, w.swaps = nil, nil, nil
}

// finish makes the segment safe and lets it count.
func (w *rewriter) finish(ctx context.Context) error {
	defer w.discard()
	if len(w.swaps) == 0 {
		return nil
	}
	var t *index.Table
	if w.seg != nil {
		dir, err := w.place()
		if err != nil {
			return fmt.Errorf("storage: segment %016x: %w", w.id, err)
		}
		t = w.s.newSegmentTable(w.id, dir)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := w.count(t)
	if w.counted {
		w.s.wake() // for files that are dead now
	}
	return err
}

// place finishes the file and gives it its name.
func (w *rewriter) place() (*index.Directory, error) {
	s, name := w.s, w.s.path(segmentDir, segmentName(w.id))
	dir, _, err := w.seg.Finish(nil)
	if err == nil {
		err = w.file.Sync()
	}
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	w.file = nil
	if err == nil {
		err = s.cfg.FS.Rename(name+tmpSuffix, name)
	}
	if err == nil {
		err = s.cfg.FS.SyncDir(s.path(segmentDir))
	}
	if err != nil {
		_ = s.cfg.FS.Remove(name + tmpSuffix) // or the next start removes it
	}
	return dir, err
}

// count puts the segment's parts, or nothing if t is nil, in the place of the old
// ones: in the state database and for readers. While a snapshot is installed nothing
// may move.
func (w *rewriter) count(t *index.Table) error {
	s := w.s
	s.settling.Lock()
	defer s.settling.Unlock()
	b := s.db.NewBatch()
	if s.installs.Load() > 0 {
		b.Discard()
		if t != nil { // it has a name and no row
			_ = s.cfg.FS.Remove(s.path(segmentDir, segmentName(w.id)))
		}
		return errPostponed
	}
	rows := make([]*statedb.Compaction, len(w.swaps))
	for i := range w.swaps {
		if rows[i] = w.row(&w.swaps[i]); rows[i] != nil {
			w.counted = true
			b.SetCompaction(w.swaps[i].sh.id, w.swaps[i].id, rows[i])
		}
	}
	if t != nil {
		s.files.addSegment(t.File, t)
		defer s.files.unguard(t.File)
		b.AddSegment(t.File)
	}
	if err := b.Commit(); err != nil {
		return err
	}
	for i := range w.swaps {
		if rows[i] != nil {
			w.swaps[i].publish(t, rows[i])
		}
	}
	return nil
}

// row makes the partition's row as it will be, nil if the log changed so that the swap
// is void.
func (w *rewriter) row(sw *swap) *statedb.Compaction {
	sh := sw.sh
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	p := sh.parts[sw.id]
	if p == nil || w.failed[sw.key()] || !p.Holds(sw.old) {
		w.failed[sw.key()] = true
		return nil
	}
	row := sh.compaction(sw.id)
	row.Files = nil
	if n := len(sw.old); n > 0 {
		row.Covered = max(row.Covered, sw.old[n-1].Last+1)
	}
	if !w.plain {
		row.Holes = max(row.Holes, row.Covered)
	}
	replaced := false
	for _, q := range p.Parts() {
		switch {
		case q.Last >= row.Covered:
		case !slices.Contains(sw.old, q):
			row.Files = append(row.Files, q.File())
		case !replaced && sw.any:
			row.Files = append(row.Files, w.id)
			replaced = true
		}
	}
	if sw.done != nil {
		row.State = *sw.done
	}
	return &row
}

// publish lets readers see a swap. Log starts may have passed some of it meanwhile.
func (w *swap) publish(t *index.Table, row *statedb.Compaction) {
	var pt *index.Part
	if w.any {
		pt = t.Part(w.key())
	}
	sh := w.sh
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p := sh.parts[w.id]
	if p == nil {
		return
	}
	gone, added := p.Replace(w.old, pt)
	if added {
		sh.store.files.hold(pt)
	}
	sh.store.files.release(gone)
	p.SetHoles(row.Holes)
	sh.compactions[w.id] = row
}
