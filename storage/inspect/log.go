package inspect

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/storage/commitlog"
)

// lookAtLog reads one file of the commit log.
func (l *look) lookAtLog(name string) {
	l.report.Logs++
	l.out.linef("%s", name)
	rep, err := commitlog.ScanFile(l.fs, filepath.Join(l.dir, name), func(pos int64, f *commitlog.Frame, _ []commitlog.Location) error {
		l.report.Frames++
		l.dumpFrame(pos, f)
		l.follow(f)
		return nil
	})
	if err != nil {
		l.unread[fileID(name)] = true
		p := Problem{File: name, Pos: -1, What: err.Error()}
		var damage *commitlog.CorruptError
		if errors.As(err, &damage) {
			p.Pos, p.What = damage.Pos, damage.Reason
		}
		l.problem(p)
		return
	}
	l.detailf("  frames end at %d of %d, flushed mark %v", rep.End, rep.Size, rep.Mark)
	l.logs = append(l.logs, logFile{name, rep})
}

// follow notes where each shard's log ends after a frame.
func (l *look) follow(f *commitlog.Frame) {
	for i := range f.Checkpoint {
		l.ends[f.Checkpoint[i].Shard] = f.Checkpoint[i].Last
	}
	if n := len(f.Entries); n > 0 && f.Kind != commitlog.KindSnapshotData {
		l.ends[f.Shard] = f.Entries[n-1].GetIndex()
	}
}

// fileID reads the id in the name of a log or index file, 0 if it has none.
func fileID(name string) uint64 {
	base := filepath.Base(name)
	id, err := strconv.ParseUint(strings.TrimSuffix(base, filepath.Ext(base)), 16, 64)
	if err != nil {
		return 0
	}
	return id
}

func (l *look) dumpFrame(pos int64, f *commitlog.Frame) {
	if f.Kind == commitlog.KindCheckpoint {
		l.detailf("  %10d checkpoint of %d shards", pos, len(f.Checkpoint))
		for i := range f.Checkpoint {
			s := &f.Checkpoint[i]
			l.detailf("             shard %d term %d vote %d commit %d entries %d to %d (term %d)",
				s.Shard, s.Term, s.Vote, s.Commit, s.Compacted+1, s.Last, s.LastTerm)
		}
		return
	}
	l.detailf("  %10d %v shard %d", pos, f.Kind, f.Shard)
	if hs := f.HardState; hs != nil {
		l.detailf("             hard state term %d vote %d commit %d", hs.GetTerm(), hs.GetVote(), hs.GetCommit())
	}
	for _, e := range f.Entries {
		l.report.Entries++
		l.detailf("             entry %d term %d %v %d bytes", e.GetIndex(), e.GetTerm(), e.GetType(), len(e.GetData()))
	}
}

// judgeLogs tells torn tails from damage, which lies below the highest flushed mark.
// Files before that one were flushed to their end, which the next file tells.
func (l *look) judgeLogs() {
	var mark commitlog.Mark
	for _, f := range l.logs {
		if mark.Less(f.report.Mark) {
			mark = f.report.Mark
		}
	}
	for i, f := range l.logs {
		r := &f.report
		var end, flushed int64
		if i+1 < len(l.logs) && l.logs[i+1].report.Prev.File == r.ID {
			end = l.logs[i+1].report.Prev.Pos
		}
		switch {
		case mark.File == r.ID:
			flushed = mark.Pos
		case mark.File > r.ID:
			flushed = max(end, r.Beyond, 1)
		}
		if r.Beyond == 0 && r.End >= max(end, flushed) {
			continue
		}
		p := Problem{File: f.name, Pos: r.End, What: r.Reason, Torn: r.End >= flushed}
		if p.What == "" {
			p.What = "frames are missing"
		}
		l.problem(p)
	}
}
