package storage

import (
	"fmt"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/settle"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// fileCheck compares the log files and indexes that are there with what the state
// database knows of them, while the store opens.
type fileCheck struct {
	settle.Files
	ends statedb.LogEnds // as kept
	logs map[uint64]bool
}

// newFileCheck gathers what the log and the database know; indexes are added as they
// are found.
func (s *Store) newFileCheck() (*fileCheck, error) {
	c := &fileCheck{logs: map[uint64]bool{}}
	c.Indexes = map[uint64]bool{}
	for _, f := range s.log.Files() {
		c.logs[f.ID] = true
		c.Logs = append(c.Logs, settle.LogFile{ID: f.ID, Prev: f.Prev, Short: f.Short})
	}
	var err error
	if c.Settled, err = s.db.Files(); err != nil {
		return nil, err
	}
	c.ends, c.Known, err = s.db.LogEnds()
	c.Through, c.Newest = c.ends.Through, c.ends.Newest
	return c, err
}

// refuse gives an error that names the files which are missing, or end too early.
func (s *Store) refuse(missing []settle.Missing) error {
	if len(missing) == 0 {
		return nil
	}
	var names []string
	for _, m := range missing {
		name := s.path(m.Name())
		if m.Short > 0 {
			name = fmt.Sprintf("the last %d bytes of %s", m.Short, name)
		}
		names = append(names, name)
	}
	return rhumb.Errorf(rhumb.KindCorrupt, "storage: missing %s: not deleted by retention, so data would be lost", strings.Join(names, ", "))
}

// checkLive looks again, when it is known which indexes hold something that log
// starts have not passed: their log files must be there.
func (s *Store) checkLive(c *fileCheck, tables []*index.Table) error {
	for _, t := range tables {
		c.Indexes[t.File] = s.files.isLive(t.File)
	}
	return s.refuse(c.Missing())
}

// finishDeleting does what a crash in the middle of deleting left, and keeps in the
// database what there is.
func (s *Store) finishDeleting(c *fileCheck) error {
	b := s.db.NewBatch()
	for id := range c.Indexes {
		if c.logs[id] {
			b.AddFile(id) // or a crash came before it was safe
			continue
		}
		b.DropFile(id)
		s.files.remove(id).Forget()
		s.forget(id)
		if err := s.cfg.FS.Remove(s.path(indexDir, indexName(id))); err != nil {
			b.Discard()
			return err
		}
	}
	ends := statedb.LogEnds{Through: c.SettledThrough(), Newest: c.ends.Newest}
	for id := range c.logs {
		ends.Newest = max(ends.Newest, id)
		if !c.Deleted(id) {
			continue
		}
		if err := s.log.Remove(id); err != nil {
			b.Discard()
			return fmt.Errorf("storage: deleting log file %016x: %w", id, err)
		}
	}
	s.ends = ends
	b.SetLogEnds(ends)
	return b.Commit()
}

// noteNewest keeps which log file is the newest. Like all in the database it is
// safe only after the log is.
func (s *Store) noteNewest() error {
	newest := s.files.newest.Load()
	if newest <= s.ends.Newest {
		return nil
	}
	s.ends.Newest = newest
	b := s.db.NewBatch()
	b.SetLogEnds(s.ends)
	return b.Commit()
}

// checkRefs makes sure that each unsettled batch that is known by its entry has it.
func (sh *Shard) checkRefs() error {
	for id, p := range sh.parts {
		_, refs, err := p.Unsettled(nil, func(*index.Ref) bool { return true })
		if err != nil {
			return err
		}
		for i := range refs {
			if r := &refs[i]; r.File == 0 {
				if s := sh.entries.at(r.Raft); s == nil || s.loc.File == 0 {
					return rhumb.Errorf(rhumb.KindCorrupt, "entry %d, which holds partition %d from offset %d on, is missing: the log has entries %d to %d",
						r.Raft, id, r.Base, sh.entries.base+1, sh.entries.last())
				}
			}
		}
	}
	return nil
}

// hole is the error of a partition that misses batches.
func hole(id rhumb.PartitionID, from, to rhumb.Offset) error {
	return rhumb.Errorf(rhumb.KindCorrupt, "partition %d: offsets %d to %d are missing", id, from, to-1)
}
