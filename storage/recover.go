package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/blocks"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Open opens a data directory, or makes it, and recovers what is in it: a newer
// format is refused before a byte is written. Of settled files only the index's
// directory is read; of the log only the files that have not settled. No goroutine
// of the store runs before Run.
func Open(cfg Config) (*Store, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, kick: make(chan struct{}, 1), joined: make(chan struct{})}
	s.cache = index.NewCache(cfg.IndexCache)
	s.compacting.init(cfg.CompactKeys)
	s.tail.budget = cfg.TailCache
	s.files.settled = map[uint64]*settledFile{}
	s.space.fs, s.space.dir, s.space.min, s.space.reserve = cfg.FS, cfg.Dir, cfg.MinFree, cfg.Reserve
	s.life, s.ended = context.WithCancelCause(context.Background())
	if err := s.open(); err != nil {
		s.ended(ErrClosed)
		if s.db != nil {
			s.db.Kill()
		}
		if s.log != nil {
			_ = s.log.Close()
		}
		if s.lock != nil {
			_ = s.lock.Close()
		}
		return nil, err
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if _, err := s.cfg.FS.Stat(s.cfg.Dir); err != nil {
		if err := vfs.MakeDir(s.cfg.FS, s.cfg.Dir); err != nil {
			return err
		}
	}
	if s.lock, err = s.cfg.FS.Lock(s.path(lockName)); err != nil {
		return fmt.Errorf("storage: %s: %w", s.cfg.Dir, err)
	}
	if s.format, err = openFormat(&s.cfg); err != nil {
		return err
	}
	if err := s.openParts(); err != nil {
		return err
	}
	for id := range s.format.shards + 1 {
		s.shards = append(s.shards, newShard(s, rhumb.ShardID(id)))
	}
	check, err := s.newFileCheck()
	if err != nil {
		return err
	}
	tables, err := s.openTables(check)
	if err != nil {
		return err
	}
	segments, err := s.openSegments()
	if err != nil {
		return err
	}
	for _, sh := range s.shards {
		if err := sh.load(slices.Concat(tables, segments), check.logs); err != nil {
			return fmt.Errorf("storage: shard %d: %w", sh.id, err)
		}
	}
	if err := s.checkLive(check, tables); err != nil {
		return err
	}
	for _, t := range slices.Concat(tables, segments) {
		s.files.unguard(t.File)
	}
	if err := s.replay(); err != nil {
		return err
	}
	ends := map[rhumb.ShardID]uint64{}
	for _, st := range s.log.Shards() {
		ends[st.Shard] = st.Last
	}
	for _, sh := range s.shards {
		if err := sh.finishReplay(ends[sh.id]); err != nil {
			return fmt.Errorf("storage: shard %d: %w", sh.id, err)
		}
	}
	if err := s.finishDeleting(check); err != nil {
		return err
	}
	s.wake()
	s.openReserve()
	return nil
}

// openParts makes the folders and opens commit log and state database.
func (s *Store) openParts() (err error) {
	// The data directory itself, too: whoever made it may have died before its
	// name was safe. Not earlier: a format that is not ours is left alone.
	for _, dir := range []string{"", logDir, stateDir, indexDir} {
		if err := vfs.MakeDir(s.cfg.FS, s.path(dir)); err != nil {
			return err
		}
	}
	s.chooseLogWrites()
	var report commitlog.Report
	s.log, report, err = commitlog.Open(commitlog.Config{
		FS: s.cfg.FS, Dir: s.path(logDir), FileSize: s.cfg.FileSize,
		Durability: s.cfg.Durability, FlushInterval: s.cfg.FlushInterval, Direct: s.cfg.Direct,
		KeepsNewest: s.format.version >= newestFormat,
	})
	if err != nil {
		return err
	}
	// Of a directory that older versions wrote; on a full disk at a later start.
	_ = s.noteWriter()
	s.tellCut(report)
	s.db, err = statedb.Open(statedb.Config{
		FS: s.cfg.FS, Dir: s.path(stateDir), CacheSize: s.cfg.StateCache, MemTableSize: s.cfg.StateMemTable,
		FlushLog:  func() error { return s.log.Flush(s.life) },
		OnFailure: s.failed,
	})
	return err
}

// chooseLogWrites decides for or against Direct, for this run.
func (s *Store) chooseLogWrites() {
	var why error
	if s.cfg.Direct && s.cfg.ProbeDirect {
		why = s.cfg.FS.TryDirect(s.path(logDir))
		s.cfg.Direct = why == nil
	}
	if s.cfg.Direct && s.cfg.ReadCache > 0 {
		s.blocks = blocks.New(s.cfg.ReadCache, s.readBlocks)
	}
	if s.cfg.Events.LogWrites != nil {
		s.cfg.Events.LogWrites(s.cfg.Direct, why)
	}
}

// Direct tells if large pieces of the log pass the system's page cache by.
func (s *Store) Direct() bool { return s.cfg.Direct }

// tellCut reports a torn tail.
func (s *Store) tellCut(r commitlog.Report) {
	if r.CutBytes > 0 && s.cfg.Events.TailCut != nil {
		s.cfg.Events.TailCut(r.CutAt.File, r.CutAt.Pos, r.CutBytes)
	}
}

// openReserve looks for the reserve file; watchSpace makes it if it is missing.
func (s *Store) openReserve() {
	info, err := s.cfg.FS.Stat(s.path(reserveName))
	s.space.held = err == nil && info.Size >= s.cfg.Reserve
}

// openTables reads the directories of the index files, also those whose log file is
// gone, and removes what a crash in the middle of settling left.
func (s *Store) openTables(check *fileCheck) (tables []*index.Table, err error) {
	names, err := s.cfg.FS.List(s.path(indexDir))
	if err != nil {
		return nil, err
	}
	for _, name := range names { // sorted, so by file
		if strings.HasSuffix(name, tmpSuffix) {
			if err := s.cfg.FS.Remove(s.path(indexDir, name)); err != nil {
				return nil, err
			}
			continue
		}
		id, ok := parseIndexName(name)
		if !ok {
			continue
		}
		dir, err := s.readIndex(id)
		if err != nil {
			return nil, err
		}
		check.Indexes[id] = false
		t := s.newTable(id, dir)
		s.files.add(id, t)
		tables = append(tables, t)
		for _, e := range dir.Shards {
			if int(e.Shard) < len(s.shards) {
				sh := s.shards[e.Shard]
				sh.settled.Store(max(sh.settled.Load(), e.Index))
			}
		}
	}
	s.files.passed(check.SettledThrough())
	return tables, s.refuse(check.Missing())
}

func (s *Store) readIndex(id uint64) (*index.Directory, error) {
	return s.readTable(s.path(indexDir, indexName(id)), index.MagicIndex, id)
}

// load reads what the state database and the tables have of the shard; logs are the
// log files that are there.
func (sh *Shard) load(tables []*index.Table, logs map[uint64]bool) error {
	db := sh.store.db
	applied, err := db.Applied(sh.id)
	if err != nil {
		return err
	}
	sh.conf, sh.term = applied.Conf, applied.Term
	sh.applied.Store(applied.Index)
	if sh.runs, err = db.Runs(sh.id); err != nil {
		return err
	}
	settled := sh.settled.Load()
	sh.forget.Store(settled)
	if settled > applied.Index {
		return rhumb.Errorf(rhumb.KindCorrupt, "files have settled up to entry %d, the state database is at %d", settled, applied.Index)
	}
	err = db.Partitions(sh.id, func(id rhumb.PartitionID, start rhumb.Offset) error {
		sh.parts[id] = index.NewPartition(index.Key{Shard: sh.id, Partition: id}, start)
		return nil
	})
	if err != nil {
		return err
	}
	if err := sh.loadParts(tables); err != nil {
		return err
	}
	return sh.loadRefs(settled, logs)
}

// loadRefs reads the rows of batches that have not settled.
func (sh *Shard) loadRefs(settled uint64, logs map[uint64]bool) error {
	through := sh.store.files.settledThrough()
	return sh.store.db.Refs(sh.id, func(id rhumb.PartitionID, r index.Ref) error {
		if r.File == 0 && r.Raft <= settled || r.File != 0 && r.File <= through {
			return nil // a row of a settled file, whose deletion the crash took back
		}
		ix := sh.parts[id]
		if ix == nil {
			return rhumb.Errorf(rhumb.KindCorrupt, "index row of partition %d, which does not exist", id)
		}
		r.Source = sh.source(*r.Source)
		switch {
		case r.Last() < ix.Start():
			return nil
		case r.File != 0 && !logs[r.File]:
			return rhumb.Errorf(rhumb.KindCorrupt, "log file %016x, which holds partition %d from offset %d on, is missing", r.File, id, r.Base)
		case !ix.Append(r):
			return rhumb.Errorf(rhumb.KindCorrupt, "index row of partition %d at %d lies below its end %d", id, r.Base, ix.End())
		}
		return nil
	})
}

// replay reads the log's files that have not settled.
func (s *Store) replay() error {
	first := true
	return s.log.Replay(s.files.settledThrough()+1, func(f *commitlog.Frame, locs []commitlog.Location) error {
		if f.Kind == commitlog.KindCheckpoint {
			if first { // later ones repeat what the frames before them said
				s.replayCheckpoint(f.Checkpoint)
			}
			first = false
			return nil
		}
		if int(f.Shard) >= len(s.shards) {
			return rhumb.Errorf(rhumb.KindCorrupt, "storage: frame of shard %d, there are %d", f.Shard, len(s.shards))
		}
		if len(locs) > 0 {
			s.files.sawFile(locs[0].File, func() {})
		}
		sh := s.shards[f.Shard]
		if f.HardState != nil {
			sh.hard = f.HardState
		}
		switch f.Kind {
		case commitlog.KindEntries:
			return sh.replayEntries(f.Entries, locs)
		case commitlog.KindSnapshotData:
			sh.replaySnapshotData(f, locs)
		case commitlog.KindSnapshot:
			return sh.replaySnapshot(f)
		}
		return nil
	})
}

func (s *Store) replayCheckpoint(states []commitlog.ShardState) {
	for i := range states {
		if st := &states[i]; int(st.Shard) < len(s.shards) {
			s.shards[st.Shard].hard = st.HardState()
		}
	}
}

// replayEntries notes entries that were saved, which cancel what was known from
// their first one's index on. That is also right for a copy (see copyForward): it
// reaches to the last entry of its time, so it cancels only what it brings again.
//
// Replay starts with the first unsettled file, so it knows the entries that there
// were when a frame was written, but only those above the base. That file may
// begin with entries which a later frame cancels together with the ones of settled
// files before them: then the frame lies below the base, and cancels all.
func (sh *Shard) replayEntries(entries []*raftpb.Entry, locs []commitlog.Location) error {
	t := &sh.entries
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	known := t.last() > 0
	switch {
	case first == 0 || known && first > t.last()+1, sh.pending != nil && first <= sh.pending.meta.GetIndex():
		return rhumb.Errorf(rhumb.KindCorrupt, "storage: shard %d: log file %016x has entry %d of term %d after entries %d to %d",
			sh.id, locs[0].File, first, entries[0].GetTerm(), t.base+1, t.last())
	case !known || first <= t.base:
		t.reset(first-1, 0) // the base's term is known when all is
	default:
		t.cut(first - 1)
	}
	for i, e := range entries {
		t.slots = append(t.slots, slot{term: e.GetTerm(), size: uint32(len(e.GetData())), kind: e.GetType(), loc: locs[i]})
	}
	return nil
}

// finishReplay checks that log and state database fit, and completes what Raft
// starts from. end is the last entry that the log knows of, in settled files or not.
func (sh *Shard) finishReplay(end uint64) error {
	if err := sh.completeInstall(); err != nil {
		return err
	}
	t := &sh.entries
	applied := sh.applied.Load()
	if len(t.slots) == 0 && t.base < applied {
		t.base, t.baseTerm = applied, sh.term
	}
	switch {
	case t.base > applied:
		return rhumb.Errorf(rhumb.KindCorrupt, "the log begins at entry %d, the state database is at %d", t.base+1, applied)
	case end < applied:
		return rhumb.Errorf(rhumb.KindCorrupt, "the log ends at entry %d, the state database is at %d", end, applied)
	}
	if len(t.slots) > 0 && t.base > 0 {
		t.baseTerm = sh.termOf(t.base)
	}
	if err := sh.checkRefs(); err != nil {
		return err
	}
	t.flushed = t.last() // Open has flushed all that it kept
	commit := min(max(sh.hard.GetCommit(), applied), t.last())
	sh.hard = &raftpb.HardState{Term: new(max(sh.hard.GetTerm(), sh.term)), Vote: new(sh.hard.GetVote()), Commit: new(commit)}
	sh.tellConf()
	return nil
}

// termOf gives the term of an applied entry, from the term runs.
func (sh *Shard) termOf(index uint64) (term uint64) {
	for _, r := range sh.runs {
		if r.Index > index {
			break
		}
		term = r.Term
	}
	return term
}
