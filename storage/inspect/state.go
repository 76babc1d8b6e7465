package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/settle"
	"github.com/rhumbmq/rhumb/storage/statedb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	logFolder   = "log"
	stateFolder = "state"
	// stateAttempts is how often the state database is opened: one in use may take
	// files away meanwhile.
	stateAttempts = 3
	// maxHintDepth and maxHintFolders bound the search for data directories.
	maxHintDepth   = 4
	maxHintFolders = 1000
)

// judgeFiles compares the files that are there with what the state database knows of
// them, by the rules by which a store opens, and its applied indexes with the log.
func (l *look) judgeFiles() {
	files := settle.Files{Indexes: map[uint64]bool{}}
	for _, f := range l.logs {
		if f.report.End > 0 { // else prepared, and not begun
			files.Logs = append(files.Logs, settle.LogFile{ID: f.report.ID, Prev: f.report.Prev.File})
		}
	}
	for id, dir := range l.indexes {
		files.Indexes[id] = dir == nil || len(dir.Parts) > 0
	}
	if err := l.readState(&files); err != nil {
		l.problem(Problem{File: stateFolder, Pos: -1, What: err.Error()})
	}
	missing := files.Missing()
	lost, gone, err := commitlog.LostNewest(l.fs, filepath.Join(l.dir, logFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.problem(Problem{File: logFolder, Pos: -1, What: err.Error()})
	}
	if gone && l.report.Format.KeepsNewest() {
		l.problem(Problem{File: filepath.Join(logFolder, "NEWEST"), Pos: -1, What: "missing or unreadable: whether the newest log file is there cannot be told; put it back, or see 'rhumb log renew --help'"})
	}
	for _, id := range lost {
		if m := (settle.Missing{File: id}); !slices.Contains(missing, m) {
			missing = append(missing, m)
		}
	}
	for _, m := range missing {
		if !m.Index && l.unread[m.File] {
			continue // there, and reported as what it is
		}
		l.problem(Problem{File: m.Name(), Pos: -1, What: "missing, and not deleted by retention"})
	}
}

// readState gathers what the state database knows.
func (l *look) readState(files *settle.Files) error {
	var db *statedb.DB
	var err error
	for range stateAttempts {
		if db, err = statedb.OpenReadOnly(l.fs, filepath.Join(l.dir, stateFolder)); err == nil {
			break
		}
	}
	if err != nil {
		_, gone := l.fs.Stat(filepath.Join(l.dir, stateFolder))
		if len(l.indexes) == 0 && (errors.Is(err, statedb.ErrNotMade) || errors.Is(gone, fs.ErrNotExist)) {
			return nil // not made yet: nothing has settled
		}
		return err
	}
	defer db.Close()
	found, err := db.Check()
	if err != nil {
		return err
	}
	for _, d := range found {
		l.problem(Problem{File: filepath.Join(stateFolder, d.File), Pos: -1, What: d.What})
	}
	if err = l.readRows(db, files); rhumb.KindOf(err) == rhumb.KindCorrupt && len(found) > 0 {
		return nil // told, with the file
	}
	return err
}

// readRows gathers what the rows of the state database say.
func (l *look) readRows(db *statedb.DB, files *settle.Files) (err error) {
	if files.Settled, err = db.Files(); err != nil {
		return err
	}
	ends, known, err := db.LogEnds()
	if err != nil {
		return err
	}
	files.Through, files.Newest, files.Known = ends.Through, ends.Newest, known
	if err := l.judgeSegments(db); err != nil {
		return err
	}
	settled := map[rhumb.ShardID]uint64{}
	for _, dir := range l.indexes {
		if dir == nil {
			continue
		}
		for _, e := range dir.Shards {
			settled[e.Shard] = max(settled[e.Shard], e.Index)
		}
	}
	starts, compacted := map[index.Key]rhumb.Offset{}, map[index.Key]statedb.Compaction{}
	for shard := rhumb.ShardID(0); int(shard) <= l.report.Format.Shards; shard++ {
		err := db.Partitions(shard, func(p rhumb.PartitionID, start rhumb.Offset) error {
			starts[index.Key{Shard: shard, Partition: p}] = start
			return nil
		})
		if err != nil {
			return err
		}
		err = db.Compactions(shard, func(p rhumb.PartitionID, c statedb.Compaction) error {
			compacted[index.Key{Shard: shard, Partition: p}] = c
			return nil
		})
		if err != nil {
			return err
		}
		a, err := db.Applied(shard)
		if err != nil {
			return err
		}
		if end := l.ends[shard]; a.Index > end {
			l.problem(Problem{File: stateFolder, Pos: -1, What: fmt.Sprintf("shard %d: applied is entry %d, the log ends at entry %d", shard, a.Index, end)})
		}
		if through := settled[shard]; through > a.Index { // a state database that was lost, and made anew
			l.problem(Problem{File: stateFolder, Pos: -1, What: fmt.Sprintf("shard %d: files have settled up to entry %d, the state database is at %d", shard, through, a.Index)})
		}
	}
	for id, dir := range l.indexes {
		files.Indexes[id] = dir != nil && slices.ContainsFunc(dir.Parts, func(p *index.Part) bool {
			start, ok := starts[p.Key]
			c, is := compacted[p.Key]
			return ok && p.Last >= start && (!is || c.Counts(id, p.Base))
		})
	}
	return nil
}

// judgeSegments compares the segments that are there with those that must be.
func (l *look) judgeSegments(db *statedb.DB) error {
	rows, err := db.Segments()
	for _, id := range rows {
		name := filepath.Join("segments", fmt.Sprintf("%016x.seg", id))
		if _, err := l.fs.Stat(filepath.Join(l.dir, name)); errors.Is(err, fs.ErrNotExist) {
			l.problem(Problem{File: name, Pos: -1, What: "missing, and not deleted by compaction"})
		}
	}
	return err
}

// hint names the folders below dir that look like data directories.
func hint(fsys vfs.FS, dir string) string {
	var found []string
	folders := []string{""}
	for n := 0; n < len(folders) && n < maxHintFolders; n++ {
		names, err := fsys.List(filepath.Join(dir, folders[n]))
		if err != nil {
			continue
		}
		if slices.Contains(names, "FORMAT") {
			found = append(found, folders[n])
			continue
		}
		if strings.Count(filepath.Join(folders[n], "x"), string(filepath.Separator)) >= maxHintDepth {
			continue
		}
		for _, name := range names {
			sub := filepath.Join(folders[n], name)
			if info, err := fsys.Stat(filepath.Join(dir, sub)); err == nil && info.IsDir {
				folders = append(folders, sub)
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return "; below it these look like data directories: " + strings.Join(found, ", ")
}
