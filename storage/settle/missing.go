package settle

import (
	"fmt"
	"maps"
	"slices"
)

// LogFile is a file of the commit log.
type LogFile struct {
	ID   uint64
	Prev uint64 // the file before it when it was begun, 0 if unknown or none
	// Short is how many bytes its end lacks: it counts as if it were not there.
	Short int64
}

// Files is what is there of a data directory's log and indexes, and what the state
// database knows of them.
type Files struct {
	Logs    []LogFile       // with frames in them, by id
	Indexes map[uint64]bool // true: a log start has not passed all that the file holds
	Settled []uint64        // files that have settled and were not to be deleted, by id
	// Through: all files up to it have settled; Newest: a file that there was. Known is
	// false if the database has neither, nor Settled: it is from an older version.
	Through, Newest uint64
	Known           bool
}

// Missing is a file that should be there.
type Missing struct {
	File  uint64
	Index bool  // its index; else the log file
	Short int64 // only so many bytes at the end of the log file are missing, if not 0
}

// Name is its name in the data directory.
func (m Missing) Name() string {
	if m.Index {
		return fmt.Sprintf("index/%016x.idx", m.File)
	}
	return fmt.Sprintf("log/%016x.log", m.File)
}

// SettledThrough gives the file up to which all have settled or are gone.
func (f *Files) SettledThrough() uint64 {
	through := f.Through
	for id := range f.Indexes {
		through = max(through, id)
	}
	if first := f.firstUnsettled(through); !f.Known && first != nil {
		// Nothing else tells of settled files behind the last index: those that were
		// deleted.
		through = max(through, first.Prev)
	}
	return through
}

func (f *Files) firstUnsettled(through uint64) *LogFile {
	for i := range f.Logs {
		if f.Logs[i].ID > through {
			return &f.Logs[i]
		}
	}
	return nil
}

// Deleted tells if a log file that is there was to be deleted: it has settled, and
// has neither index nor row. Its index went, and something held the file, or a crash
// took its removal back.
func (f *Files) Deleted(file uint64) bool {
	_, indexed := f.Indexes[file]
	return !indexed && file <= f.SettledThrough() && !f.settled(file)
}

func (f *Files) settled(file uint64) bool {
	_, ok := slices.BinarySearch(f.Settled, file)
	return ok
}

// Missing gives what is not there and was not deleted as no longer needed. A file
// is deleted in this order: its row, safely; the log file, safely; its index. So a log
// file may miss if it has no row, but not while its index says that something of it
// is needed. Files that have not settled are never deleted: each names the one before
// it, and the newest that there was is known.
func (f *Files) Missing() (missing []Missing) {
	logs, short := map[uint64]bool{}, map[uint64]int64{} // whole ones, and others
	newest := uint64(0)
	for _, l := range f.Logs {
		newest = max(newest, l.ID)
		if logs[l.ID] = l.Short == 0; !logs[l.ID] {
			short[l.ID] = l.Short
		}
	}
	lost := map[uint64]bool{}
	through := f.SettledThrough()
	for id, live := range f.Indexes {
		if live && !logs[id] {
			lost[id] = true
		}
	}
	for _, id := range f.Settled {
		if !logs[id] {
			lost[id] = true
		}
	}
	for _, l := range f.Logs {
		_, indexed := f.Indexes[l.ID]
		switch {
		case l.ID > through:
			if l.Prev > through && !logs[l.Prev] {
				lost[l.Prev] = true
			}
		case !indexed && (f.settled(l.ID) || !f.Known):
			missing = append(missing, Missing{File: l.ID, Index: true})
		}
	}
	if newest < f.Newest {
		lost[f.Newest] = true
	}
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		missing = append(missing, Missing{File: id, Short: short[id]})
	}
	return missing
}
