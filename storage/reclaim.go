package storage

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
)

// Reclaiming is the other half of settling: a log file is adopted as it stands, and
// when log starts have passed most of it, what is left is rewritten into segments,
// many partitions into one, so that the file can go. A byte of the log is so written
// at most 1 + 1/4 + 1/16 + ... times, that is 4/3: see rewriteShare.
const (
	// rewriteShare: a file is rewritten when at most this part of it is live. What is
	// freed is then at least three times what is written.
	rewriteShare = 4
	// rewriteLeast is what a rewritten file must free at least; of smaller log files
	// than four times that, a quarter.
	rewriteLeast = 1 << 20
	// rewriteAfter is how long a file has to be as empty before it is rewritten: where
	// all topics have the same retention, the rest goes by itself in a moment.
	rewriteAfter = time.Minute
)

// ReclaimStats are figures of all rewriting of mostly dead files since the store
// opened, in bytes of batches with envelopes.
type ReclaimStats struct {
	Files   uint64 // that were rewritten
	Written uint64
	Log     uint64 // bytes of frames that went to the log, for comparison
}

// ReclaimStats gives the figures now: (Log + Written) / Log is how often a byte is
// written that no compaction touches.
func (s *Store) ReclaimStats() ReclaimStats {
	return ReclaimStats{s.compacting.reclaimed.Load(), s.compacting.rewritten.Load(), s.log.Written()}
}

// sparse gives the settled files that are worth to be rewritten now, and when the next
// ones will be; zero if none are on their way.
func (s *Store) sparse(now time.Time) (ids []uint64, next time.Time) {
	sizes := map[uint64]int64{}
	for _, f := range s.log.Files() {
		sizes[f.ID] = f.Bytes
	}
	return s.files.sparse(sizes, min(rewriteLeast, s.cfg.FileSize/4), now)
}

// sparse gives the files of which little has been live for long enough, and when the
// next one will have been.
func (f *fileSet) sparse(sizes map[uint64]int64, least int64, now time.Time) (ids []uint64, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.settled {
		size := s.size
		if !isSegment(id) {
			size = sizes[id]
		}
		if s.guarded || s.live == 0 || s.bytes*rewriteShare > size || size-s.bytes < least {
			s.since = time.Time{}
			continue
		}
		if s.since.IsZero() {
			s.since = now
		}
		due := s.since.Add(rewriteAfter)
		switch {
		case !due.After(now):
			ids = append(ids, id)
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return ids, next
}

// reclaim rewrites what is left of mostly dead files. It gives when to look again,
// zero if there is no need to.
func (s *Store) reclaim(ctx context.Context) (next time.Time, err error) {
	if s.space.failure() != nil {
		return time.Time{}, nil
	}
	ids, next := s.sparse(time.Now())
	if len(ids) == 0 {
		return next, nil
	}
	of := make(map[uint64]bool, len(ids))
	for _, id := range ids {
		of[id] = true
	}
	w := &rewriter{s: s, failed: map[index.Key]bool{}, plain: true}
	defer w.discard()
	for _, sh := range s.shards {
		for _, id := range sh.partsIn(of) {
			if err := w.copyParts(ctx, sh, id, of); err != nil {
				return next, gaveWay(err)
			}
		}
	}
	if err := w.finish(ctx); err != nil {
		return next, gaveWay(err)
	}
	s.compacting.reclaimed.Add(uint64(len(ids)))
	return next, nil
}

// gaveWay makes of an error that says that files went meanwhile one that has it tried again.
func gaveWay(err error) error {
	if errors.Is(err, index.ErrGone) || errors.Is(err, errRetry) {
		return errPostponed
	}
	return err
}

// partsIn lists the partitions that have a part in one of some files.
func (sh *Shard) partsIn(of map[uint64]bool) (ids []rhumb.PartitionID) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	for id, p := range sh.parts {
		if slices.ContainsFunc(p.Parts(), func(q *index.Part) bool { return of[q.File()] }) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b rhumb.PartitionID) int { return cmp.Compare(a, b) })
	return ids
}

// copyParts copies what a partition has in some files, as it is. Parts that follow each
// other become one.
func (w *rewriter) copyParts(ctx context.Context, sh *Shard, id rhumb.PartitionID, of map[uint64]bool) error {
	sh.mu.RLock()
	p := sh.parts[id]
	if p == nil {
		sh.mu.RUnlock()
		return nil // it was dropped
	}
	view := p.View()
	sh.mu.RUnlock()
	parts := view.Parts()
	for len(parts) > 0 {
		n, size := 0, int64(0)
		for n < len(parts) && of[parts[n].File()] && (n == 0 || size+int64(parts[n].Bytes) <= w.s.cfg.FileSize) {
			size += int64(parts[n].Bytes)
			n++
		}
		if n == 0 {
			parts = parts[1:]
			continue
		}
		if err := w.copyRun(ctx, sh, id, view.Only(parts[:n:n])); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// copyRun copies parts that follow each other.
func (w *rewriter) copyRun(ctx context.Context, sh *Shard, id rhumb.PartitionID, v index.View) error {
	if err := w.begin(ctx, sh, id, v.Parts()); err != nil {
		return err
	}
	c, err := v.Seek(v.Start)
	if err != nil {
		return err
	}
	for {
		refs, size, err := nextRun(c, math.MaxInt64)
		if err != nil || len(refs) == 0 {
			return err
		}
		_, raw, err := sh.fetchRaw(id, refs)
		if err != nil {
			return err
		}
		for i := range refs {
			if refs[i].Last() < v.Start {
				continue
			}
			if _, _, err := refs[i].Open(id, raw[i], true); err != nil {
				return err // damage is not copied: the file stays, and says where
			}
			if err := w.add(refs[i], raw[i]); err != nil {
				return err
			}
		}
		if err := w.s.compacting.pace(ctx, size, w.s.cfg.CompactRate); err != nil {
			return err
		}
	}
}
