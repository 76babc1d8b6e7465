package inspect

import (
	"errors"
	"path/filepath"

	"github.com/rhumbmq/rhumb/storage/commitlog"
)

// lookAtLog reads one file of the commit log.
func (l *look) lookAtLog(name string) {
	l.report.Logs++
	l.out.linef("%s", name)
	rep, err := commitlog.ScanFile(l.fs, filepath.Join(l.dir, name), func(pos int64, f *commitlog.Frame, _ []commitlog.Location) error {
		l.report.Frames++
		l.dumpFrame(pos, f)
		return nil
	})
	if err != nil {
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

// judgeLogs tells torn tails from damage: damage lies below a flushed mark, or
// before where the next file says that the frames end.
func (l *look) judgeLogs() {
	var mark commitlog.Mark
	for _, f := range l.logs {
		if mark.Less(f.report.Mark) {
			mark = f.report.Mark
		}
	}
	for i, f := range l.logs {
		end := commitlog.Mark{File: f.report.ID, Pos: f.report.End}
		promised := int64(0)
		if i+1 < len(l.logs) && l.logs[i+1].report.Prev.File == f.report.ID {
			promised = l.logs[i+1].report.Prev.Pos
		}
		p := Problem{File: f.name, Pos: f.report.End, What: f.report.Reason}
		switch {
		case end.Less(mark) && mark.File == end.File || f.report.End < promised:
			if p.What == "" {
				p.What = "frames are missing"
			}
		case f.report.Beyond > 0:
			p.Torn = true
		default:
			continue
		}
		l.problem(p)
	}
}
